"""PFNM: one round of weights, whose hidden units the server matches before it averages them.

Yurochkin et al., ICML 2019 (arXiv 1905.12022): parties train from first weights of their own; the server matches units
by a beta-Bernoulli process and the Hungarian algorithm, and gives everybody the net of as many hidden units as that
finds. Fully connected nets alone: the zoo's ``mlp``, because a unit of others is more than a row of weights.
Weights and class counts leave the parties without noise, and there is no claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import PFNM as CARD
from fedkd_flwr.baselines.weight_exchange import MAX_ROWS, PartyWeights, WeightClient, WeightExchange
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Stage
from fedkd_flwr.wire.records import Reply, numbered

__all__ = ["PFNMClient", "PFNMExchange", "aggregate", "match_units"]

_PRIOR = 1.0  # 1 / sigma_0^2: the variance of the weights of the server's units around zero
_GAMMA = 1.0  # gamma_0
_PASSES = 5
# 1 / sigma^2, of a party's weights around those of the server's unit, is 1 too

Floats = NDArray[np.float64]


def match_units(
    units: Sequence[Floats],
    precisions: Sequence[Floats],
    *,
    prior: float,
    gamma: float,
    passes: int,
    rng: np.random.Generator,
) -> tuple[Floats, list[NDArray[np.int64]]]:
    """Match the units of one layer of all parties, and return the centres and which centre each unit belongs to.

    One party at a time is assigned to the centres of the others, or to new ones, at the least cost (Propositions 2 and
    3): a linear assignment. Two units of one party never share a centre.

    ``units``, (num_units_j, num_weights), are those of each party; ``precisions``, (num_weights,), 1 / sigma^2 of each
    of its weights. ``prior`` is 1 / sigma_0^2, > 0, around a mean of zero; a larger ``gamma``, gamma_0, gives more
    centres; each party is matched anew in at most so many ``passes``, in an order that ``rng`` draws. Centres,
    (num_centres, num_weights), are their most probable weights; with them comes each unit's centre, (num_units_j,).

    Two parties have the units (9, 0) and (0, 9), in different orders. A vague prior leaves their means as they are:

    >>> one, other = np.array([[9.0, 0.0], [0.0, 9.0]]), np.array([[0.0, 9.0], [9.0, 0.0]])
    >>> rng = np.random.default_rng(1)
    >>> found = match_units([one, other], [np.ones(2)] * 2, prior=1e-9, gamma=1.0, passes=3, rng=rng)
    >>> found[0].round(3).tolist(), [owned.tolist() for owned in found[1]]
    ([[9.0, 0.0], [0.0, 9.0]], [[0, 1], [1, 0]])
    """
    from scipy.optimize import linear_sum_assignment

    num_parties, num_weights = len(units), units[0].shape[1]
    sums, precision = np.zeros((0, num_weights)), np.zeros((0, num_weights))
    counts = np.zeros(0, dtype=np.int64)
    owned: dict[int, NDArray[np.int64]] = {}
    order = sorted(range(num_parties), key=lambda j: -len(units[j]))
    for at in range(1 + passes):
        before = {j: own.copy() for j, own in owned.items()}
        for j in order if at == 0 else rng.permutation(num_parties):
            own = owned.pop(j, None)
            scaled, p = units[j] * precisions[j], precisions[j]
            if own is not None:
                sums[own] -= scaled
                precision[own] -= p
                counts[own] -= 1
                kept = counts > 0
                numbers = np.cumsum(kept) - 1
                sums, precision, counts = sums[kept], precision[kept], counts[kept]
                owned = {k: numbers[other] for k, other in owned.items()}
            gains = _gains(sums, precision, counts, scaled, p, prior=prior, gamma=gamma, num_parties=num_parties)
            _, own = linear_sum_assignment(gains, maximize=True)
            # new centres take the next free numbers, in the order of the party's units
            new = np.flatnonzero(own >= len(counts))
            own[new] = len(counts) + np.arange(len(new))
            sums = np.vstack([sums, np.zeros((len(new), num_weights))])
            precision = np.vstack([precision, np.zeros((len(new), num_weights))])
            counts = np.concatenate([counts, np.zeros(len(new), dtype=np.int64)])
            sums[own] += scaled
            precision[own] += p
            counts[own] += 1
            owned[j] = own
        if at and all(np.array_equal(own, before[j]) for j, own in owned.items()):
            break
    return sums / (prior + precision), [owned[j] for j in range(num_parties)]


def _gains(
    sums: Floats,
    precision: Floats,
    counts: NDArray[np.int64],
    scaled: Floats,
    p: Floats,
    *,
    prior: float,
    gamma: float,
    num_parties: int,
) -> Floats:
    """Return what each unit of a party gains by each centre: (num_units, num_centres + num_units); the rest are new."""
    q = prior + precision + p
    gain = (sums**2 / q).sum(axis=1) + 2 * scaled @ (sums / q).T + scaled**2 @ (1 / q).T
    gain -= (sums**2 / (prior + precision)).sum(axis=1)
    gain += 2 * np.log(counts / (num_parties - counts))
    alone = (scaled**2 / (prior + p)).sum(axis=1)
    costs = 2 * np.log(np.arange(1, len(scaled) + 1) * num_parties / gamma)
    return np.hstack([gain, alone[:, None] - costs])


def aggregate(
    nets: Sequence[Sequence[NDArray[np.floating]]],
    class_counts: NDArray[np.integer],
    *,
    rng: np.random.Generator,
    prior: float = _PRIOR,
) -> list[NDArray[np.float32]]:
    """Return the weights W_1, b_1, ..., of the server's net, whose hidden layers are as wide as the matching made them.

    Layers are matched from the last one down: a unit is known by what it does to the layer above (zero for units that
    its party lacks), and the first layer's by its inputs too. How sure a party is of its weights to a class is its
    share of the class's rows, as in the published code; the paper leaves it open. ``nets`` are each party's arrays, W
    of shape (outputs, inputs); ``class_counts``, (num_parties, num_classes), its rows of each class; the rest is as in
    `match_units`.

    Two nets that differ in the order of their two hidden units alone are one net again:

    >>> one = [np.array([[5.0], [-5.0]]), np.array([1.0, 2.0]), np.array([[4.0, 0.0], [0.0, 4.0]]), np.zeros(2)]
    >>> other = [one[0][::-1], one[1][::-1], one[2][:, ::-1], one[3]]
    >>> rng = np.random.default_rng(1)
    >>> [array.round(2).tolist() for array in aggregate([one, other], np.ones((2, 2), int), prior=1e-6, rng=rng)]
    [[[5.0], [-5.0]], [1.0, 2.0], [[4.0, 0.0], [0.0, 4.0]], [0.0, 0.0]]
    """
    totals = class_counts.sum(axis=0)
    shares = np.where(totals > 0, class_counts / np.maximum(totals, 1), 1 / len(nets))
    bias = np.sum([share * net[-1] for share, net in zip(shares, nets, strict=True)], axis=0)
    made = [bias / (prior + shares.sum(axis=0))]
    above = [np.asarray(net[-2], dtype=np.float64) for net in nets]  # (outputs, units) of each party
    above_precisions: Sequence[Floats] = list(shares)
    for layer in reversed(range(len(nets[0]) // 2 - 1)):
        inputs = [np.asarray(net[2 * layer], dtype=np.float64) for net in nets]
        width = inputs[0].shape[1] if layer == 0 else 0
        units, precisions = [], []
        for net, W, out, known in zip(nets, inputs, above, above_precisions, strict=True):
            units.append(np.hstack([W[:, :width], np.asarray(net[2 * layer + 1])[:, None], out.T]))
            precisions.append(np.concatenate([np.ones(width + 1), known]))
        centres, owned = match_units(units, precisions, prior=prior, gamma=_GAMMA, passes=_PASSES, rng=rng)
        made = [centres[:, width], centres[:, width + 1 :].T, *made]
        if layer == 0:
            made = [centres[:, :width], *made]
        above = []
        for W, own in zip(inputs, owned, strict=True):
            full = np.zeros((len(centres), W.shape[1]))
            full[own] = W
            above.append(full)
        above_precisions = [np.ones(len(centres))] * len(nets)
    return [np.ascontiguousarray(array, dtype=np.float32) for array in made]


class PFNMExchange(WeightExchange):
    """One-shot matching of fully connected nets. Parameters as in `WeightExchange`.

    Raises `ConfigError` if the net is not the zoo's ``mlp``.
    """

    card = CARD
    warning = Note(NoteCode.WEIGHTS_LEFT, {"beside": "class-rows"})

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.model.with_widths(self._widths(self.model.arrays()))  # another net is refused now

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return nothing in the round: parties start from weights of their own."""
        return super().outgoing(stage, server_round) if stage == "evaluate" else {}

    def read(self, reply: Reply, server_round: int) -> PartyWeights:
        """Check a party's weights, and its rows of each class."""
        arrays = dict(reply.arrays)
        counts = arrays.pop("class-counts", np.zeros(0))
        num_classes = self.spec.num_classes
        if counts.dtype.kind not in "iu" or counts.shape != (num_classes,):
            raise PayloadError(explain("class-counts", f"be {num_classes} whole numbers", f"{counts.dtype}"))
        if not (counts.min() >= 0 and counts.max() < MAX_ROWS):
            raise PayloadError(explain("class-counts", "be within 0..2^31", int(counts.min())))
        answer = super().read(replace(reply, arrays=arrays), server_round)
        return replace(answer, parts={**answer.parts, "class-counts": [counts.astype(np.int64)]})

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Match the units, and make the net of what they have in common."""
        counts = np.array([answer.parts["class-counts"][0] for answer in answers])
        nets = [answer.parts["model"] for answer in answers]
        arrays = aggregate(nets, counts, rng=self.rng("order", server_round))
        widths = self._widths(arrays)
        self.note(Note(NoteCode.WIDTHS, {"found": widths, "own": self._widths(self._spare_arrays)}))
        self.model = self.model.with_widths(widths)
        return self.take_up(arrays)

    @staticmethod
    def _widths(arrays: Sequence[NDArray[Any]]) -> list[int]:
        return [len(bias) for bias in arrays[1:-1:2]]


class PFNMClient(WeightClient):
    """Sends the weights of a net it trained alone, and how many rows of each class it holds.

    Parameters as in `WeightClient`; its ``model`` must be the zoo's ``mlp``.
    """

    card = CARD

    def learn(self, instruction: Instruction) -> Answer:
        """Train a net alone; return its weights and the class counts."""
        party = self.party
        model = party.model(seed=instruction.seed("train", instruction.server_round)).initialize()
        self.train(model, instruction)
        counts = np.bincount(party.y, minlength=party.public.num_classes)
        return Answer(values={**numbered("model", model.arrays()), "class-counts": counts.astype(np.int64)})

    def received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        """Return the server's net, which is wider than this party's."""
        arrays = self.weights(instruction)
        fresh = self.party.model(seed=instruction.seed(*stream))
        try:
            return fresh.with_widths([len(array) for array in arrays[1:-1:2]]).set_arrays(arrays)
        except (DataError, TypeError) as error:
            raise PayloadError(f"The server's model does not fit this party's: {error}") from error
