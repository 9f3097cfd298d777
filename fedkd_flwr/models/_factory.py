"""A user's own model by import string: the function or class that it names, called with what it asks for by name."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from fedkd_flwr.errors import ConfigError, cause, explain

__all__ = ["arguments", "call_factory", "check_names", "import_factory", "input_shape", "named_by"]

Factory = Callable[..., Any]


def input_shape(num_features: int, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape of one row: (channels, height, width) of an image, else (num_features,)."""
    return (num_features,) if shape is None else tuple(shape)


def check_names(model: str, params: Mapping[str, Any], accepted: list[str]) -> None:
    """Raise ConfigError naming the first parameter that is not an accepted one."""
    unknown = [key for key in params if key not in accepted]
    if unknown:
        rule = f"be among {', '.join(accepted) or '(none)'}"
        raise ConfigError(explain(f"A parameter of {model}", rule, unknown[0]))


def import_factory(spec: str) -> Factory:
    """Return the function or class that ``"package.module:factory"`` names; raise ConfigError where there is none."""
    module_name, _, attribute = spec.partition(":")
    way_out = "Is the module installed, or beside your pyproject.toml?"
    if not (all(part.isidentifier() for part in module_name.split(".")) and attribute.isidentifier()):
        raise ConfigError(explain("model", 'be "package.module:factory"', spec))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        why = cause(error).partition(": ")[2]
        raise ConfigError(explain("model", "be importable", f"{spec} ({why})", way_out)) from error
    except Exception as error:  # a user's module may raise anything, a SyntaxError for one
        raise ConfigError(explain("model", "be importable", f"{spec} ({cause(error)})")) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        defined = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        own = [name for name in defined if getattr(getattr(module, name), "__module__", "") == module_name]
        rule = f"name a function or class of {module_name}"
        raise ConfigError(explain("model", rule, spec, f"It defines {', '.join(own)}." if own else ""))
    return factory  # type: ignore[no-any-return]  # getattr gives Any, callable() just checked


def named_by(factory: Factory) -> list[str]:
    """Return the parameters that a factory's signature names."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in inspect.signature(factory).parameters.values() if p.kind in kinds]


def arguments(
    spec: str, factory: Factory, context: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a factory is called with, and those of ``params`` that its signature does not name.

    It gets those of ``context`` that it names; ``random_state`` is the seed where it names no ``seed``; ``**keywords``
    name every parameter. `ConfigError` if it needs one that nobody gives, or has no readable signature.
    """
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError) as error:
        raise ConfigError(explain(spec, "have a readable signature", str(error))) from error
    given = {p.name: p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    offered = {key: value for key, value in context.items() if key in given}
    if "seed" not in given and "random_state" in given:
        offered["random_state"] = context["seed"]
    own = {key: value for key, value in params.items() if takes_any or key in given}
    called = {**offered, **own}
    missing = [name for name, p in given.items() if p.default is p.empty and name not in called]
    if missing:
        known = ", ".join(f"{key} ({value})" for key, value in context.items() if key != "seed")
        way_out = f"Name it as one of these: {known}, seed. Or give its value: name(parameter=value)."
        raise ConfigError(explain(spec, "need no parameter that nobody gives", f"a parameter {missing[0]!r}", way_out))
    return called, {key: value for key, value in params.items() if key not in own}


def call_factory(spec: str, factory: Factory, called: Mapping[str, Any]) -> Any:
    """Return what a factory makes; `ConfigError` with its error's place. Torch's generator is put back."""
    torch = sys.modules.get("torch")
    with torch.random.fork_rng(devices=[]) if torch is not None else nullcontext():
        try:
            return factory(**called)
        except Exception as error:  # a user's code may raise anything; the message names it
            raise ConfigError(explain(spec, "return an estimator", cause(error))) from error
