"""The server's loop, the same for every algorithm: one trip per round, a record of it, and what it claims.

What a round sends, how a reply is read and what answers combine to is the algorithm's `Exchange`, which owns the state
between rounds (Flower's loop carries a copy, which becomes ``Result.arrays``); who is there is the `Roster`; `Messages`
leave and come in; a run that goes on is `Checkpoints`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import INFO, WARN
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, final, get_args

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedkd_flwr.algorithms.card import Card, ExchangeConfig
from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import ConfigError, TooFewPartiesError, cause, explain
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import Doing, RoundRecord, RunRecord, now_text
from fedkd_flwr.registry import load
from fedkd_flwr.strategies.exchange import Exchange, Messages
from fedkd_flwr.strategies.resuming import Checkpoints
from fedkd_flwr.strategies.roster import Roster
from fedkd_flwr.strategies.waiting import Readiness, WatchedGrid

__all__ = ["EvaluateFn", "ExchangeStrategy", "ShouldStop", "strategy_of"]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
ShouldStop = Callable[[int, Result], bool]
_SETTLE_S = 3.0
Own = TypeVar("Own", bound=Exchange[Any])


class ExchangeStrategy(Strategy, Generic[Own]):
    """The loop of all strategies; ``class MyStrategy(ExchangeStrategy[MyExchange])`` is a whole strategy.

    Parameters
    ----------
    fraction_train, fraction_evaluate : float
        Share of the nodes asked in each round, and at the end, drawn by party name from the seed.
    min_train_nodes, min_evaluate_nodes, min_available_nodes : int
        Fewest valid replies of a round, of the end (fewer are only logged), and nodes to wait for; 0: a stable number.
    config, public : ExchangeConfig, PublicSet
        The algorithm's settings, its defaults if not given, and the public rows that every party holds too.
    record : RunRecord, optional
        Where the run is written down; ``on_round(record)`` keeps it before messages leave, after rounds, at the end.
    names, nodes, readiness : optional
        As in `Roster`, where somebody has waited for the nodes already.
    checkpoint, resume_from : Path, optional
        Folders of `fedkd_flwr.strategies.resuming`; ``num_rounds`` of `start` counts rounds of the earlier run too.
    **own
        What the algorithm's exchange takes besides.

    After `start`, also where it failed: ``claims``, and ``record``; ``exchange`` has the algorithm's state.
    """

    exchange_type: ClassVar[type[Exchange[Any]]]
    exchange: Own

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            for one in (arg for arg in get_args(base) if isinstance(arg, type)):
                cls.exchange_type = one

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
        **own: Any,
    ) -> None:
        check_number("fraction_train", fraction_train, above=0.0, most=1.0)
        check_number("fraction_evaluate", fraction_evaluate, above=0.0, most=1.0)
        check_whole("min_train_nodes", min_train_nodes, 1)
        check_whole("min_evaluate_nodes", min_evaluate_nodes, 0)
        check_whole("min_available_nodes", min_available_nodes, 0)
        if min_available_nodes and min_train_nodes > min_available_nodes:
            way_out = "Lower min-parties or raise num-parties."
            raise ConfigError(explain("min_train_nodes", f"be at most {min_available_nodes}", min_train_nodes, way_out))
        self.fraction_evaluate, self.min_evaluate_nodes = fraction_evaluate, min_evaluate_nodes
        self.min_available_nodes = min_available_nodes
        card = self.exchange_type.card
        told = {"algorithm": card.name, "sends": card.sends, "returns": card.returns, "one_shot": card.one_shot}
        self.record = record if record is not None else RunRecord(run_id="", **told)  # type: ignore[arg-type]
        if (checkpoint or resume_from) and not self.record.run_id:
            way_out = "Give record=RunRecord(run_id=str(context.run_id), algorithm=...): parties know a run by its id."
            raise ConfigError(explain("record", "name its run where a checkpoint is given", "", way_out))
        whom = {"names": names, "nodes": nodes, "readiness": readiness}
        self.roster = Roster(fraction=fraction_train, fewest=min_train_nodes, **whom)  # type: ignore[arg-type]
        self.checkpoints = Checkpoints(checkpoint, resume_from)
        shared = {"record": self.record, "roster": self.roster, "checkpoints": self.checkpoints}
        made: Any = self.exchange_type(config=config, public=public, **shared, **own)  # type: ignore[arg-type]
        self.exchange = made
        _say_what_is_asked(self.record, self.exchange)
        self.messages = Messages(self.exchange)
        self.claims, self.on_round = list[PrivacyClaim](), on_round
        self.fell_short: TooFewPartiesError | None = None  # why the run ended before its last round, with a result
        self.stopped = False  # by `should_stop`, and the result has not gone out yet
        self._evaluate_fn: EvaluateFn | None = None
        self._should_stop: ShouldStop | None = None
        self._result = Result()  # what the rounds gave so far, as Flower's loop gathers it
        self._began = self._round_start = 0.0

    @property
    def model(self) -> Any:
        """The server's model after `start`, a `Classifier`; None where the algorithm leaves it none."""
        return getattr(self.exchange, "model", None)

    @property
    def consensus(self) -> Any:
        """The last consensus, int16 labels of shape (num_public,); None where parties exchange no labels."""
        return getattr(self.exchange, "consensus", None)

    # ---------------------------------------------------------------- Flower's loop

    @final
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 1,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
        should_stop: ShouldStop | None = None,
        **later: Any,
    ) -> Result:
        """Wait for the nodes, run the exchange, and return Flower's result; the rest is in ``record``.

        Parameters are those of Flower's ``Strategy.start``. ``evaluate_fn(server_round, arrays)`` gets what each round
        left, such as ``labels``; where these are no weights and it raises, it is not called again.
        ``should_stop(server_round, result)`` is asked after each round, as by Flower 1.43. ``initial_arrays`` are
        weights, where one net goes round.

        Raises `TooFewPartiesError` if too few nodes register, or too few parties answer validly. From the second round
        on the result of the last good round has gone out by then, and this strategy holds it.
        """
        at = self.exchange
        self.check_rounds(num_rounds)
        first = at.begin_with(initial_arrays)
        num_rounds += at.rounds_before
        left = num_rounds - at.rounds_done if at.finished_round is None else 0
        self._evaluate_fn, self._should_stop, self._result = evaluate_fn, should_stop, Result()
        try:
            self.prepare(grid, num_rounds)
            watched: Any = WatchedGrid(grid)
            after = self._after_round
            result = super().start(watched, first, left, timeout, train_config, evaluate_config, after, **later)
            if not left:  # the run that this one continues was lost after its last round
                messages = self.configure_evaluate(0, first, evaluate_config or ConfigRecord(), grid)
                self.aggregate_evaluate(0, watched.send_and_receive(messages, timeout=timeout))
                result.arrays = ArrayRecord({name: Array(array) for name, array in self.checkpoints.result.items()})
            if self.fell_short is not None:
                raise self.fell_short
        except BaseException as error:
            self.conclude(error)
            raise
        self.conclude()
        return result

    def check_rounds(self, num_rounds: int) -> None:
        """Refuse a number of rounds that cannot be run, and a second run, before anybody is waited for."""
        card = self.exchange.card
        check_whole("num_rounds", num_rounds, 1)
        self.checkpoints.resume(self.exchange, num_rounds + self.exchange.rounds_before)
        if card.one_shot and num_rounds != 1:
            way_out = "It is one-shot; use FedCT for several rounds."
            raise ConfigError(explain("num_rounds", f"be 1 for {card.name}", num_rounds, way_out))
        if len(self.record.rounds) > self.exchange.rounds_done:
            raise ConfigError(explain("a strategy", "start one run", "a second start", "Make a new one for each run."))

    def prepare(self, grid: Grid, num_rounds: int) -> None:
        """Wait for the nodes; the first round may follow."""
        self._began = began = time.monotonic()
        self.record.status, self.record.doing = "running", Doing.START
        self.record.num_rounds = max(self.record.num_rounds, num_rounds)
        self.exchange.plan(num_rounds)
        config = self.exchange.config
        settle_s, deadline_s = config.nodes_stable_s or _SETTLE_S, config.node_deadline_s
        self.roster.wait(grid, wanted=self.min_available_nodes, settle_s=settle_s, deadline_s=deadline_s)
        self._began = time.monotonic()
        self.record.startup_seconds += self._began - began
        self.checkpoints.begin(self.exchange)

    def conclude(self, error: BaseException | None = None) -> None:
        """Write down how the run ended, and what it claims: also where it failed, since what was released is spent."""
        self.record.close(error)
        self._tell()

    def _tell(self) -> None:
        """Bring the claims up to what was asked, and hand the record to whoever keeps it."""
        self.record.seconds = time.monotonic() - self._began
        self.claims = self.exchange.claim()
        self.record.claims = [claim.as_dict() for claim in self.claims]
        if self.on_round is not None:
            self.on_round(self.record)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send what the last round left to the chosen parties, a fresh record each."""
        self._require_start()
        at, roster = self.exchange, self.roster
        server_round += at.rounds_done
        if at.finished_round is not None:
            log(INFO, "configure_train: finished in round %d, nothing to send", at.finished_round)
            return []
        at.check_budget(server_round)
        self._round_start = time.monotonic()
        now = roster.look(grid, latecomers=at.takes_latecomers)
        blind = at.config.privacy == "server"  # who is there may not change the noise of a mean, or who is drawn
        nodes = at.choose([node for node in roster.nodes if blind or node in now], server_round)
        roster.ask(nodes, now)
        self.checkpoints.asked(at)
        self.record.doing = Doing.ROUNDS
        self.record.rounds.append(this := RoundRecord(server_round=server_round, asked=len(nodes), ended=False))
        log(INFO, "configure_train: asking %d of %d parties", len(nodes), len(roster.nodes))
        messages, this.bytes_down = self.messages.made("fit", server_round, nodes, config)
        this.asked_at = now_text()
        self._tell()  # before anything leaves: a process that is killed says nothing afterwards
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Open each reply, leave bad ones out with a reason, and combine the others."""
        self._require_start()
        at, this = self.exchange, self.record.rounds[-1]
        server_round += at.rounds_done
        if at.finished_round is not None:
            return None, None
        answers = self.messages.answers(server_round, replies, this)
        if self.messages.counted(len(answers), this) < self.roster.fewest:
            error = TooFewPartiesError(self.messages.too_few(len(answers), this))
            if len(self.record.rounds) == 1:  # there is no result yet
                raise error
            return self._end_early(server_round, error)
        arrays = at.combine_answers(server_round, answers, this)
        this.seconds, this.ended = time.monotonic() - self._round_start, True
        log(INFO, "%s", this.line(at.num_rounds))
        self.checkpoints.keep(at, server_round, arrays)
        self._tell()
        shares = {"agreement": this.agreement, "labelled-share": this.labelled_share}
        known: dict[str, Any] = {key: value for key, value in shares.items() if value is not None}
        made = MetricRecord({"num-parties": len(answers), **known})
        self._result.arrays, self._result.train_metrics_clientapp[server_round] = arrays, made
        return arrays, made

    def _after_round(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Measure what the round left, and ask whether it was the last one: the last thing of a round."""
        at, found = self.exchange, self.exchange.measure()
        if self._evaluate_fn is not None:
            found = self._evaluated(self._evaluate_fn, server_round, arrays) if arrays else None
        if found is not None:
            self._result.evaluate_metrics_serverapp[server_round] = found
        now = server_round + at.rounds_done
        more = server_round > 0 and now < at.num_rounds and at.finished_round is None
        if more and self._should_stop is not None and self._should_stop(server_round, self._result):
            at.finished_round, self.stopped = now, True
        return found

    def _evaluated(self, evaluate: EvaluateFn, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        try:
            return evaluate(server_round, arrays)
        except Exception as error:
            if self.exchange.leaves_weights:
                raise
            got = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            told = {"failure": cause(error), "arrays": got, "algorithm": self.exchange.card.name}
            self.exchange.note(Note(NoteCode.EVALUATE_FN_FAILED, {"server_round": server_round, **told}))
            self._evaluate_fn = None
            return None

    def _require_start(self) -> None:
        """Refuse what Flower's loop calls, where `start` has not begun this run."""
        if self._began:
            return
        rule = "be started by its own start"
        way_out = "Flower's DifferentialPrivacy wrappers add noise to weights: give the strategy's config its noise."
        error = ConfigError(explain(self.exchange.card.title, rule, "a call of one step", way_out))
        self.record.close(error)
        raise error

    def _end_early(self, server_round: int, error: TooFewPartiesError) -> tuple[None, None]:
        """End a run that lost its parties: the result of the last good round goes out, and then the run fails."""
        self.exchange.finished_round, self.fell_short = server_round, error
        self.record.rounds[-1].seconds = time.monotonic() - self._round_start
        good = self.record.rounds[-2].server_round
        rounds = {"server_round": server_round, "num_rounds": self.exchange.num_rounds, "good": good}
        self.exchange.note(Note(NoteCode.ENDED_EARLY, rounds))
        self._tell()
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the final result after the last round; nothing before it."""
        self._require_start()
        at, roster = self.exchange, self.roster
        server_round += at.rounds_done
        if self.stopped:
            self.stopped, server_round = False, self.last_round
        if server_round != self.last_round:
            return []
        at.releasing()
        here = roster.look(grid, latecomers=at.takes_latecomers)
        there = [node for node in roster.nodes if node in here]
        nodes = roster.sample(there, self.fraction_evaluate, at.rng("sample", -1))
        log(INFO, "configure_evaluate: sending the final result to %d parties", len(nodes))
        messages, self.record.final_bytes_down = self.messages.made("evaluate", server_round, nodes, config)
        self.record.doing, self.record.final_asked = Doing.FINAL, len(nodes)
        self._tell()
        return messages

    @property
    def last_round(self) -> int:
        """The round after which the final result goes out: the planned one, or where nothing can change any more."""
        finished = self.exchange.finished_round
        return self.exchange.num_rounds if finished is None else finished

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Write down what the parties report: how good their models are, alone and with the federation."""
        finished = self.messages.reports(replies)
        if finished is None:
            return None
        if finished < self.min_evaluate_nodes:
            log(WARN, "only %d parties took the final result in, wanted %d", finished, self.min_evaluate_nodes)
        found = MetricRecord({"num-parties": finished, **self.record.mean_accuracies()})
        self._result.evaluate_metrics_clientapp[server_round] = found
        return found

    def summary(self) -> None:
        """Log the settings."""
        at, spec = self.exchange, self.exchange.spec
        log(INFO, "\t├──> %s: %s", at.card.title, at.config)
        nodes, fewest = len(self.roster.nodes), self.roster.fewest
        log(INFO, "\t├──> nodes: %d registered, at least %d valid replies a round", nodes, fewest)
        public = spec.num_public, spec.num_classes, spec.fingerprint[:16]
        log(INFO, "\t└──> public set: %d rows, %d classes, fingerprint %s", *public)


def strategy_of(card: Card) -> type[ExchangeStrategy[Any]]:
    """Return the strategy of a card, which may name an exchange alone: the loop of all runs it."""
    named = load(card.strategy)
    found: type[ExchangeStrategy[Any]] = named
    if not issubclass(named, ExchangeStrategy):
        found = type(named.__name__.removesuffix("Exchange"), (ExchangeStrategy,), {"exchange_type": named})
    return found


def _say_what_is_asked(record: RunRecord, exchange: Exchange[Any]) -> None:
    """Write down what the record's figures are shares of, where nobody has."""
    if not record.num_public:
        public = exchange.public
        record.num_public, record.num_classes = public.num_rows, public.num_classes
        record.classes, record.fingerprint = list(public.schema.classes), public.fingerprint
    record.seed = record.seed or exchange.config.seed
