"""What a server keeps of a run beside its state: which runs it continues, and how often each party was asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedkd_flwr.checks import check_whole
from fedkd_flwr.files import write_sealed
from fedkd_flwr.stores.files import read_state

__all__ = ["CHECKPOINT", "Lineage", "Participations", "sealed"]

CHECKPOINT = "checkpoint.npz"
_WAY_OUT = "Restore it beside the checkpoint, or start the run afresh."
_LINEAGE = "lineage.json"


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """A run and the runs that it continues: what a party must see before it takes up what it kept in one of them.

    >>> first = Lineage.new("7")
    >>> second = first.then("8")
    >>> second.runs, second.earlier, second.seal == first.seal, first.proof
    (('7', '8'), ('7',), True, '')
    """

    runs: tuple[str, ...]  # their ids, the first one first; the last one is the run whose folder this lies in
    # 64 hexadecimal digits that the first run drew. Every instruction carries its digest, `seal`; the secret itself
    # leaves only with a run that continues another. Nobody else can name a run to a party and be believed.
    secret: str
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

    def save(self, folder: Path) -> None:
        """Replace the lineage that is stored in ``folder``."""
        write_sealed(folder / _LINEAGE, {"version": 1, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Lineage:
        """Read what `save` wrote; raises `DataError` (code ``state-lost``) if it is missing or damaged."""
        return read_state(folder / _LINEAGE, "lineage", _WAY_OUT, cls._made)

    @classmethod
    def _made(cls, data: Mapping[str, Any]) -> Lineage:
        flags = {name: data[name] is True for name in ("finished", "released")}
        found = cls(runs=tuple(map(str, data["runs"])), secret=data["secret"], **flags)
        if data["version"] != 1 or not found.runs or len(bytes.fromhex(found.secret)) != 32:
            raise ValueError("other fields, or another version")
        return found


def sealed(secret: str) -> str:
    """Return the digest of a lineage's secret."""
    return sha256(secret.encode()).hexdigest()


_FILE = "participations.json"
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Participations:
    """Rounds each party was asked in, by name.

    >>> earlier = Participations(by_party={"a": 3})
    >>> earlier.before("a"), earlier.before("b"), earlier.before("")
    (3, 0, 3)
    >>> earlier.plus([("a", 1), ("b", 2), ("", 1)])
    Participations(by_party={'a': 4, 'b': 2}, unnamed=4, several=frozenset())
    """

    by_party: Mapping[str, int] = field(default_factory=dict)  # counts of the parties whose names are known
    # the largest count of a node that never gave a name. Any party that is not in ``by_party`` may be that node.
    unnamed: int = 0
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
        return replace(self, by_party={**self.by_party, party: count})

    def below(self, other: Participations) -> str:
        """Return the first party that is counted less often here than in ``other``, "" where none is."""
        names = [name for name in other.by_party if self.before(name) < other.before(name)]
        return names[0] if names else ("a party without a name" if self.unnamed < other.unnamed else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types."""
        parties = dict(sorted(self.by_party.items()))
        return {"version": _VERSION, "unnamed": self.unnamed, "parties": parties, "several": sorted(self.several)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Participations:
        """Return what `as_dict` made; raises `ValueError`, `KeyError` or `TypeError` if it is something else."""
        if not (data["version"] == _VERSION and set(data) == {"version", "unnamed", "parties", "several"}):
            raise ValueError("other fields, or another version")
        counts = {str(party): check_whole("count", count) for party, count in data["parties"].items()}
        several = frozenset(str(party) for party in data["several"])
        return cls(by_party=counts, unnamed=check_whole("count", data["unnamed"]), several=several)

    def save(self, folder: Path) -> None:
        """Replace the counts that are stored in ``folder``."""
        write_sealed(folder / _FILE, self.as_dict())

    @classmethod
    def load(cls, folder: Path) -> Participations:
        """Read what `save` wrote.

        Raises `DataError` (code ``state-lost``) if it is missing or damaged: no claim could be computed without it.
        """
        return read_state(folder / _FILE, "participations", _WAY_OUT, cls.from_dict)
