"""The only rows a party ever learns from under NFDP: drawn once, kept for good, shared by all runs.

Learning from a random subset of the rows is differentially private only if nothing is ever learnt from the other rows;
a second draw would expose some of them. So the subset is stored beside the party's ledger, one per party and data set,
and if the file of a drawn subset is lost, no other is drawn.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError, explain
from fedkd_flwr.files import make_folder, write_atomic
from fedkd_flwr.privacy.noise.sampling import Rng
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.files import locked
from fedkd_flwr.stores.ledger import LedgerStore

__all__ = ["SubsetStore"]

_VERSION = 1


class SubsetStore:
    """One party's subset of one set of private rows.

    Beside the ledger, in ``root/ledgers/<party>-<digest>/``:

    | file | holds |
    |---|---|
    | ``subset.json`` | n, k, with or without replacement, and the drawn row numbers |
    | ``subset-drawn.json`` | the digest of the drawn subset; written second, before anything learns from it |

    Parameters
    ----------
    ledger : LedgerStore
        The party's ledger. Its folder holds the files, and its entries also show whether a subset was drawn.

    Notes
    -----
    If the process stops between writing the two files, nothing has learnt from the subset yet, and the first file
    counts as drawn. The loss of the whole folder cannot be noticed, as for the ledger.
    """

    def __init__(self, ledger: LedgerStore) -> None:
        self.ledger = ledger
        self.party = ledger.new.party
        self.path = ledger.directory / "subset.json"
        self.marker = ledger.directory / "subset-drawn.json"

    def rows(self, mechanism: Subsampling, *, rng: Rng = None) -> NDArray[np.int64]:
        """Return the party's subset; if there never was one, draw it from the operating system's entropy.

        The row numbers are (subset_rows,) int64, ascending; with replacement some may repeat. ``rng`` is for tests
        only, because a seeded draw gives no privacy. Raises `RefusalError` (code ``subset-fixed``) if the stored subset
        has another n, k or kind of draw than ``mechanism``, and `DataError` (``subset-lost``) if a subset was drawn and
        its file is missing or damaged.
        """
        charged = any("(NFDP)" in entry.mechanism for entry in self.ledger.load().entries)
        make_folder(self.path.parent)
        with locked(self.path.parent / "subset.lock", timeout_s=self.ledger.lock_timeout_s):
            if not os.path.lexists(self.path):
                if charged or os.path.lexists(self.marker):
                    raise self._lost("no such file")
                self._draw(mechanism, rng)
            return self._read(mechanism)

    def stored(self) -> NDArray[np.int64] | None:
        """Return the stored row numbers, or None if there are none; for measuring in a simulation."""
        if not os.path.lexists(self.path):
            return None
        return np.array(json.loads(self.path.read_bytes())["rows"], dtype=np.int64)

    def _draw(self, mechanism: Subsampling, rng: Rng) -> None:
        subset = {
            "version": _VERSION,
            "party": self.party,
            "data_digest": self.ledger.new.data_digest,
            **asdict(mechanism),
            "rows": mechanism.draw(rng=rng).tolist(),
        }
        write_atomic(self.path, json.dumps(subset).encode() + b"\n")

    def _read(self, mechanism: Subsampling) -> NDArray[np.int64]:
        try:
            data = self.path.read_bytes()
            subset = json.loads(data)
            known = Subsampling(**{field.name: subset[field.name] for field in fields(Subsampling)})
            rows = np.array(subset["rows"], dtype=np.int64)
            owner = (subset["version"], subset["party"], subset["data_digest"])
            if owner != (_VERSION, self.party, self.ledger.new.data_digest):
                raise ValueError(f"a subset of {owner[1:]}, version {owner[0]}")
            ascending = len(rows) == known.subset_rows and (np.diff(rows) >= (0 if known.replacement else 1)).all()
            if not (ascending and rows[0] >= 0 and rows[-1] < known.num_rows):
                raise ValueError("other row numbers than it announces")
        except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise self._lost(f"this: {error}") from error
        witness = json.dumps({"version": _VERSION, "sha256": sha256(data).hexdigest()}).encode() + b"\n"
        if not os.path.lexists(self.marker):
            write_atomic(self.marker, witness)
        elif self.marker.read_bytes() != witness:
            raise self._lost("another subset than the one that was drawn")
        if known != mechanism:
            way_out = (
                f"Ask for subset-rows {known.subset_rows} and subset-replacement {str(known.replacement).lower()}: a "
                "second subset beside it would be covered by no claim."
            )
            message = explain(f"subset of {self.party}", f"be the one drawn: {known.words}", mechanism.words, way_out)
            raise RefusalError(message, code=Code.SUBSET_FIXED)
        return rows

    def _lost(self, seen: str) -> DataError:
        way_out = (
            "It is never drawn again: a second subset beside the first is covered by no claim. Restore "
            f"{self.path.parent} from its newest backup, or leave this party out of such runs."
        )
        return DataError(explain(f"subset {self.path}", "be there, whole", seen, way_out), code=Code.SUBSET_LOST)
