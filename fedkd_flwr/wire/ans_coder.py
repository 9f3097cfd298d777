"""Labels and codes of density ratios as one body, near their entropy: adaptive asymmetric numeral systems.

A row says little: mostly one class, a level and a label that is that class. Deflate spends whole bits on each of these
and remembers patterns that never come back; an entropy coder spends what each costs. Every decision of a row is a yes
or no with a probability that both sides learn from the rows before, so nothing but the decisions travels.

A row holds its label, whether it has a code above 0, whether its largest code is at the label's class (else which
class), that code, whether others follow, and for each other class whether it has a code and how far that lies below.
With a base, a row that did not change is one decision, and where a label alone is new, the codes are not said again.

The coder is Duda's rANS ("Asymmetric numeral systems: entropy coding combining speed of Huffman coding with compression
rate of arithmetic coding", 2013). Of many rows it has one state for each 256, so that NumPy takes as many decisions at
once; a state costs three bytes, so few rows share one. Rows come in blocks, each half as long as all before it. All
rows of a block are asked the same question together, and what was decided changes the probabilities from the next block
on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.voting import Labels

__all__ = ["pack_rows", "packed_size", "unpack_rows"]

Bits = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_SCALE = 14  # bits of a probability
_LOW = 1 << 16  # a state lies within 2^16..2^32 - 1, and 16 bits of it leave or come at once
_MASK = (1 << _SCALE) - 1
_ROWS_PER_STATE = 256
_FEW_ROWS = 4096
_FIRST_BLOCK = 12


class _Coder:
    """What encoder and decoder share: how often each decision was no and yes in earlier blocks, by context."""

    def __init__(self, num_contexts: int) -> None:
        self._no = np.ones(num_contexts, dtype=np.int64)  # a half of a decision each, before any was seen
        self._yes = np.ones(num_contexts, dtype=np.int64)
        self._chances = np.full(num_contexts, 1 << (_SCALE - 1), dtype=np.int64)  # of no
        self._decided: list[tuple[Bits, Numbers]] = []

    def put(self, bits: Bits, contexts: Numbers) -> Bits:
        """Code decisions and return them; the decoder looks at none of ``bits``."""
        found = self._coded(bits, self._chances[contexts])
        self._decided.append((found, contexts))
        return found

    def numbers(self, values: Numbers, bits: int, contexts: Numbers) -> Numbers:
        """Code numbers of ``bits`` bits, the highest first, each in the context of those before it."""
        nodes = np.ones(len(values), dtype=np.int64)
        for i in range(bits - 1, -1, -1):
            nodes = 2 * nodes + self.put((values >> i) & 1 > 0, contexts + nodes)
        return nodes - (1 << bits)

    def end_block(self) -> None:
        """Learn from what was decided since the last call."""
        bits, contexts = (np.concatenate(part) for part in zip(*self._decided, strict=True))
        self._decided.clear()
        seen, yes = (np.bincount(some, minlength=len(self._no)) for some in (contexts, contexts[bits]))
        self._yes += 2 * yes
        self._no += 2 * (seen - yes)
        self._chances = np.clip((self._no << _SCALE) // (self._no + self._yes), 1, _MASK)

    def _coded(self, bits: Bits, chances: Numbers) -> Bits:
        raise NotImplementedError


class _Meter(_Coder):
    """Sums what decisions would cost."""

    def __init__(self, num_contexts: int) -> None:
        super().__init__(num_contexts)
        self.bits = 0.0

    def _coded(self, bits: Bits, chances: Numbers) -> Bits:
        shares = np.where(bits, (1 << _SCALE) - chances, chances)
        self.bits += _SCALE * len(bits) - float(np.log2(shares).sum())
        return bits


class _Encoder(_Coder):
    def __init__(self, num_contexts: int, num_states: int) -> None:
        super().__init__(num_contexts)
        self._num_states = num_states
        self._steps: list[tuple[Bits, Numbers]] = []

    def _coded(self, bits: Bits, chances: Numbers) -> Bits:
        self._steps.append((bits, chances))
        return bits

    def finish(self) -> bytes:
        """Return the states and the words that left them; a decoder takes them in the opposite order."""
        found, words = self._one_state() if self._num_states == 1 else self._many_states()
        words.reverse()
        return (
            found.astype("<u4").tobytes()
            + np.concatenate([*words, np.zeros(0, dtype=np.int64)]).astype("<u2").tobytes()
        )

    def _one_state(self) -> tuple[Numbers, list[Any]]:
        state, words = _LOW, []
        for bits, chances in reversed(self._steps):
            for bit, chance in zip(reversed(bits.tolist()), reversed(chances.tolist()), strict=True):
                share = (1 << _SCALE) - chance if bit else chance
                if state >= share << (32 - _SCALE):
                    words.append([state & 0xFFFF])
                    state >>= 16
                state = (state // share << _SCALE) + state % share + (chance if bit else 0)
        return np.array([state]), words

    def _many_states(self) -> tuple[Numbers, list[Any]]:
        states, words, width = np.full(self._num_states, _LOW, dtype=np.int64), [], self._num_states
        for bits, chances in reversed(self._steps):
            for at in range((len(bits) - 1) // width * width, -1, -width):
                shares, starts = _parts(bits[at : at + width], chances[at : at + width])
                own = states[: len(shares)]
                full = own >= shares << (32 - _SCALE)
                words.append(own[full] & 0xFFFF)
                own = np.where(full, own >> 16, own)
                states[: len(shares)] = (own // shares << _SCALE) + own % shares + starts
        return states, words


class _Decoder(_Coder):
    """Reads what an encoder wrote; of forged bytes there may be too few, and zeros follow."""

    def __init__(self, num_contexts: int, num_states: int, body: bytes) -> None:
        super().__init__(num_contexts)
        front = 4 * num_states
        self._states = np.frombuffer(body[:front].ljust(front, b"\0"), dtype="<u4").astype(np.int64)
        rest = body[front:]
        self._words = np.frombuffer(rest[: len(rest) // 2 * 2], dtype="<u2").astype(np.int64)
        self._at = 0

    def _coded(self, bits: Bits, chances: Numbers) -> Bits:
        width = len(self._states)
        if width == 1:
            return self._one_state(chances)
        found = np.zeros(len(bits), dtype=np.bool_)
        for at in range(0, len(bits), width):
            found[at : at + width] = self._step(chances[at : at + width])
        return found

    def _one_state(self, chances: Numbers) -> Bits:
        state, found = int(self._states[0]), []
        for chance in chances.tolist():
            slot = state & _MASK
            bit = slot >= chance
            share, start = ((1 << _SCALE) - chance, chance) if bit else (chance, 0)
            state = share * (state >> _SCALE) + slot - start
            if state < _LOW:
                word = int(self._words[self._at]) if self._at < len(self._words) else 0
                self._at += 1
                state = state << 16 | word
            found.append(bit)
        self._states[0] = state
        return np.array(found, dtype=np.bool_)

    def _step(self, chances: Numbers) -> Bits:
        own = self._states[: len(chances)]
        slots = own & _MASK
        bits = slots >= chances
        shares, starts = _parts(bits, chances)
        own = shares * (own >> _SCALE) + slots - starts
        empty = np.flatnonzero(own < _LOW)
        came = self._words[self._at : self._at + len(empty)]
        self._at += len(empty)
        own[empty] <<= 16
        own[empty[: len(came)]] |= came
        self._states[: len(chances)] = own
        return bits


def _parts(bits: Bits, chances: Numbers) -> tuple[Numbers, Numbers]:
    """Return how large the part of a decision is, and where it begins, of 2^14; no comes first."""
    return np.where(bits, (1 << _SCALE) - chances, chances), np.where(bits, chances, 0)


class _Rows:
    """How rows are made of decisions, and where the contexts of each kind begin."""

    def __init__(self, num_classes: int, bits: int) -> None:
        self.num_classes, self.bits = num_classes, bits
        self.width = num_classes.bit_length()  # of a label within 0..C, where C is no label
        sizes = {
            "label": 1 << self.width,
            "filled": num_classes + 1,
            "same": num_classes + 1,
            "top": 1 << self.width,
            "level": 4 << bits,
            "more": 2 << bits,
            "other": num_classes,
            "below": 6,
            "changed": num_classes + 1,
            "moved": 1,
        }
        ends = np.cumsum(list(sizes.values())).tolist()
        self.at = dict(zip(sizes, [0, *ends], strict=False))
        self.num_contexts = ends[-1]

    def changed(self, coder: _Coder, bits: Bits, labels: Numbers) -> Bits:
        """Code whether rows differ from the base's, given the base's labels."""
        return coder.put(bits, self.at["changed"] + labels)

    def code(
        self,
        coder: _Coder,
        codes: NDArray[np.uint8],
        labels: Numbers,
        known: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.uint8], Numbers]:
        """Code rows and their labels, and return them as they are found; ``known`` are the base's codes of the rows."""
        at, num_classes = self.at, self.num_classes
        origin = np.zeros(len(labels), dtype=np.int64)
        labels = np.minimum(coder.numbers(labels, self.width, at["label"] + origin), num_classes)
        rows = np.arange(len(labels))
        if known is not None:  # where a label alone is new, the codes are not said again
            rows = np.flatnonzero(coder.put((codes != known).any(axis=1), at["moved"] + origin))
        found = np.zeros_like(codes) if known is None else known.copy()
        found[rows] = 0
        largest = codes.max(axis=1).astype(np.int64)
        rows = rows[coder.put(largest[rows] > 0, at["filled"] + labels[rows])]
        given, largest, label = codes[rows], largest[rows], labels[rows]
        top = given.argmax(axis=1)
        of_label = given[np.arange(len(rows)), np.minimum(label, num_classes - 1)]
        top = np.where((label < num_classes) & (of_label == largest), label, top)
        same = coder.put(top == label, at["same"] + label)
        differs = np.flatnonzero(~same)
        top[differs] = coder.numbers(top[differs], self.width, at["top"] + origin[: len(differs)])
        top[same] = label[same]
        top = np.minimum(top, num_classes - 1)  # only forged bytes say more
        kinds = 2 * same + (top if num_classes == 2 else 0)
        largest = coder.numbers(largest, self.bits, at["level"] + (kinds << self.bits))
        found[rows, top] = largest
        filled = np.flatnonzero(largest)
        more = coder.put(((given > 0).sum(axis=1) > 1)[filled], at["more"] + 2 * largest[filled] + same[filled])
        with_others = filled[more]
        for i in range(num_classes):
            there = with_others[top[with_others] != i]
            if num_classes > 2:
                there = there[coder.put(given[there, i] > 0, np.full(len(there), at["other"] + i))]
            found[rows[there], i] = self._below(coder, given[there, i], largest[there], i > top[there])
        return found, labels

    def _below(self, coder: _Coder, codes: NDArray[np.uint8], largest: Numbers, after: Bits) -> NDArray[np.uint8]:
        """Code by how much other codes lie below the largest of their row."""
        distance, below = largest - codes, np.zeros(len(codes), dtype=np.int64)
        open_ones = np.flatnonzero(largest > 1)
        for step in range((1 << self.bits) - 2):
            contexts = self.at["below"] + 3 * after[open_ones] + min(step, 2)
            open_ones = open_ones[coder.put(distance[open_ones] > step, contexts)]
            below[open_ones] += 1
            open_ones = open_ones[below[open_ones] < largest[open_ones] - 1]
        return (largest - below).astype(np.uint8)


def pack_rows(
    codes: NDArray[np.uint8],
    labels: Labels,
    *,
    bits: int,
    base: tuple[NDArray[np.uint8], Labels] | None = None,
) -> bytes:
    """Return codes and labels as bytes.

    Parameters
    ----------
    codes : ndarray of shape (num_public, num_classes), uint8
        Within 0..2^bits - 1.
    labels : ndarray of shape (num_public,), int16
        Labels, ``ABSTAIN`` where there is none.
    bits : int
        Bits of a code.
    base : tuple of codes and labels, optional
        What the receiver holds already.

    Examples
    --------
    >>> codes, labels = np.array([[0, 3], [2, 0], [0, 0]], np.uint8), np.array([1, 0, 1], np.int16)
    >>> body = pack_rows(codes, labels, bits=2)
    >>> [array.tolist() for array in unpack_rows(body, num_public=3, num_classes=2, bits=2)]
    [[[0, 3], [2, 0], [0, 0]], [1, 0, 1]]
    """
    rows = _Rows(codes.shape[1], bits)
    coder = _Encoder(rows.num_contexts, _num_states(len(codes)))
    _code(coder, rows, codes, labels, base)
    return coder.finish()


def packed_size(codes: NDArray[np.uint8], labels: Labels, *, bits: int) -> float:
    """Return how many bytes `pack_rows` would give, within a few, in a fraction of its time.

    Examples
    --------
    >>> codes, labels = np.tile(np.array([[0, 3], [2, 0]], np.uint8), (50, 1)), np.tile(np.array([1, 0], np.int16), 50)
    >>> round(packed_size(codes, labels, bits=2)), len(pack_rows(codes, labels, bits=2))
    (27, 26)
    """
    rows = _Rows(codes.shape[1], bits)
    meter = _Meter(rows.num_contexts)
    _code(meter, rows, codes, labels, None)
    return 3 * _num_states(len(codes)) + meter.bits / 8  # a state holds about one byte of its four


def _code(
    coder: _Coder,
    rows: _Rows,
    codes: NDArray[np.uint8],
    labels: Labels,
    base: tuple[NDArray[np.uint8], Labels] | None,
) -> None:
    num_public, num_classes = codes.shape
    numbers = _as_numbers(labels, num_classes)
    for block in _blocks(num_public):
        part, own, known = codes[block], numbers[block], None
        if base is not None:
            differs = (part != base[0][block]).any(axis=1) | (labels[block] != base[1][block])
            differs = rows.changed(coder, differs, _as_numbers(base[1][block], num_classes))
            part, own, known = part[differs], own[differs], base[0][block][differs]
        rows.code(coder, part, own, known)
        coder.end_block()


def unpack_rows(
    body: bytes,
    *,
    num_public: int,
    num_classes: int,
    bits: int,
    base: tuple[NDArray[np.uint8], Labels] | None = None,
) -> tuple[NDArray[np.uint8], Labels]:
    """Return the codes and labels of `pack_rows`; any bytes give some, all within their ranges.

    The work is bounded by the shape, whatever the bytes say, so a forged body costs no more than an honest one.
    """
    rows = _Rows(num_classes, bits)
    coder = _Decoder(rows.num_contexts, _num_states(num_public), body)
    codes = np.zeros((num_public, num_classes), dtype=np.uint8) if base is None else base[0].copy()
    numbers = np.zeros(num_public, dtype=np.int64) if base is None else _as_numbers(base[1], num_classes)
    for block in _blocks(num_public):
        at, known = np.arange(block.start, block.stop), None
        if base is not None:
            at = at[rows.changed(coder, np.zeros(len(at), dtype=np.bool_), numbers[block])]
            known = codes[at]
        nothing = np.zeros((len(at), num_classes), dtype=np.uint8)
        codes[at], numbers[at] = rows.code(coder, nothing, np.zeros(len(at), dtype=np.int64), known)
        coder.end_block()
    return codes, np.where(numbers < num_classes, numbers, -1).astype(np.int16)


def _num_states(num_public: int) -> int:
    return 1 if num_public <= _FEW_ROWS else num_public // _ROWS_PER_STATE


def _blocks(num_public: int) -> Iterator[slice]:
    start, stop = 0, min(_FIRST_BLOCK, num_public)
    while start < num_public:
        yield slice(start, stop)
        start, stop = stop, min(stop + stop // 2, num_public)


def _as_numbers(labels: Labels, num_classes: int) -> Numbers:
    return np.where(labels < 0, num_classes, labels).astype(np.int64)
