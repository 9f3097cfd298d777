"""What an algorithm is, as data: its card; and how each of its settings is declared, once.

A setting is one line of a `Config` (type, default, range, whether parties are told) and, as the docstring below that
line, a sentence that says what it means. The run config and its checks, the words on the wire, the defaults in
``pyproject.toml`` and the tables of ``docs/reference/configuration.md`` are derived from these. A setting that an
algorithm's class declares stands in the run config's section of that name; one that several share stands at the top.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo

from fedkd_flwr.checks import meant
from fedkd_flwr.errors import ConfigError, PayloadError, explain

__all__ = ["PAPER", "Card", "Config", "ExchangeConfig", "Privacy", "Told", "kebab", "setting"]

Told = bool | int | float | str
"""What a setting is on the wire."""

PAPER = "paper"
"""The section of settings that exist to repeat what a paper printed."""

Privacy = Literal["none", "server", "party"]
"""Where noise is added, if anywhere."""


def kebab(name: str) -> str:
    """Return a name as run configs and wire records spell it: steps_per_round as steps-per-round."""
    return name.replace("_", "-")


def setting(
    default: Any,
    *,
    told: bool = False,
    only: Mapping[str, tuple[Any, ...]] | None = None,
    path: bool = False,
    section: str | None = None,
    first: bool = False,
    zero: str = "",
    **limits: Any,
) -> Any:
    """Declare one setting of a `Config`; the docstring below it says what it means.

    ``told``: whether parties are told its value. ``only``: other settings, and the values of theirs with which this one
    is read; else it must keep its default. ``path``: whether it names a file or folder, which commands make absolute.
    ``section``: the section of run configs that it stands in, where that is not the class's own: ``PAPER``, or "" for
    the top. ``first``: whether it is one of the few that `fedkd settings` shows first. ``zero``: the word that users
    write and read in place of 0, where 0 is no number but means "auto", "none" or "all". ``limits``: its range, as
    ``ge``, ``gt``, ``le`` and ``lt``. Its choices are those of a ``Literal`` annotation.
    """
    if isinstance(default, float):
        limits.setdefault("allow_inf_nan", False)
    extra = {"told": told, "only": dict(only or {}), "path": path, "section": section, "first": first, "zero": zero}
    return Field(default, json_schema_extra=cast(Any, extra), **limits)


class Config(BaseModel):
    """Settings that cannot change: keyword-only, of plain types, checked when they are made.

    Raises `ConfigError`, naming every setting that is unknown, of the wrong type, out of range, impossible beside
    another, or not read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())
    section: ClassVar[str] = ""  # of the settings that this very class declares

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError("\n".join(self._sentence(one) for one in error.errors())) from None

    # ---------------------------------------------------------------- what is declared

    @classmethod
    @cache
    def keys(cls) -> dict[str, str]:
        """Return the run-config key of each `setting`, by field name."""
        declared = {
            name: parent.__dict__.get("section", "")
            for parent in reversed(cls.__mro__)
            for name in inspect.get_annotations(parent)
        }
        found = {}
        for name, field in cls.model_fields.items():
            if isinstance(field.json_schema_extra, dict):
                section = declared[name] if (own := _extra(field)["section"]) is None else own
                found[name] = f"{section}.{kebab(name)}" if section else kebab(name)
        return found

    @classmethod
    def paths(cls) -> set[str]:
        """Return the keys of the settings that name a file or folder."""
        return {key for name, key in cls.keys().items() if _extra(cls.model_fields[name])["path"]}

    @classmethod
    def shown_first(cls) -> set[str]:
        """Return the keys of the settings that are shown first."""
        return {key for name, key in cls.keys().items() if _extra(cls.model_fields[name])["first"]}

    @classmethod
    def default(cls, name: str) -> Any:
        """Return the default of a setting."""
        return cls.model_fields[name].default

    @classmethod
    def shown_default(cls, name: str) -> Any:
        """Return the default of a setting as users write it: the word for 0, where it has one."""
        return cls.default(name) or cls.zeros().get(cls.keys()[name], cls.default(name))

    @classmethod
    @cache
    def zeros(cls) -> dict[str, str]:
        """Return the words that users write in place of 0, by key."""
        words = {key: _extra(cls.model_fields[name])["zero"] for name, key in cls.keys().items()}
        return {key: word for key, word in words.items() if word}

    @classmethod
    def rule(cls, name: str) -> str:
        """Return in words which values a setting takes: its choices, or its type and range."""
        field = cls.model_fields[name]
        zero = _extra(field)["zero"]
        if choices := [zero if zero and choice == 0 else choice for choice in _choices(field)]:
            return ", ".join(text if (text := str(choice)).strip(" .,") else f'"{text}"' for choice in choices)
        kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
        kind = next(word for kind, word in kinds.items() if field.annotation in (kind, kind | None))
        signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
        ends = [
            f"{sign} {_limit_text(getattr(limit, end))}"
            for limit in field.metadata
            for end, sign in signs.items()
            if getattr(limit, end, None) is not None
        ]
        if zero:
            ends = [(">= 1" if field.annotation is int else "> 0") if end == ">= 0" else end for end in ends]
        return f"{f'{zero}, or ' if zero else ''}{kind} {' and '.join(ends)}".strip()

    @classmethod
    def meaning(cls, name: str) -> str:
        """Return the docstring below a setting, on one line.

        Read from the source, and not by pydantic at import, which would take half as long again in every process.
        """
        return _docstrings(next(one for one in cls.__mro__ if name in inspect.get_annotations(one))).get(name, "")

    # ---------------------------------------------------------------- what travels

    def told(self) -> dict[str, Told]:
        """Return the settings that parties are told, by their wire names."""
        return {kebab(name): getattr(self, name) for name in self._told_names()}

    @classmethod
    def from_told(cls, words: Mapping[str, Any]) -> Self:
        """Return what a party was told, as settings that have nothing else: what it is not told, it cannot read.

        Raises `PayloadError` if a setting is missing, or what is told breaks a rule.
        """
        names = cls._told_names()
        if missing := [kebab(name) for name in names if kebab(name) not in words]:
            raise PayloadError(explain("instruction", f"name {', '.join(missing)}", "none of that name"))
        try:
            found = cls._told_type()(**{name: words[kebab(name)] for name in names})
        except ConfigError as error:
            raise PayloadError(str(error)) from error
        for name in cls.model_fields.keys() - names:  # checked with its default, which may not be the run's
            del found.__dict__[name]
        return found

    @classmethod
    @cache
    def _told_type(cls) -> type[Self]:
        """Return the type of what a party is told: the same rules, and none of the settings it is not told."""

        def untold(self: Config, name: str) -> Any:
            raise AttributeError(f"{cls.__name__} as a party is told it has no {name}: the instruction names it not.")

        return type(f"Told{cls.__name__}", (cls,), {"__getattr__": untold, "__module__": cls.__module__})

    @classmethod
    def _told_names(cls) -> list[str]:
        return [name for name, field in cls.model_fields.items() if _extra(field)["told"]]

    def changed(self, **values: Any) -> Self:
        """Return these settings with other values for some of them, checked anew."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **values})

    # ---------------------------------------------------------------- what is refused

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse True where 1 is a choice, and 16.0 where 16 is one: to pydantic they are equal. Read words for 0."""
        name = str(info.field_name)
        field = cls.model_fields[name]
        if value == _extra(field)["zero"] != "":
            value = type(field.default)(0)
        if (choices := _choices(cls.model_fields[name])) and type(value) is not type(choices[0]):
            raise ValueError(explain(cls.keys().get(name, name), f"be one of {cls.rule(name)}", value))
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse settings that are not read beside the others, and combinations that `check` knows to be impossible."""
        keys = self.keys()
        unread: list[str] = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default:
                continue
            for other, values in _extra(field)["only"].items():
                seen = getattr(self, other)
                seen = seen.partition("(")[0] if isinstance(seen, str) else seen  # a word may have parameters
                if seen not in values:
                    rule = f"keep its default ({field.default!r}) where {keys[other]} is {seen!r}"
                    needed = " or ".join(repr(one) for one in values)
                    way_out = f"It would be ignored: drop it, or set {keys[other]} to {needed}."
                    unread.append(explain(keys[name], rule, value, way_out))
                    break
        if unread:
            raise ValueError("\n".join(unread))
        self.check()
        return self

    def check(self) -> None:
        """Refuse impossible combinations with a `ConfigError`; overridden where there are any."""

    @classmethod
    def _sentence(cls, error: Any) -> str:
        """Return one of pydantic's errors in this package's form."""
        if error["type"] == "value_error":
            return str(error["ctx"]["error"])
        name = str(error["loc"][0])
        key = cls.keys().get(name, kebab(name))
        if error["type"] == "extra_forbidden":
            return explain(key, "be a known setting", error["input"], f"Known: {', '.join(cls.keys().values())}.")
        choices = [str(choice) for choice in _choices(cls.model_fields[name])]
        rule = f"be {'one of ' if choices else ''}{cls.rule(name)}"
        return explain(key, rule, error["input"], meant(error["input"], choices))


def _limit_text(limit: float) -> str:
    """Return a limit as users read it."""
    return f"{limit:g}" if limit < 2**31 else f"2^{int(limit).bit_length() - 1}"


@cache
def _docstrings(cls: type) -> dict[str, str]:
    """Return the docstring below each setting that this very class declares."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return {
        line.target.id: " ".join(str(below.value.value).split())
        for line, below in pairwise(body)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _choices(field: FieldInfo) -> tuple[Any, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


_EXTRA: dict[str, Any] = {"told": False, "only": {}, "path": False, "section": None, "first": False, "zero": ""}
"""Of a field that is declared without `setting`."""


def _extra(field: FieldInfo) -> dict[str, Any]:
    return dict(field.json_schema_extra) if isinstance(field.json_schema_extra, dict) else _EXTRA


class ExchangeConfig(Config):
    """What every exchange has in common."""

    seed: int = setting(1, ge=0, lt=2**63, told=True, first=True)
    """All randomness of a run but privacy noise derives from it."""
    nodes_stable_s: float = setting(0.0, ge=0, zero="auto")
    """Without num-parties: seconds that the number of nodes must stay unchanged. auto: 3 in simulation, 30 at silos."""
    node_deadline_s: float = setting(120.0, ge=0)
    """Seconds after which waiting for nodes to connect fails."""

    @property
    def privacy(self) -> Privacy:
        """Where noise is added, if anywhere. Beside noise at the party a party withholds more of what it could say."""
        return "none"

    @property
    def noisy(self) -> bool:
        """Whether noise is added anywhere."""
        return self.privacy != "none"

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings as parties are told them: defaults that depend on the run, and noise, are found.

        ``num_rounds`` are the rounds that a party may be asked in.
        """
        return self


def fit(model: Any, X: Any, y: Any, *, config: Any, rounds: int, num_public: int) -> object:
    """Fit a model on pooled rows as it always fits."""
    return model.fit(X, y)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One algorithm."""

    name: str  # in run configs and in a node's ``allow-algorithms``
    title: str  # its name in texts
    paper: str  # where it was published
    config: type[ExchangeConfig]  # its settings
    # the server's and the party's class, as ``package.module:Class``: only what runs is imported
    strategy: str
    client: str
    sends: Literal["labels", "scores", "sums", "trees", "weights"]  # what leaves a party
    default_rounds: int  # where the run names no number
    # what parties get at the end; "" becomes the same as what leaves; ``weights``: the server's net
    returns: Literal["", "labels", "scores", "trees", "weights"] = ""
    one_shot: bool = False  # whether it has one round and no more
    noise: tuple[Literal["server", "party"], ...] = ()  # where it can add noise
    allowed: bool = False  # whether a silo takes part unless its owner says otherwise
    roles: tuple[Literal["teacher", "student", "final"], ...] = ()  # models it takes beside a party's own
    model: str = ""  # a party's own where the run names none; "" becomes a net where all need the same, else a forest
    samples: bool = False  # whether a round may ask a share of the parties only
    extends: bool = False  # whether a run may go on with more rounds than planned, also where it has its result
    # ``train_pooled(model, X, y, config=..., rounds=..., num_public=...)`` trains a model on all private rows, for
    # comparison: for as long as the parties trained theirs in so many rounds, or, by default, as it always fits
    train_pooled: Callable[..., object] = fit

    def __post_init__(self) -> None:
        object.__setattr__(self, "returns", self.returns or self.sends)
        object.__setattr__(self, "model", self.model or ("mlp" if self.one_net else "random-forest"))

    @property
    def one_net(self) -> bool:
        """Whether parties get the server's net, so that all need the same one."""
        return self.returns == "weights"
