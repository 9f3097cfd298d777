"""Labels and codes of density ratios as one body, near their entropy: an adaptive binary range coder.

A row says little: mostly one class, a level and a label that is that class. Deflate spends whole bits on each of these
and remembers patterns that never come back; a range coder spends what each costs. Every decision of a row is a yes or
no with a probability that both sides learn from the rows before, so nothing but the decisions travels. The coder is
that of 7-Zip's LZMA (I. Pavlov, public domain specification), with counts in place of shifted probabilities, because
answers are short.

A row holds its label, whether it has a code above 0, whether its largest code is at the label's class (else which
class), that code, whether others follow, and for each other class whether it has a code and how far that lies below.
With a base, a row that did not change is one decision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.voting import Labels

__all__ = ["pack_rows", "unpack_rows"]

_TOP = 1 << 24
_MOST = 500  # the count of a decision at which a context forgets half of what it has seen


class _Coder:
    """What encoder and decoder share: how often each decision was no and yes before, by context."""

    def __init__(self, num_contexts: int) -> None:
        self._no = [1] * num_contexts
        self._yes = [1] * num_contexts
        self._range = 0xFFFFFFFF

    def put(self, bit: int, context: int) -> int:
        """Code a decision and return it; the decoder looks at none of ``bit``."""
        raise NotImplementedError

    def number(self, value: int, bits: int, context: int) -> int:
        """Code a number of ``bits`` bits, the highest first, each in the context of those before it."""
        node = 1
        for i in range(bits - 1, -1, -1):
            node = 2 * node + self.put((value >> i) & 1, context + node)
        return node - (1 << bits)

    def _learn(self, bit: int, context: int) -> None:
        counts = self._yes if bit else self._no
        counts[context] += 2
        if counts[context] > _MOST:
            self._no[context] = (self._no[context] + 1) >> 1
            self._yes[context] = (self._yes[context] + 1) >> 1


class _Encoder(_Coder):
    def __init__(self, num_contexts: int) -> None:
        super().__init__(num_contexts)
        self._low = 0
        self._out = bytearray()

    def put(self, bit: int, context: int) -> int:
        no = self._no[context]
        bound = self._range * no // (no + self._yes[context])
        if bit:
            self._low += bound
            self._range -= bound
        else:
            self._range = bound
        self._learn(bit, context)
        while self._range < _TOP:
            self._shift()
        return bit

    def _shift(self) -> None:
        if self._low > 0xFFFFFFFF:  # a carry runs through the bytes that are out already
            self._low &= 0xFFFFFFFF
            i = len(self._out) - 1
            while self._out[i] == 0xFF:
                self._out[i] = 0
                i -= 1
            self._out[i] += 1
        self._out.append(self._low >> 24)
        self._low = (self._low << 8) & 0xFFFFFFFF
        self._range <<= 8

    def finish(self) -> bytes:
        for _ in range(5):
            self._shift()
        return bytes(self._out).rstrip(b"\0")  # the decoder reads zeros after the end


class _Decoder(_Coder):
    def __init__(self, num_contexts: int, body: bytes) -> None:
        super().__init__(num_contexts)
        self._body, self._at = body, 4
        self._value = int.from_bytes(body[:4].ljust(4, b"\0"), "big")

    def put(self, bit: int, context: int) -> int:
        no = self._no[context]
        bound = self._range * no // (no + self._yes[context])
        if self._value >= bound:
            bit = 1
            self._value -= bound
            self._range -= bound
        else:
            bit = 0
            self._range = bound
        self._learn(bit, context)
        while self._range < _TOP:
            byte = self._body[self._at] if self._at < len(self._body) else 0
            self._value = (self._value << 8) | byte
            self._at += 1
            self._range <<= 8
        return bit


class _Rows:
    """How a row is made of decisions, and where the contexts of each kind begin."""

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
            "changed": 2 * (num_classes + 1),
        }
        ends = np.cumsum(list(sizes.values())).tolist()
        self.at = dict(zip(sizes, [0, *ends], strict=False))
        self.num_contexts = ends[-1]

    def changed(self, coder: _Coder, bit: int, before: int, label: int) -> int:
        """Code whether a row differs from the base's, given whether the last did and the base's label."""
        return coder.put(bit, self.at["changed"] + 2 * label + before)

    def code(self, coder: _Coder, codes: bytes, label: int) -> tuple[bytearray, int]:
        """Code a row and its label, and return them as they are found.

        A row is bytes, because Python's garbage collector looks at lists, and there are as many rows as public ones.
        """
        at, num_classes = self.at, self.num_classes
        found = bytearray(num_classes)
        label = min(coder.number(label, self.width, at["label"]), num_classes)
        largest = max(codes)
        if not coder.put(int(largest > 0), at["filled"] + label):
            return found, label
        top = codes.index(largest)
        if label < num_classes and largest == codes[label]:
            top = label
        same = coder.put(int(top == label), at["same"] + label)
        top = label if same else coder.number(top, self.width, at["top"])
        top = min(top, num_classes - 1)  # only forged bytes say more
        kind = 2 * same + (top if num_classes == 2 else 0)
        largest = coder.number(largest, self.bits, at["level"] + (kind << self.bits))
        found[top] = largest
        others = int(num_classes - codes.count(0) > 1)
        if largest and coder.put(others, at["more"] + 2 * largest + same):
            for i in range(num_classes):
                if i != top and (num_classes == 2 or coder.put(int(codes[i] > 0), at["other"] + i)):
                    below, context = 0, at["below"] + (3 if i > top else 0)
                    while below < largest - 1 and coder.put(int(largest - codes[i] > below), context + min(below, 2)):
                        below += 1
                    found[i] = largest - below
        return found, label


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
    num_classes = codes.shape[1]
    rows = _Rows(num_classes, bits)
    coder = _Encoder(rows.num_contexts)
    given, numbers = codes.tobytes(), _as_numbers(labels, num_classes)
    changed = None if base is None else _changed(codes, labels, base)
    known = [] if base is None else _as_numbers(base[1], num_classes)
    before = 0
    for i, label in enumerate(numbers):
        if changed is not None:
            before = rows.changed(coder, changed[i], before, known[i])
            if not before:
                continue
        rows.code(coder, given[i * num_classes : (i + 1) * num_classes], label)
    return coder.finish()


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
    coder = _Decoder(rows.num_contexts, body)
    found = bytearray(num_public * num_classes if base is None else base[0].tobytes())
    numbers = [0] * num_public if base is None else _as_numbers(base[1], num_classes)
    known, nothing, before = list(numbers), bytes(num_classes), 0
    for i in range(num_public):
        if base is not None:
            before = rows.changed(coder, 0, before, known[i])
            if not before:
                continue
        found[i * num_classes : (i + 1) * num_classes], numbers[i] = rows.code(coder, nothing, 0)
    codes = np.frombuffer(found, dtype=np.uint8).reshape(num_public, num_classes)
    labels = np.array(numbers)
    return codes, np.where(labels < num_classes, labels, -1).astype(np.int16)


def _changed(codes: NDArray[np.uint8], labels: Labels, base: tuple[NDArray[np.uint8], Labels]) -> list[int]:
    numbers: list[int] = ((codes != base[0]).any(axis=1) | (labels != base[1])).astype(int).tolist()
    return numbers


def _as_numbers(labels: Labels, num_classes: int) -> list[int]:
    numbers: list[int] = np.where(labels < 0, num_classes, labels).tolist()
    return numbers
