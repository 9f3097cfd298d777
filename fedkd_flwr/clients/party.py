"""What a party holds and allows, and the door through which its replies leave.

By default the door is open; a silo puts its own in front of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms import allowed_by_default
from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.data.public import PublicSet, check_classes, check_test_rows
from fedkd_flwr.errors import Code, ConfigError, DataError, PayloadError, explain
from fedkd_flwr.metrics import Metrics, check_names
from fedkd_flwr.models.classifier import Classifier, classifiers
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import array_rows
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import NO_LEDGER, NO_STATE, NoLedger, NoState, PartyState, StoredReply
from fedkd_flwr.wire.label_codec import PublicSpec

__all__ = ["OPEN", "Apart", "Ask", "Door", "Leaving", "ModelFactory", "OpenDoor", "Party", "Shown", "Table"]

Shown = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Names of public columns, and the public rows' values in them as people know them."""

Table = Iterable[Sequence[object]] | None
"""A reply as a table, its header first; None for one that no table shows."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What one visit asks of a party, as far as it is known before a private row is read."""

    server_round: int | str  # the round; "final" for the final visit, in which metrics may leave
    algorithm: str  # the algorithm
    # the settings that came with the instruction, by key: they decide, whatever the run config says
    told: Mapping[str, Any]
    claim: Mapping[str, str] | None = None  # what the reply claims, in words; None without noise at this party
    events: Sequence[tuple[Any, int]] | None = None  # what it releases, for one record
    public: str = ""  # the fingerprint of the public set that it is about
    # settings, by key, that are no less than so much, because the instruction asks for that
    least: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """One reply that is to leave."""

    reply: StoredReply  # the exact reply, charged already where it has a claim
    num_examples: int  # the number that is told beside it
    # returns it as a table for whoever approves, beside the public columns that it is given
    table: Callable[[Shown], Table] = lambda shown: None
    # what is told of this node beside it, which nothing learnt decides
    sender: Mapping[str, object] = field(default_factory=dict)
    # called once the reply may leave, before the door writes that it left; what it raises holds the reply back
    note: Callable[[], None] = lambda: None


class Door(Protocol):
    """Decides whether a party's replies leave in one run."""

    def check_run(self) -> None:
        """Refuse a run by what its config says, before a file is read; raises `RefusalError`."""

    def before_rows(self, ask: Ask) -> None:
        """Refuse a visit by what it asks, before a private row is read; raises `RefusalError`. None if it is final."""

    def let_out(self, leaving: Leaving) -> None:
        """Return when a reply may leave; raises `RefusalError` where it may not."""

    def refused(self, code: str) -> None:
        """Hear that only a code leaves."""


class OpenDoor:
    """Lets everything out, and writes nothing down."""

    def check_run(self) -> None:
        """Refuse nothing."""

    def before_rows(self, ask: Ask) -> None:
        """Refuse nothing."""

    def let_out(self, leaving: Leaving) -> None:
        """Let it out."""
        leaving.note()

    def refused(self, code: str) -> None:
        """Write nothing down."""


OPEN = OpenDoor()

Rows = tuple[NDArray[Any], ...]
"""Features (n, d) and class labels (n,); where these are bins of a number also the numbers (n,), float64."""


TEST_ROWS = ("own", "common")
"""Whose test rows are measured: this party's, and those of all parties."""


@contextmanager
def _named(rows: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{rows}: {error}", code=error.code) from error


class ModelFactory(Protocol):
    """Makes a fresh, unfitted model; the same seed makes the same model."""

    def __call__(self, *, seed: int) -> Classifier:
        """Return a fresh model."""
        ...


class Apart(Protocol):
    """Does a piece of a visit's work where it can be ended; `fedkd_flwr.processes.limits.Limits` is one."""

    def __call__(self, work: Callable[[], bytes], *, parts: int = 1) -> bytes:
        """Return the bytes that the work makes; ``parts``: it may take one of so many parts of the visit's time."""
        ...


@dataclass(frozen=True, kw_only=True)
class Party:
    """What one party holds and what it allows. No instruction of the server changes any of it."""

    name: str  # unique in the federation
    # X, y: (num_rows, num_features) and (num_rows,): Its private rows, encoded by the public schema
    X: NDArray[np.floating[Any]]
    y: NDArray[np.integer[Any]]
    public: PublicSet  # the unlabelled rows everybody holds
    # ``model(seed=...)`` returns a fresh `Classifier`, or an estimator of scikit-learn's kind, which becomes one
    model: ModelFactory
    model_name: str = ""  # what the report calls that model
    tests: Mapping[str, Rows] = field(default_factory=dict)  # rows to measure on: ``common`` (simulation) and ``own``
    state: PartyState | NoState = NO_STATE  # where it keeps its memory between rounds; by default nothing is kept
    allow: frozenset[str] = field(default_factory=allowed_by_default)  # algorithms it takes part in
    require_privacy: bool = False  # refuse to send anything that no mechanism at this party made private
    # the most this party's ledger may ever hold, over all runs: epsilon at delta, for one record against the server. A
    # finite budget refuses replies without a mechanism too: they would cost infinite epsilon.
    budget: Budget = field(default_factory=Budget)
    # where what was spent is kept, by default nowhere; a finite budget needs one. It follows the rows X, y, unless it
    # was told others.
    ledger: LedgerStore | NoLedger = NO_LEDGER
    run_id: str = ""  # the run its charges belong to
    # returns the secret by which the server knows this party again if it comes back as another node
    node_secret: Callable[[], bytes] | None = None
    # which metrics may leave: some of `fedkd_flwr.metrics.NAMES`. None do beside a claim made at the party, because
    # they come from private rows.
    share_metrics: Collection[str] = ()
    min_support: int = 10  # a figure of a class with fewer test rows stays here (`fedkd_flwr.metrics.Metrics.shared`)
    # whoever runs this party holds all its data anyway: all metrics leave, also beside a claim, marked so in the record
    simulated: bool = False
    # report how many bytes an upload of the final model would take; serialising takes a moment
    weigh_model: bool = True
    keep_model: bool = False  # store the final model in the state directory
    # keep what the run needs in the state directory after the final visit too: a run that is lost then can go on. A
    # party that keeps its model keeps this.
    keep_state: bool = False
    # whether X and y are all of the party's rows, in an order of its own: nothing held out by a run's seed. A subset
    # for ever (NFDP) is of such rows only.
    whole: bool = True
    # why some rows of its file, or all, are not among X and y. Without a claim the party refuses with it. Beside a
    # claim it says so in its own log alone, and answers with the rows it has.
    fault: Exception | None = None
    # (num_rows,), int64, optional: Where in its file the rows of X and y stand, ascending; at 0, 1, ... by default.
    # What draws or cuts rows goes by these slots, so that a row that cannot be used moves no other.
    slots: NDArray[np.int64] | None = None
    num_slots: int = 0  # rows of its file; 0: those of X
    # so many rows it holds or more, as anybody may know. NFDP's numbers are those of so many rows, because its true
    # number is private. 0: nothing is known.
    rows_at_least: int = 0
    # ``show(finished, models)`` shows this party's owner, and nobody else, what it is left with, and the files of its
    # models by kind (``federated``, ``alone``). Called in the final visit; what it raises is logged.
    show: Callable[[Finished, Mapping[str, Path]], None] | None = None
    # where it learns, if not in this process: work that takes too long or too much memory is ended there
    apart: Apart | None = None
    door: Door = OPEN  # through which its replies leave: at a silo rules, approval and the log of what left

    def __post_init__(self) -> None:
        # a table's rows would be looked up by its index and not by their places
        tests = {name: tuple(map(np.asarray, rows)) for name, rows in self.tests.items()}
        for name, value in (("X", np.asarray(self.X)), ("y", np.asarray(self.y)), ("tests", tests)):
            object.__setattr__(self, name, value)
        least = 1 if self.fault is None else 0
        if not (self.X.ndim == 2 and len(self.X) == len(self.y) and len(self.y) >= least):
            seen = f"X {self.X.shape}, y {self.y.shape}"
            way_out = "Give this party at least one labelled row."
            raise DataError(
                explain(f"rows of {self.name}", "be (n, d) and (n,) with n >= 1", seen, way_out), code=Code.NO_ROWS
            )
        if self.X.shape[1] != self.public.num_features:
            seen, way_out = self.X.shape[1], "Encode private rows by the public schema's preprocessing."
            raise DataError(explain(f"rows of {self.name}", f"have {self.public.num_features} features", seen, way_out))
        check_names(self.share_metrics)
        if isinstance(self.allow, str):  # "dp-fedavg" holds the letters of "fedavg"
            raise ConfigError(explain("allow", "be a set of names, no text", self.allow, 'Give {"fedct"}.'))
        if not callable(self.model):
            way_out = "Give a function that makes one: model=lambda *, seed: Classifier(...)."
            seen = type(self.model).__name__
            raise ConfigError(explain("model", "be a function that makes a fresh model from a seed", seen, way_out))
        object.__setattr__(self, "model", classifiers(self.model, self.public.num_classes))
        check_classes(f"y of {self.name}", self.y, self.public.schema.classes)
        for name, (X, y, *_) in self.tests.items():
            self._check_test(name, X, y)
        if self.budget.epsilon < math.inf and not self.ledger.keeps:
            way_out = "Give this party a ledger (a state-dir): a budget that nobody remembers protects nothing."
            raise DataError(explain("ledger", "be given with a finite budget", None, way_out), code=Code.WRONG_CONFIG)
        if self.ledger.keeps and not self.run_id:
            way_out = "Give str(context.run_id): a ledger tells a repeated request from a new run by it."
            raise DataError(explain("run_id", "be given with a ledger", self.run_id, way_out), code=Code.WRONG_CONFIG)
        if isinstance(self.ledger, LedgerStore) and not self.ledger.knows_rows:
            rows = array_rows(self.X, self.y, digest=self.ledger.new.data_digest)
            self.ledger.know(rows, apart=not self.simulated)

    def _check_test(self, name: str, X: NDArray[Any], y: NDArray[Any]) -> None:
        """Refuse test rows that would be measured wrongly, or under a name that nothing reports."""
        if name not in TEST_ROWS:
            raise ConfigError(explain("tests", f"name its rows {' or '.join(TEST_ROWS)}", name))
        check_test_rows(f"{name!r} test rows of {self.name}", X, y, self.public)

    @property
    def num_rows(self) -> int:
        """Rows of its file, whether or not they can be used."""
        return self.num_slots or len(self.y)

    @cached_property
    def rows_digest(self) -> str:
        """The digest of the rows that it learns from; "" where nothing is kept that could be told by it."""
        if isinstance(self.ledger, LedgerStore):
            return self.ledger.rows.digest
        return array_rows(self.X, self.y).digest if self.state.keeps else ""

    @property
    def forgets(self) -> bool:
        """Whether the final visit leaves nothing of the run in the state directory."""
        return not (self.keep_model or self.keep_state)

    @property
    def demands_privacy(self) -> bool:
        """Whether it says nothing that no mechanism of its own made private."""
        return self.require_privacy or self.budget.epsilon < math.inf

    @property
    def spec(self) -> PublicSpec:
        """What label payloads are checked against."""
        public = self.public
        return PublicSpec(num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint)

    def rows_in(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which rows of X stand in these slots of its file, in that order; some slots may hold none."""
        held = np.full(max(self.num_rows, int(slots.max(initial=0)) + 1), -1, dtype=np.int64)
        held[np.arange(len(self.y)) if self.slots is None else self.slots] = np.arange(len(self.y))
        rows = held[slots]
        found: NDArray[np.int64] = rows[rows >= 0]
        return found

    def metrics(self, model: Classifier) -> dict[str, Metrics]:
        """Return how good the model is on each set of test rows; `DataError` names those that it cannot answer.

        On the party's own rows it answers for the party's class shares, on common ones for the federation's.
        """
        found = {}
        for name, (X, y, *numbers) in self.tests.items():
            if len(y):
                with _named(f"{name!r} test rows of {self.name}"):
                    answering = Answering(model, model.shares.get(name), self.public.schema.target)
                    found[name] = answering.metrics(X, y, *numbers)
        return found

    def progress(self, model: Classifier) -> dict[str, float]:
        """Return the model's accuracy on each set of test rows, with their number: the metrics of a round's answer."""
        found: dict[str, float] = {}
        for name, (X, y, *_) in self.tests.items():
            if len(y):
                with _named(f"{name!r} test rows of {self.name}"):
                    found |= {f"accuracy-{name}": model.accuracy(X, y), f"rows-{name}": len(y)}
        return found

    def net_with(self, arrays: Sequence[NDArray[Any]], *, seed: int) -> Classifier:
        """Return this party's net with weights that the server sent; raises `PayloadError` if they do not fit."""
        try:
            return self.model(seed=seed).set_arrays(arrays)
        except DataError as error:
            raise PayloadError(f"The server's model does not fit this party's: {error}") from error
