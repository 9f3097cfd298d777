"""What a server keeps of a run beside its state: which runs it continues, and how often each party was asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from fedkd_flwr.files import write_sealed
from fedkd_flwr.stores.files import read_state

__all__ = ["CHECKPOINT", "Lineage", "Participations", "sealed"]

CHECKPOINT = "checkpoint.npz"
_WAY_OUT = "Restore it beside the checkpoint, or start the run afresh."


class _Kept(BaseModel):
    """What stands in a sealed file of a checkpoint's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    file: ClassVar[str]

    def save(self, folder: Path) -> None:
        """Replace what is stored in ``folder``."""
        write_sealed(folder / f"{self.file}.json", self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raises `DataError` (code ``state-lost``) if it is missing or damaged."""
        return read_state(folder / f"{cls.file}.json", cls.file, _WAY_OUT, cls.model_validate)


class Lineage(_Kept):
    """A run and the runs that it continues: what a party must see before it takes up what it kept in one of them.

    >>> first = Lineage.new("7")
    >>> second = first.then("8")
    >>> second.runs, second.earlier, second.seal == first.seal, first.proof
    (('7', '8'), ('7',), True, '')
    """

    file = "lineage"
    # their ids, the first one first; the last one is the run whose folder this lies in
    runs: Annotated[tuple[str, ...], Field(min_length=1)]
    # 64 hexadecimal digits that the first run drew. Every instruction carries its digest, `seal`; the secret itself
    # leaves only with a run that continues another. Nobody else can name a run to a party and be believed.
    secret: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    finished: bool = False  # whether the last of the runs has its result: nothing is left to continue
    released: bool = False  # whether one of the runs had begun to let noisy votes out, which must not be drawn again

    @classmethod
    def new(cls, run_id: str) -> Lineage:
        """Return the lineage of a run that continues none."""
        return cls(runs=(run_id,), secret=secrets.token_hex(32))

    def then(self, run_id: str) -> Lineage:
        """Return the lineage of a run that continues the last of these."""
        return Lineage(runs=(*self.runs, run_id), secret=self.secret, released=self.released)

    @property
    def earlier(self) -> tuple[str, ...]:
        """The runs that the last one continues."""
        return self.runs[:-1]

    @property
    def seal(self) -> str:
        """What every instruction carries."""
        return sealed(self.secret)

    @property
    def proof(self) -> str:
        """What the instructions of a run that continues others carry too; "" where it continues none."""
        return self.secret if self.earlier else ""


def sealed(secret: str) -> str:
    """Return the digest of a lineage's secret."""
    return sha256(secret.encode()).hexdigest()


_Count = Annotated[int, Field(ge=0, strict=True)]


class Participations(_Kept):
    """Rounds each party was asked in, by name.

    >>> earlier = Participations(by_party={"a": 3})
    >>> earlier.before("a"), earlier.before("b"), earlier.before("")
    (3, 0, 3)
    >>> earlier.plus([("a", 1), ("b", 2), ("", 1)])
    Participations(by_party={'a': 4, 'b': 2}, unnamed=4, several=frozenset())
    """

    file = "participations"
    by_party: dict[str, _Count] = Field(default_factory=dict)  # counts of the parties whose names are known
    # the largest count of a node that never gave a name. Any party that is not in ``by_party`` may be that node.
    unnamed: _Count = 0
    # parties that more than one node spoke for: what one of them goes on with, the others may have said otherwise
    several: frozenset[str] = frozenset()

    @property
    def most(self) -> int:
        """Participations of the party asked most often."""
        return max([self.unnamed, *self.by_party.values()])

    def before(self, party: str) -> int:
        """Return how often a party may have been asked at most; without a name ("") it may be any party."""
        return self.by_party.get(party, self.unnamed) if party else self.most

    def plus(self, asked: Iterable[tuple[str, int]]) -> Participations:
        """Return the counts after further rounds: each node's party, "" if it never gave a name, and its rounds."""
        counts, unnamed = dict(self.by_party), self.unnamed
        seen, several = set[str](), set(self.several)
        for party, rounds in asked:
            if party:
                (several if party in seen else seen).add(party)
                counts[party] = counts.get(party, self.unnamed) + rounds
            elif rounds:
                unnamed = max(unnamed, self.most + rounds)
        return Participations(by_party=counts, unnamed=unnamed, several=frozenset(several))

    def with_count(self, party: str, count: int) -> Participations:
        """Return the counts with another one for a party."""
        return self.model_copy(update={"by_party": {**self.by_party, party: count}})

    def below(self, other: Participations) -> str:
        """Return the first party that is counted less often here than in ``other``, "" where none is."""
        names = [name for name in other.by_party if self.before(name) < other.before(name)]
        return names[0] if names else ("a party without a name" if self.unnamed < other.unnamed else "")
