"""What a party's algorithm is asked in one visit, and what its reply is going to cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels import Labels
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores.party_state import Saved

__all__ = ["Charge", "Instruction"]


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One opened instruction."""

    server_round: int  # the round, from 1
    config: Any  # the algorithm's settings, checked, as far as parties are told them; others have their defaults
    last_round: int = 0  # the last round in which the server got a valid answer of this party; 0: in none
    rounds_left: int = 1  # rounds that this party is going to be asked in from this one on, as planned
    base: str = ""  # digests, in hexadecimal, of the answer that the server holds and changes may refer to; "" for none
    rule: str = ""  # the vote rule whose needs the server asks for beside labels; "" for labels alone
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what it brings, by name
    labels: Labels | None = None  # (num_public,), int16, optional: The consensus it brings
    saved: Saved | None = None  # what this party kept in earlier rounds
    # what this party said before, by name, where the server holds it: its answer may be told as changes to it
    held: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    mark: str = ""  # what the state of this exchange is marked with; "" where the server keeps none of its own
    earlier: tuple[str, ...] = ()  # ids of the runs that this one says it continues
    party_seed: int = 0  # where this party's random streams in this run start

    def seed(self, *names: str | int) -> int:
        """Return the seed of this party's stream called ``names``."""
        return derive_seed(self.party_seed, *names)

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a generator for this party's stream called ``names``."""
        return derive_rng(self.party_seed, *names)

    def rows(self, num_public: int) -> NDArray[np.int64]:
        """Return the public rows that the array ``indices`` asks for, each at most once; all where there is none."""
        if "indices" not in self.arrays:
            return np.arange(num_public)
        rows = self.arrays["indices"]
        if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
            raise PayloadError(explain("indices", "be a flat array of row numbers", f"{rows.dtype} {rows.shape}"))
        if not (rows.min() >= 0 and rows.max() < num_public and len(np.unique(rows)) == len(rows)):
            raise PayloadError(explain("indices", f"be different rows within 0..{num_public - 1}", int(rows.max())))
        return rows.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one reply costs at this party, known before anything is learnt: it depends on no private row."""

    # what is released and how often, for one record (a claim for the whole party covers each of its records)
    events: Sequence[tuple[Any, int]]
    mechanism: str  # the mechanism and its parameters, in words
    # unit, adversary, neighbouring_relation: As in `fedkd_flwr.privacy.claims.claim.PrivacyClaim`
    unit: str = "record"
    adversary: str = "server"
    neighbouring_relation: str = "replace one record"
    once: bool = False  # whether it pays for all later rounds too

    @classmethod
    def of_party(cls, event: Any, rows: int, words: str) -> Charge:
        """Return the cost of so many noisy answers, each of which any of the party's rows may have changed."""
        relation = "any change of the party's data"
        return cls(events=[(event, rows)], mechanism=words, unit="party", neighbouring_relation=relation)
