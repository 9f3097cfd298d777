"""What a run's record notes beside its figures: codes with values. `fedkd_flwr.report.sentences` says them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from fedkd_flwr.errors import printable

__all__ = ["DOUBTS", "PUBLISHABLE", "Note", "NoteCode", "add_note"]


class NoteCode(StrEnum):
    """What a note can say, in one word; those that parties send themselves are in `fedkd_flwr.errors.PartyNote`."""

    def __new__(cls, word: str, meaning: str) -> Self:
        """Make a code whose docstring is its meaning."""
        made = str.__new__(cls, word)
        made._value_, made.__doc__ = word, meaning
        return made

    # ------------------------------------------------------------ the votes
    ONE_CLASS_VOTES = "one-class-votes", "Some parties give every public row one class, so their votes count less."
    ALL_ONE_CLASS = "all-one-class", "Every party gives all public rows one class, so all count alike."
    NEARLY_ONE_CLASS = "nearly-one-class", "Some parties give nearly all rows one class, so they count less."
    DISAGREES = "disagrees", "The other parties' answers do not confirm this party's."
    BELOW_CHANCE = "below-chance", "This party labels the rows that the server knows worse than chance would."
    NO_GAIN = "no-gain", "Rows that the server knows do not show that some parties tell classes apart."
    OWN_FOREST = "own-forest", "A forest that the server taught is better than the parties' votes."
    UNKNOWN_CLASSES = "unknown-classes", "No party predicts these classes on any public row."
    CLASS_OF_ONE_PARTY = "class-of-one-party", "One party alone predicts a class, and the vote loses most of it."
    LOST_CLASS = "lost-class", "Several parties predict a class, and the vote gives it to no row."
    MORE_LOST_CLASSES = "more-lost-classes", "The same holds for more classes, which are only counted."
    TRY_CONSENSUS = "try-consensus", "Another rule for the consensus may keep the classes that the vote lost."
    NO_LABELS = "no-labels", "The vote of a round labels no public row."
    UNUSED_ROWS = "unused-rows", "Some public rows got no label, so nothing is learnt from them."
    # ------------------------------------------------------------ the rounds
    CONVERGED = "converged", "The run ended before its last round, because no label changes any more."
    FEW_ANSWERS = "few-answers", "Fewer than min-parties gave a valid answer, but the result goes out."
    ENDED_EARLY = "ended-early", "Too few parties were left, so the run ended with the result of an earlier round."
    CONTINUES = "continues", "The run goes on from an earlier one."
    LEARNT_NOTHING = "learnt-nothing", "A simulated party's training failed, so it learnt nothing."
    NOT_FINISHED = "not-finished", "A party did not report at the end."
    FAILED_AT_END = "failed-at-end", "Something failed at a simulated party after the last round."
    BAD_METRICS = "bad-metrics", "Metrics that the party reported have a wrong form and are left out."
    EVALUATE_FN_FAILED = "evaluate-fn-failed", "The caller's evaluate_fn failed and is not called again."
    # ------------------------------------------------------------ models
    WRITES_INTO_ROWS = "writes-into-rows", "A user's own model writes into the rows it is given."
    NOT_REPEATABLE = "not-repeatable", "A user's own model gives the same rows other labels each time."
    DIVIDED_BY_SUM = "divided-by-sum", "A user's own model gives probabilities that do not sum to 1."
    NOT_STORABLE = "not-storable", "A user's own model cannot be stored, so it starts afresh in each round."
    MODEL_NOT_KEPT = "model-not-kept", "The server's model could not be stored."
    NO_CENTRALISED_MODEL = "no-centralised-model", "There is no model trained on all private rows to compare with."
    WIDTHS = "widths", "How wide the net is that PFNM made."
    FEDKT_FIRST = "fedkt-first", "Round 1 is FedKT's; the others average weights."
    WEIGHTS_LEFT = "weights-left", "Weights of nets left the parties without noise."
    TREES_LEFT = "trees-left", "Trees left the parties without noise."
    WEIGHTS_AT_SERVER = "weights-at-server", "Weights of nets reached the server without noise; it adds the noise."
    # ------------------------------------------------------------ data and surroundings
    LOOK_AT_COLUMNS = "look-at-columns", "Columns of the table were left out, or say little."
    LACKS_COLUMNS = "lacks-columns", "The party does not have these columns, and learns and votes without them."
    COPIED_TEST_ROWS = "copied-test-rows", "Some test rows equal a private row."
    DRAWN_ROWS = "drawn-rows", "The public rows were drawn from noisy sums, which have a claim; the labels have none."
    DRAWN_ROWS_TOO = "drawn-rows-too", "The public rows were drawn from noisy sums, which cost privacy besides."
    TRACKING_ENDED = "tracking-ended", "A tool that follows the run failed and was left."
    AUDITED = "audited", "The run was audited, so each party trained on half of its rows."


DOUBTS = (NoteCode.DISAGREES, NoteCode.BELOW_CHANCE)
"""Notes on a party whose answers the others, or known rows, do not confirm: a later one replaces an earlier one."""
PUBLISHABLE = frozenset({NoteCode.DRAWN_ROWS, NoteCode.DRAWN_ROWS_TOO})
"""Notes made of claims alone: what the public rows cost stands in the publishable record too."""
_SUBJECTS = ("class", "metrics", "model", "party", "tool")


@dataclass(frozen=True)
class Note:
    """A warning or remark that a reader of the results must see. Operator only.

    >>> print(Note(NoteCode.CONVERGED, {"server_round": 3, "num_rounds": 20}))
    converged: server_round 3, num_rounds 20
    """

    code: str  # a `NoteCode`, a word of a party (`fedkd_flwr.errors.PartyNote`), or one of a project of your own
    values: dict[str, Any] = field(default_factory=dict)  # plain JSON; ``text`` is the sentence of a code of your own

    def __str__(self) -> str:
        """Return the code and the values, for a log that nobody puts into sentences."""
        told = ", ".join(f"{name} {value}" for name, value in self.values.items())
        return printable(f"{self.code}: {told}" if told else str(self.code))

    @property
    def kind(self) -> str:
        """What this note has in common with the same note of a run with another seed: code and names, no numbers."""
        return " ".join([self.code, *(str(self.values[name]) for name in _SUBJECTS if name in self.values)])


def add_note(notes: list[Note], note: Note) -> bool:
    """Add a note to those that are there; return False where it is among them already."""
    if new := note not in notes:
        notes.append(note)
    return new
