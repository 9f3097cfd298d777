"""A party's answer as named wire arrays: its labels, and what a vote rule needs beside them.

A rule may name a module that turns both into bytes together (`ConsensusRule.codec`): `fedkd_flwr.wire.ratio_codec` is
one, with the functions `encode` and `decode` of this module's form. Without one labels are packed, and the other arrays
travel as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels.rule import ConsensusRule
from fedkd_flwr.wire.envelope import PublicSpec
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels

__all__ = ["decode_answer", "encode_answer"]

Arrays = Mapping[str, NDArray[Any]]


def encode_answer(
    values: Arrays, *, public: PublicSpec, server_round: int, base: Arrays, rule: ConsensusRule | None = None
) -> dict[str, NDArray[Any]]:
    """Return an answer's values as wire arrays.

    ``values``: ``labels`` (num_arrays, num_public) or ``bits`` (1, num_public * num_classes), int16, and what ``rule``
        needs. Other names do not travel.
    ``public``: the public rows that the labels are for.
    ``server_round``: the round they answer.
    ``base``: values of an earlier answer that the receiver holds; {} for none.
    ``rule``: the rule whose needs are answered.
    """
    at: dict[str, Any] = {"server_round": server_round}
    beside = {name: values[name] for name in (() if rule is None else rule.needs) if name in values}
    if beside and rule is not None and rule.codec:
        encoded: dict[str, NDArray[Any]] = import_module(rule.codec).encode(values, public=public, base=base, **at)
        return encoded
    specs = {"labels": public, "bits": public.bits}
    packed = {
        name: encode_labels(array, public=specs[name], base=base.get(name), **at)
        for name, array in values.items()
        if name in specs
    }
    return packed | beside


def decode_answer(
    arrays: Arrays,
    *,
    public: PublicSpec,
    server_round: int,
    base: Arrays,
    num_arrays: int | None = None,
    rule: ConsensusRule | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the values of an answer, under the names that `encode_answer` was given.

    ``arrays``: the answer's wire arrays; those that nobody asked for are ignored. ``public``, ``server_round``,
    ``base``, ``rule``: as in `encode_answer`. ``num_arrays``: how many label arrays it must hold.

    Raises `PayloadError` if it cannot be read, or says only a part of what the rule needs.
    """
    at: dict[str, Any] = {"server_round": server_round, "num_arrays": num_arrays}
    named = [name for name in (() if rule is None else rule.needs) if name in arrays]
    if rule is not None and named[:1] != [*rule.needs[:1]]:  # labels alone, whatever else came with them
        named = []
    if named and rule is not None and rule.codec:
        decoded: dict[str, NDArray[Any]] = import_module(rule.codec).decode(arrays, public=public, base=base, **at)
        return decoded
    name = "bits" if "bits" in arrays else "labels"
    if name not in arrays:
        raise PayloadError(f"no {name} in the reply")
    spec = public.bits if name == "bits" else public
    values = {name: decode_labels(arrays[name], public=spec, base=base.get(name), **at)}
    if rule is None or not named:
        return values
    if missing := [one for one in rule.needs if one not in arrays and one not in rule.once]:
        raise PayloadError(explain("reply", f"hold {', '.join(rule.needs)} for {rule.name}", f"no {missing[0]}"))
    return values | {one: np.asarray(arrays[one]) for one in named}
