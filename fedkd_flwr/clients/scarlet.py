"""SCARLET at a party: averages that came are kept, the others of a round are taken from what it kept.

The other half, and the whole round, is `fedkd_flwr.strategies.scarlet`.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.scarlet import CACHED, CARD, Cache
from fedkd_flwr.clients.fedmd import DigestClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, averages
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels
from fedkd_flwr.wire.score_codec import decode_rows

__all__ = ["SCARLETClient"]

logger = logging.getLogger("flwr.party")


class SCARLETClient(DigestClient):
    """Sends probabilities or labels of the public rows asked every round. Parameters as in `ScoreClient`."""

    card = CARD

    def lesson(self, instruction: Instruction) -> Lesson | None:
        """Return what the last round's averages teach: those that came, and those kept before."""
        if "previous" not in instruction.arrays:
            return None
        rows, _ = self._last_rows(instruction)
        cache = self._cache(instruction)
        held = cache.since[rows] > 0
        if not held.all():
            missing = int((~held).sum())
            logger.warning(
                "%s: %d of %d averages were not kept here; it learns the others", self.party.name, missing, len(rows)
            )
        taught, loss = rows[held], instruction.config.loss
        return Lesson(self.party.public.X[taught], cache.averages[taught], loss) if held.any() else None

    def memory(self, instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return the averages that this party holds."""
        cache = self._cache(instruction)
        return {"cached": cache.rows, "cache": cache.averages[cache.rows]}

    def _cache(self, instruction: Instruction) -> Cache:
        """Return what was kept, with what this instruction brings."""
        public, saved, arrays = self.party.public, instruction.saved, instruction.arrays
        cache = Cache.empty(public.num_rows, public.num_classes)
        if "cached" in arrays:
            rows = decode_rows(arrays["cached"], num_public=public.num_rows)
            cache = cache.stored(rows, averages(self.party, instruction, len(rows), name="cache"), server_round=1)
        elif saved is not None and "kept.cached" in saved.arrays:
            cache = cache.stored(saved.arrays["kept.cached"], saved.arrays["kept.cache"], server_round=1)
        if "previous" in arrays:
            rows, signals = self._last_rows(instruction)
            fresh = rows[signals != CACHED]
            cache = cache.stored(fresh, averages(self.party, instruction, len(fresh)), server_round=1)
        return cache

    def _last_rows(self, instruction: Instruction) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        arrays, public = instruction.arrays, self.party.public
        rows = decode_rows(arrays["previous"], num_public=public.num_rows)
        if "signals" not in arrays:
            raise PayloadError(explain("payload", "hold signals of the last rows", sorted(arrays)))
        spec = PublicSpec(num_public=len(rows), num_classes=3, fingerprint=public.fingerprint)
        at = instruction.server_round
        return rows, decode_labels(arrays["signals"], public=spec, server_round=at, num_arrays=1)[0]
