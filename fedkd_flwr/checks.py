"""Checks of a whole number, a number, a choice and a flag; each message says *name, rule, value seen, way out*.

The whole package uses these. True, False and NaN are not numbers; NumPy's scalars are.
"""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from fedkd_flwr.errors import ConfigError, FedkdError, explain

__all__ = ["check_choice", "check_number", "check_parameters", "check_whole", "meant", "nearest", "number_rule"]
__all__ += ["read_word", "split_words"]


def check_whole(
    name: str,
    value: object,
    least: int = 0,
    most: int | None = None,
    *,
    way_out: str = "",
    error: type[FedkdError] = ConfigError,
) -> int:
    """Return a whole number within ``least..most``, both included; raise ``error`` if the value is anything else.

    The message calls it ``name``, and ends with ``way_out``: what the reader can do, if the rule does not say it.
    """
    upper = math.inf if most is None else most
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= int(value) <= upper:
        rule = f"be a whole number >= {least}" if most is None else f"be a whole number within {least}..{most}"
        raise error(explain(name, rule, value, way_out))
    return int(value)


def check_number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    way_out: str = "",
    error: type[FedkdError] = ConfigError,
) -> float:
    """Return a finite number within a range, as a float; the rest is as in `check_whole`.

    The range includes ``least`` and ``most``, and not ``above`` and ``below``.

    >>> check_number("quorum", 1, least=0, most=1)
    1.0
    """
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    number = _as_float(value) if is_number else math.nan
    if not (math.isfinite(number) and least <= number <= most and above < number < below):
        raise error(explain(name, number_rule(least=least, above=above, most=most, below=below), value, way_out))
    return number


def number_rule(
    *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf, below: float = math.inf
) -> str:
    """Return the rule of a number's range in words.

    >>> number_rule(least=0, most=1), number_rule(above=0), number_rule(above=0, below=1)
    ('be within [0, 1]', 'be finite and > 0', 'be within (0, 1)')
    """
    low, high = max(least, above), min(most, below)
    if low > -math.inf and high < math.inf:
        return f"be within {'(' if above >= least else '['}{low:g}, {high:g}{')' if below <= most else ']'}"
    if low > -math.inf:
        return f"be finite and {'>' if above >= least else '>='} {low:g}"
    if high < math.inf:
        return f"be finite and {'<' if below <= most else '<='} {high:g}"
    return "be a finite number"


def check_choice(name: str, value: object, choices: Collection[Any], *, error: type[FedkdError] = ConfigError) -> Any:
    """Return a value that is one of ``choices`` and of the same type, so that 1 does not count as True.

    >>> check_choice("ties", "random", ("random", "lowest"))
    'random'
    """
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        known = [str(choice) for choice in choices]
        rule = "be true or false" if known == ["True", "False"] else f"be one of {', '.join(known)}"
        raise error(explain(name, rule, value, meant(value, known)))
    return value


def nearest(word: str, known: Collection[str]) -> list[str]:
    """Return the known word that was probably meant, or none: one with two letters swapped, else the one most alike.

    >>> nearest("lable", ["table", "label"]), nearest("modl", ["table", "model"]), nearest("x", ["table"])
    (['label'], ['model'], [])
    """
    word = word[:50]  # as long as any that is known; a text from elsewhere may have megabytes
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    return sorted(swapped & set(known))[:1] or difflib.get_close_matches(word, known, n=1)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the largest float
        return math.inf


def split_words(text: str) -> list[str]:
    """Return words that stand between commas; those within brackets do not count.

    >>> split_words("mlp(hidden=[8, 8], lr=0.1), knn")
    ['mlp(hidden=[8, 8], lr=0.1)', 'knn']
    """
    depth, start, words = 0, 0, []
    for end, letter in enumerate(f"{text},"):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and (depth == 0 or end == len(text)):
            words.append(text[start:end].strip())
            start = end + 1
    return words


def read_word(key: str, word: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of ``name(parameter=value)``, values as Python writes them.

    Raises `ConfigError`, which names ``key``, where the brackets hold anything but plain values by name.

    >>> read_word("model", "mlp(hidden=[8, 8], optimizer='sgd')")
    ('mlp', {'hidden': [8, 8], 'optimizer': 'sgd'})
    """
    name, bracket, rest = word.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        values = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords if one.arg}
        if len(values) < len(call.keywords) or not all(map(_is_plain, values.values())):
            raise ValueError
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        rule = "be a name, or a name with parameters as Python writes them"
        way_out = "Write for example: mlp(hidden=[64, 32], optimizer='sgd'), with text in quotes, True, False and None."
        raise ConfigError(explain(key, rule, word[:200], way_out)) from error
    return name.strip(), values


def meant(word: object, known: Collection[str], otherwise: str = "") -> str:
    """Return the question whether the nearest known word was meant; ``otherwise`` where none is near."""
    near = nearest(word, known) if isinstance(word, str) else []
    return f"Did you mean {near[0]}?" if near else otherwise


def check_parameters(name: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse with a `ConfigError` a parameter in brackets that what is called ``name`` does not have."""
    if wrong := sorted({*given} - {*known}):
        rule = f"be {' or '.join(known)}" if known else "not be given"
        raise ConfigError(explain(f"parameter of {name}", rule, wrong[0], meant(wrong[0], known, "Drop it.")))


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, bool | int | float | str | None)
