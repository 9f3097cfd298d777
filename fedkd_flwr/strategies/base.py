"""The server's side of every exchange: one trip per round, a record of it, and what it claims about privacy.

    configure_train    what the last round left                    ->  every chosen party, a fresh record each
    (client)           learn, label the public rows, make private  ->  reply
    aggregate_train    open each reply at the door (reject with a reason) -> combine
    last round only:   configure_evaluate sends the final result; parties finish and report what they may

What a round sends, how a reply is read and what answers combine to is each algorithm's own;
`fedkd_flwr.strategies.label_exchange` says it for labels on all public rows. The strategy owns the state between
rounds: Flower's loop carries a copy of it, which becomes ``Result.arrays``.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from logging import INFO, WARN
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, ExchangeConfig
from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.data.public import PublicSet, check_test_rows
from fedkd_flwr.errors import SETTLED, ConfigError, TooFewPartiesError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.record.run_record import NOT_READY, Doing, Rejection, RoundRecord, RunRecord, now_text
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.participations import Participations
from fedkd_flwr.strategies.reception import Answered, Reception, registered_names
from fedkd_flwr.strategies.resuming import Checkpoints
from fedkd_flwr.strategies.waiting import Readiness, WatchedGrid, wait_for_nodes
from fedkd_flwr.wire.envelope import PublicSpec, digests
from fedkd_flwr.wire.records import Reply, Room, Scalar, array_bytes, instruction_record, open_reply

__all__ = ["Collaborators", "ExchangeStrategy", "checked_test"]

Stage = Literal["fit", "evaluate"]
_SETTLE_S = 3.0
_MAX_ARRAYS = 16  # of a reply without weights: ours have up to three
_SLACK = 2**20  # bytes of a reply for headers, names and metrics


def _as_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    return {name: Array(array) for name, array in arrays.items()}


def new_record(card: Card) -> RunRecord:
    """Return an empty record of a run of this algorithm."""
    return RunRecord(run_id="", algorithm=card.name, sends=card.sends, returns=card.returns, one_shot=card.one_shot)


def checked_test(
    test: tuple[NDArray[Any], NDArray[Any]] | None, public: PublicSet
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the server's test rows as arrays; raise DataError, before anybody answers, where they fit no model."""
    if test is None:
        return None
    X, y = np.asarray(test[0]), np.asarray(test[1])
    check_test_rows("test", X, y, public)
    return X, y


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What an app can hand to a strategy that it makes; a strategy takes what it needs (`ExchangeStrategy.assemble`).

    Parameters
    ----------
    final_model : callable
        ``final_model()`` returns what makes the server's model.
    global_model : callable
        ``global_model()`` returns what makes the net whose weights go round.
    party_rows : callable
        ``party_rows()`` returns how many rows each party holds; none where the server does not know.
    test : (X, y), optional
        Rows to measure the server's model on.
    ledger, budget : LedgerStore and Budget
        What noise at this server has cost so far, and the most it may.
    fraction : float
        Share of the parties asked in a round.
    """

    final_model: Callable[[], Callable[..., Classifier]]
    global_model: Callable[[], Callable[..., Classifier]]
    party_rows: Callable[[], Sequence[int]]
    test: tuple[NDArray[Any], NDArray[Any]] | None
    ledger: LedgerStore
    budget: Budget
    fraction: float = 1.0


class ExchangeStrategy(Strategy, Generic[Answered]):
    """Base of all strategies. Subclasses say what is sent, how replies are read, and what answers combine to.

    Parameters
    ----------
    fraction_train, fraction_evaluate : float
        Share of the nodes asked in each round, and at the end. Sampling is seeded and goes by party name; where no
        names are given beforehand (``names``), the first round asks everybody.
    min_train_nodes : int
        Fewest valid replies a round needs; fewer fail the run.
    min_evaluate_nodes : int
        Fewest replies to the final result; fewer are only logged.
    min_available_nodes : int
        Nodes to wait for before the first round; 0: until their number is stable.
    config : ExchangeConfig
        The algorithm's settings; its defaults if not given.
    public : PublicSet
        The public rows every party holds too.
    record : RunRecord, optional
        Where the run is written down; a new one if not given.
    names : mapping of int to str, optional
        Party names by node id, where they are known before the first reply.
    nodes : sequence of int
        The nodes to ask, where somebody has waited for them already.
    readiness : Readiness, optional
        Who asked the nodes before the first round whether they are ready. Those that are not are not asked for
        anything else, and named in each round; they are asked whether they are ready again while others answer.
    on_round : callable, optional
        ``on_round(record)`` is called just before the messages of each round leave, after each round, before and after
        the final result goes out, and when the run has ended or failed: to keep the record as it grows, for example
        with `fedkd_flwr.stores.record_file.RecordFile`. What it raises ends the run, and nothing is sent.
    checkpoint : Path, optional
        Folder where the server's state is kept after each round (`fedkd_flwr.strategies.resuming`).
    resume_from : Path, optional
        Such a folder of an earlier run with the same settings, which this one continues; ``num_rounds`` of `start`
        counts its rounds too.

    Attributes
    ----------
    record : RunRecord
        What happened.
    claims : list of PrivacyClaim
        What the run claims about privacy, after `start`; also where it failed: what was released is spent.
    """

    card: ClassVar[Card]
    config: ExchangeConfig
    free_settings: ClassVar[frozenset[str]] = frozenset({"node_settle_s", "node_deadline_s"})
    """Settings that may differ in a run that continues another."""
    takes_latecomers = True
    """Whether nodes that come after the first round are asked in the rounds after it."""
    takes_weights = False
    """Whether `start` begins with the weights that it is given."""

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 0,
        min_available_nodes: int = 0,
        *,
        config: ExchangeConfig | None = None,
        public: PublicSet,
        record: RunRecord | None = None,
        names: Mapping[int, str] | None = None,
        nodes: Sequence[int] = (),
        readiness: Readiness | None = None,
        on_round: Callable[[RunRecord], None] | None = None,
        checkpoint: Path | None = None,
        resume_from: Path | None = None,
    ) -> None:
        check_number("fraction_train", fraction_train, above=0.0, most=1.0)
        check_number("fraction_evaluate", fraction_evaluate, above=0.0, most=1.0)
        check_whole("min_train_nodes", min_train_nodes, 1)
        check_whole("min_evaluate_nodes", min_evaluate_nodes, 0)
        check_whole("min_available_nodes", min_available_nodes, 0)
        if min_available_nodes and min_train_nodes > min_available_nodes:
            way_out = "Lower min-parties or raise num-parties."
            raise ConfigError(explain("min_train_nodes", f"be at most {min_available_nodes}", min_train_nodes, way_out))
        self.fraction_train, self.fraction_evaluate = fraction_train, fraction_evaluate
        self.min_train_nodes, self.min_evaluate_nodes = min_train_nodes, min_evaluate_nodes
        self.min_available_nodes = min_available_nodes
        self.config = self._checked(config)
        self.public = public
        self.spec = PublicSpec(
            num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint
        )
        self.record = record if record is not None else new_record(self.card)
        self._say_what_was_asked()
        if (checkpoint or resume_from) and not self.record.run_id:
            way_out = "Give record=RunRecord(run_id=str(context.run_id), algorithm=...): parties know a run by its id."
            raise ConfigError(explain("record", "name its run where a checkpoint is given", "", way_out))
        self.claims: list[PrivacyClaim] = []
        self.names = {**(names or {}), **(readiness.believed() if readiness is not None else {})}
        self.on_round = on_round
        self.times_asked: Counter[int] = Counter()  # rounds each node was asked in: what it may have said
        self.earlier = Participations()  # of the runs that this one continues
        self.finished_round: int | None = None  # set when nothing more can change
        self.fell_short: TooFewPartiesError | None = None  # why the run ended before its last round, with a result
        self.num_rounds = 1
        self.rounds_done = 0  # rounds of an earlier run that this one continues: numbers go on from there
        self.checkpoints = Checkpoints(checkpoint, resume_from)
        self._nodes: list[int] = list(nodes)
        self.readiness = readiness
        self._seen: set[int] = set()  # nodes that there were before or in an earlier round
        self._asked: list[int] = []
        self._offline: list[int] = []
        self._reception: Reception[Answered] = Reception(self.read)
        self._held: dict[str, Mapping[str, NDArray[Any]]] = {}  # party -> what its next answer may give changes to
        self._began = self._round_start = 0.0
        # Message class; LegacyStrategy replaces it, because Flower's old API has no task context
        self.envelope: Callable[..., Any] = Message

    @classmethod
    def assemble(cls, given: Collaborators, **keywords: Any) -> Self:
        """Return the strategy of an app's run; overridden by strategies that take more than ``keywords``."""
        return cls(**keywords)

    def _say_what_was_asked(self) -> None:
        """Write down what the record's figures are shares of, where nobody has."""
        record, public = self.record, self.public
        if not record.num_public:
            record.num_public, record.num_classes = public.num_rows, public.num_classes
            record.classes, record.fingerprint = list(public.schema.classes), public.fingerprint
        record.seed = record.seed or self.config.seed

    def _checked(self, config: ExchangeConfig | None) -> ExchangeConfig:
        """Return the settings, the defaults where none are given; refuse those of another algorithm."""
        wanted = self.card.config
        if config is not None and not isinstance(config, wanted):
            rule = f"be a {wanted.__name__} for {type(self).__name__}"
            raise ConfigError(explain("config", rule, type(config).__name__))
        made: ExchangeConfig = config if config is not None else wanted()
        return made

    # ---------------------------------------------------------------- what an algorithm says

    @abstractmethod
    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the wire arrays every chosen party gets, by payload name."""

    @abstractmethod
    def read(self, reply: Reply, server_round: int) -> Answered:
        """Open what a reply carries; raise `PayloadError` where it cannot be counted."""

    @abstractmethod
    def combine_answers(self, server_round: int, answers: Sequence[Answered], this: RoundRecord) -> ArrayRecord:
        """Turn the valid answers of a round, in party-name order, into the strategy's next state; return a copy of it.

        Flower's loop carries the copy, and returns the last one as ``Result.arrays``; nothing is read from it.
        """

    @cached_property
    def told_config(self) -> ExchangeConfig:
        """The settings as parties are told them, with the noise found; known once the number of rounds is."""
        return self.config.resolved(
            num_public=self.spec.num_public, num_classes=self.spec.num_classes, num_rounds=self.num_rounds
        )

    def catching_up(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return what a party that missed the last round gets besides, by payload name."""
        return {}

    def told(self, node: int) -> Mapping[str, Scalar]:
        """Return the settings that only this node gets: the base the server holds of its answers."""
        held = self._held.get(self.name_of(node))
        return {} if held is None else {"base": digests(held.values())}

    def rounds_left(self, server_round: int) -> int:
        """Return in how many rounds a party is going to be asked from this one on: its budget should cover them all.

        Where rounds ask a share of the parties, it is their share of the rounds.
        """
        return max(1, math.ceil(self.fraction_train * (self.num_rounds - server_round + 1)))

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 8 bytes for each public row and class, twice over, and some."""
        rows, classes = self.spec.num_public, self.spec.num_classes
        return Room(arrays=_MAX_ARRAYS, num_bytes=_SLACK + 16 * classes * (rows + classes))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what the next round needs besides what `combine_answers` returned: arrays, and plain JSON values."""
        return {}, {}

    def restore(
        self, result: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
    ) -> None:
        """Take up what `combine_answers` returned after the last round, and the `state` of that time."""

    def claim(self) -> list[PrivacyClaim]:
        """Return what this run may claim about privacy, from the rounds it asked for."""
        return []

    def check_budget(self, server_round: int) -> None:
        """Refuse a round whose release the server's own budget does not cover."""

    # ---------------------------------------------------------------- Flower's loop

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 1,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Any = None,
        **later: Any,
    ) -> Result:
        """Wait for the nodes, run the exchange, and return Flower's result; the rest is in ``record``.

        Parameters
        ----------
        grid, num_rounds, timeout, train_config, evaluate_config, evaluate_fn, **later
            As in Flower's ``Strategy.start``, but one round is the default; ``train_config`` reaches the parties beside
            our own settings.
        initial_arrays : ArrayRecord, optional
            Weights to start from, where one net goes round; other algorithms have no use for any.

        Raises
        ------
        ConfigError
            If ``initial_arrays`` are given and the algorithm has no use for them.
        TooFewPartiesError
            If too few nodes register, or too few parties answer validly. From the second round on the result of the
            last good round has gone out by then, and this strategy holds it.
        """
        if initial_arrays and not self.takes_weights:
            rule, seen = f"be left out with {self.card.name}", f"{len(initial_arrays)} arrays"
            raise ConfigError(explain("initial_arrays", rule, seen, "Parties begin with models of their own."))
        self.check_rounds(num_rounds)
        left = num_rounds - self.rounds_done if self.finished_round is None else 0
        plan = (timeout, train_config, evaluate_config, evaluate_fn)
        initial_arrays = initial_arrays if initial_arrays is not None else ArrayRecord()
        try:
            self.prepare(grid, num_rounds)
            result = super().start(WatchedGrid(grid), initial_arrays, left, *plan, **later)
            if not left:  # the run that this one continues was lost after its last round
                messages = self.configure_evaluate(0, initial_arrays, evaluate_config or ConfigRecord(), grid)
                self.aggregate_evaluate(0, WatchedGrid(grid).send_and_receive(messages, timeout=timeout))
                result.arrays = ArrayRecord(_as_arrays(self.checkpoints.result))
            if self.fell_short is not None:
                raise self.fell_short
        except BaseException as error:
            self.conclude(error)
            raise
        self.conclude()
        return result

    def check_rounds(self, num_rounds: int) -> None:
        """Refuse a number of rounds that cannot be run, and a second run, before anybody is waited for."""
        check_whole("num_rounds", num_rounds, 1)
        self.checkpoints.resume(self, num_rounds)
        if self.card.one_shot and num_rounds != 1:
            way_out = "It is one-shot; use FedCT for several rounds."
            raise ConfigError(explain("num_rounds", f"be 1 for {self.card.name}", num_rounds, way_out))
        if len(self.record.rounds) > self.rounds_done:
            raise ConfigError(explain("a strategy", "start one run", "a second start", "Make a new one for each run."))

    def prepare(self, grid: Grid, num_rounds: int) -> None:
        """Wait for the nodes; the first round may follow."""
        self._began = began = time.monotonic()
        self.num_rounds = num_rounds
        self.record.status, self.record.doing = "running", Doing.START
        self.record.num_rounds = max(self.record.num_rounds, num_rounds)
        for found in ("told_config", "mechanism"):  # drop what was cached before num_rounds was known
            vars(self).pop(found, None)
        _ = self.told_config  # noise that cannot be found is refused before anybody is waited for
        self._nodes = self._nodes or wait_for_nodes(  # known where another strategy began this run
            grid,
            wanted=self.min_available_nodes,
            minimum=self.min_train_nodes,
            settle_s=self.config.node_settle_s or _SETTLE_S,
            deadline_s=self.config.node_deadline_s,
        )
        self._began = time.monotonic()
        self.record.startup_seconds += self._began - began
        self.checkpoints.begin(self)

    def conclude(self, error: BaseException | None = None) -> None:
        """Write down how the run ended, and what it claims: also where it failed, since what was released is spent."""
        self.record.close(error)
        self._tell()

    def _tell(self) -> None:
        """Bring the claims up to what was asked, and hand the record to whoever keeps it."""
        self.record.seconds = time.monotonic() - self._began
        self.claims = self.claim()
        self.record.claims = [claim.as_dict() for claim in self.claims]
        if self.on_round is not None:
            self.on_round(self.record)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send what the last round left to the chosen parties, a fresh record each."""
        server_round += self.rounds_done
        if self.finished_round is not None:
            log(INFO, "configure_train: finished in round %d, nothing to send", self.finished_round)
            return []
        self.check_budget(server_round)
        self._round_start = time.monotonic()
        now = self._present(grid)
        self._reception.registered = registered_names(WatchedGrid(grid).get_nodes())
        blind = self.config.privacy == "server"  # who is there may not change the noise of a mean, or who is drawn
        nodes = self.choose([node for node in self._nodes if blind or node in now], server_round)
        self._asked = nodes
        self.times_asked.update(nodes)
        self.checkpoints.asked(self)
        self._offline = [node for node in self._nodes if node not in now and node not in nodes]
        self.record.doing = Doing.ROUNDS
        self.record.rounds.append(this := RoundRecord(server_round=server_round, asked=len(nodes), ended=False))
        log(INFO, "configure_train: asking %d of %d parties", len(nodes), len(self._nodes))
        messages = self._messages("fit", "train", server_round, nodes, config)
        this.asked_at = now_text()
        self._tell()  # before anything leaves: a process that is killed says nothing afterwards
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Open each reply, leave bad ones out with a reason, and combine the others."""
        server_round += self.rounds_done
        if self.finished_round is not None:
            return None, None
        this = self.record.rounds[-1]
        answers = self._open(server_round, replies, this)
        if self._counted(answers, this) < self.min_train_nodes:
            error = TooFewPartiesError(self._too_few(len(answers), this))
            if len(self.record.rounds) == 1:  # there is no result yet
                raise error
            return self._end_early(server_round, error)
        arrays = self.combine_answers(server_round, answers, this)
        this.seconds, this.ended = time.monotonic() - self._round_start, True
        log(INFO, "%s", this.line(self.num_rounds))
        self.checkpoints.keep(self, server_round, arrays)
        self._tell()
        metrics: dict[str, Any] = {"num-parties": len(answers)}
        for key, value in (("agreement", this.agreement), ("labelled-share", this.labelled_share)):
            if value is not None:
                metrics[key] = value
        return arrays, MetricRecord(metrics)

    def _counted(self, answers: Sequence[Answered], this: RoundRecord) -> int:
        """Return how many parties count as there: those that answered, and beside noise at the server more.

        Everybody sees whether there is a result. There only what no private row decides may decide it, so a party
        counts unless it gave such a reason; where it gave no valid answer, its vote or update is missing.
        """
        if self.config.privacy != "server":
            return len(answers)
        asked = {str(node) for node in self._asked}
        count = this.asked - sum(r.node_id in asked and r.code in SETTLED for r in this.rejected)
        if len(answers) < self.min_train_nodes <= count:
            self.note(
                f"Only {len(answers)} of {this.asked} parties have a valid answer in round {this.server_round}, fewer "
                f"than min-parties ({self.min_train_nodes}). The result goes out all the same: beside noise at the "
                "server, what a party holds may not decide whether there is one."
            )
        return count

    def _end_early(self, server_round: int, error: TooFewPartiesError) -> tuple[None, None]:
        """End a run that lost its parties: the result of the last good round goes out, and then the run fails."""
        self.finished_round, self.fell_short = server_round, error
        self.record.rounds[-1].seconds = time.monotonic() - self._round_start
        good = self.record.rounds[-2].server_round
        self.note(
            f"Too few parties in round {server_round} of {self.num_rounds}: the run ends with the result of round "
            f"{good}, which the parties that are left get, and which is kept."
        )
        self._tell()
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the final result after the last round; nothing before it."""
        server_round += self.rounds_done
        if server_round != self.last_round:
            return []
        here = self._present(grid)
        nodes = self._sample([node for node in self._nodes if node in here], self.fraction_evaluate, -1)
        log(INFO, "configure_evaluate: sending the final result to %d parties", len(nodes))
        messages = self._messages("evaluate", "evaluate", server_round, nodes, config)
        self.record.doing, self.record.final_asked = Doing.FINAL, len(nodes)
        self._tell()
        return messages

    @property
    def last_round(self) -> int:
        """The round after which the final result goes out: the planned one, or where nothing can change any more."""
        return self.num_rounds if self.finished_round is None else self.finished_round

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Write down what the parties report: how good their models are, alone and with the federation."""
        opened = sorted((open_reply(m, "evaluate", self.room) for m in replies), key=lambda r: (r.party, r.node_id))
        if not opened:
            return None
        finished = 0
        for reply in opened:
            known = self.name_of(reply.node_id) == reply.party  # also one that no round has asked
            if code := self._reception.unbound(reply, known=known):
                failure, who = self._failure(reply), self._reception.named(reply) or reply.node_id
                why = code + (f": {failure}" if failure else "")
                log(WARN, "%s did not finish: %s", who, why)
                self.record.notes.append(f"{who} did not finish: {why}")
                continue
            if failure := self._failure(reply):
                self.note(f"{reply.party}: {failure}")
            finished += 1
            self.record.party(reply.party).report(reply.metrics, num_classes=self.spec.num_classes)
        if finished < self.min_evaluate_nodes:
            log(WARN, "only %d parties took the final result in, wanted %d", finished, self.min_evaluate_nodes)
        return MetricRecord({"num-parties": finished, **self.record.mean_accuracies()})

    def summary(self) -> None:
        """Log the settings."""
        log(INFO, "\t├──> %s: %s", self.card.title, self.config)
        fewest, spec = self.min_train_nodes, self.spec
        log(INFO, "\t├──> nodes: %d registered, at least %d valid replies a round", len(self._nodes), fewest)
        public = spec.num_public, spec.num_classes, spec.fingerprint[:16]
        log(INFO, "\t└──> public set: %d rows, %d classes, fingerprint %s", *public)

    # ---------------------------------------------------------------- inside

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return the server's generator for the stream called ``names``."""
        return derive_rng(self.config.seed, "server", *names)

    def choose(self, nodes: list[int], server_round: int) -> list[int]:
        """Return which of the connected nodes this round asks."""
        return self._sample(nodes, self.fraction_train, server_round)

    def name_of(self, node: int) -> str:
        """Return the party a node speaks for, "" where that is not known yet."""
        return self._reception.party_of.get(node) or self.names.get(node, "")

    @property
    def asked(self) -> Participations:
        """Rounds each party was asked in: what it may have sent, whether or not it was counted.

        A party that speaks from several nodes was asked by each of them (`Reception.names_of`). A node that never named
        its party counts as a party of its own.
        """
        names = {node: self._reception.names_of(node) or [self.name_of(node)] for node in self.times_asked}
        return self.earlier.plus((name, self.times_asked[node]) for node, said in names.items() for name in said)

    @property
    def charged_run(self) -> str:
        """The run that noise at the server is charged to: the first one, where this run continues others."""
        lineage = self.checkpoints.lineage
        return self.record.run_id if lineage is None else lineage.runs[0]

    @property
    def num_asked(self) -> int:
        """How many parties were asked, over this run and those it continues, at most."""
        return max(len(self.asked.by_party), len(self.times_asked))

    def remembered(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what the server knows of its parties, whatever the algorithm: arrays, and plain JSON values."""
        at = self._reception
        arrays = {f"{i}.{name}": array for i, one in enumerate(self._held.values()) for name, array in one.items()}
        return arrays, {
            "held": [[party, list(one)] for party, one in self._held.items()],
            "last_round": at.last_round,
            "nodes": [[str(node), party] for node, party in at.party_of.items()],
            "proofs": at.proofs,
        }

    def remember(self, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]) -> None:
        """Take up what `remembered` returned. A node that is still there is called by its name before it answers."""
        for i, (party, names) in enumerate(plain["held"]):
            self._held[party] = {name: arrays[f"{i}.{name}"] for name in names}
        self._reception.last_round.update(plain["last_round"])
        self._reception.proofs.update(plain["proofs"])
        self._reception.earlier = {int(node): party for node, party in plain["nodes"]}
        self.names = {**self._reception.earlier, **self.names}

    def _present(self, grid: Grid) -> set[int]:
        """Return the nodes that are there, after a look for those that came late, or came back as another node."""
        now, gone = set(grid.get_node_ids()), self._reception.replaced
        late = sorted(now - self._seen) if self._seen and self.takes_latecomers else []
        if late:
            log(INFO, "%d nodes have come since the last round; they are asked too", len(late))
        self._seen |= now | set(self._nodes)
        self._nodes = [*(node for node in self._nodes if node not in gone), *late]
        if self.readiness is not None and self.takes_latecomers:
            left_out = [node for node in sorted(now & self.readiness.codes.keys()) if node not in self._nodes]
            self._nodes += self._ask_again(self.readiness, left_out)
        return now

    def _ask_again(self, readiness: Readiness, nodes: Sequence[int]) -> list[int]:
        """Ask nodes whether they are ready; return who says so, and learn the names of all that have answered."""
        ready = readiness.ask(nodes, at_once=True)  # a round is pause enough
        self.names = {**readiness.believed(), **self.names}
        return ready

    def _not_ready(self) -> list[Rejection]:
        """Return who was left out because its node said that it is not ready."""
        if self.readiness is None:
            return []
        self._ask_again(self.readiness, ())  # also answers that came after the wait
        return [
            Rejection(party=self.name_of(node), node_id=str(node), code=f"{NOT_READY}{code}")
            for node, code in sorted(self.readiness.codes.items())
            if node not in self._nodes
        ]

    def _sample(self, nodes: list[int], fraction: float, server_round: int) -> list[int]:
        # by party name where it is known: node ids are drawn anew in every run
        nodes = sorted(nodes, key=lambda node: (self.name_of(node), node))
        if fraction == 1.0 or not any(self.name_of(node) for node in nodes):
            return nodes
        count = max(self.min_train_nodes, math.ceil(fraction * len(nodes)))
        chosen = self.rng("sample", server_round).permutation(len(nodes))[:count]
        return [nodes[i] for i in sorted(chosen)]

    def _messages(
        self, stage: Stage, message_type: str, server_round: int, nodes: Iterable[int], config: ConfigRecord
    ) -> list[Message]:
        # made once: equal bytes are shared, in memory and on the wire; the records around them are fresh for each party
        arrays = _as_arrays(self.outgoing(stage, server_round))
        more: dict[str, Array] | None = None
        settings = self._settings_for_all(server_round, config)
        messages = []
        for node in nodes:
            last_round = self._reception.last_round.get(self.name_of(node), 0)
            behind = last_round < (server_round if stage == "evaluate" else server_round - 1)
            if behind and more is None:
                more = _as_arrays(self.catching_up(stage, server_round))
            sent = {**arrays, **(more or {})} if behind else arrays
            content = instruction_record(stage, sent, {**settings, "last-round": last_round, **self.told(node)})
            weight = array_bytes(content.array_records[f"{stage}ins.parameters"])
            if stage == "fit":
                self.record.rounds[-1].bytes_down += weight
            else:
                self.record.final_bytes_down += weight
            group = str(server_round)
            messages.append(self.envelope(content, dst_node_id=node, message_type=message_type, group_id=group))
        return messages

    def _settings_for_all(self, server_round: int, config: ConfigRecord) -> dict[str, Any]:
        return {
            **config,
            **self.told_config.told(),
            **self.checkpoints.told(),
            "algorithm": self.card.name,
            "privacy": self.config.privacy,
            "server-round": server_round,
            "rounds-left": self.rounds_left(server_round),
            "fingerprint": self.spec.fingerprint,
        }

    def _open(self, server_round: int, replies: Iterable[Message], this: RoundRecord) -> list[Answered]:
        opened = sorted((open_reply(m, "fit", self.room) for m in replies), key=lambda r: (r.party, r.node_id))
        answers: list[Answered] = []
        for reply in opened:
            this.bytes_up += reply.num_bytes
            answer = self._reception.accept(reply, server_round=server_round)
            failure = self._failure(reply)
            if isinstance(answer, Rejection):
                answer.failure = failure
                this.rejected.append(answer)
                continue
            self.checkpoints.heard(self, reply, server_round)
            if failure and not any(failure in note for note in self.record.notes):
                self.note(f"{reply.party} learnt nothing, and perhaps others for the same cause: {failure}")
            answers.append(answer)
            this.answered.append(reply.party)
            rows = "common" if "accuracy-common" in reply.metrics else "own"
            accuracy: Any = reply.metrics.get(f"accuracy-{rows}")
            tested: Any = reply.metrics.get(f"rows-{rows}")
            counted = isinstance(tested, int) and not isinstance(tested, bool)
            if counted and 1 <= tested < 2**31 and isinstance(accuracy, float) and 0.0 <= accuracy <= 1.0:
                this.accuracy[reply.party], this.tested[reply.party] = accuracy, tested
            party = self.record.party(reply.party)
            party.notes += [note for note in answer.notes if note not in party.notes]
        this.rejected += self._reception.silent(self._asked, {reply.node_id for reply in opened})
        this.rejected += [self._reception.missing(node, code="offline") for node in self._offline]
        this.rejected += self._not_ready()
        for left_out in this.rejected:
            left_out.party = left_out.party or self.names.get(int(left_out.node_id), "")
            who = left_out.party or left_out.node_id
            why = left_out.code + (f": {left_out.failure}" if left_out.failure else "")
            log(WARN, "left out of round %d: %s: %s", server_round, who, why)
        return answers

    def _failure(self, reply: Reply) -> str:
        """Return the cause that a simulated party gives for a failure; across a wire there are codes and no text."""
        said = reply.metrics.get("failure") if self.record.simulation else ""
        return " ".join(said.split())[:600] if isinstance(said, str) else ""

    def note(self, text: str) -> None:
        """Log a warning and write it into the record, once."""
        if text not in self.record.notes:
            log(WARN, "%s", text)
            self.record.notes.append(text)

    def _too_few(self, count: int, this: RoundRecord) -> str:
        told: set[str] = set()
        reasons = []
        for r in this.rejected:
            new = r.failure not in told
            why = r.code + (f" ({r.failure})" if r.failure and new else "")
            reasons.append(f"{r.party or 'node ' + r.node_id}: {why}")
            told.add(r.failure)
        ways = ["Mend that" if told - {""} else "See those parties' own logs"]
        if count:  # fewer than none cannot be asked for
            ways.append(f"lower min-parties to {count}")
        way_out = f"Left out: {', '.join(reasons) or 'none answered'}. {', or '.join(ways)}."
        return explain(f"valid replies in round {this.server_round}", f"be >= {self.min_train_nodes}", count, way_out)
