"""Each algorithm as data (its card) and as arithmetic on arrays: no Flower, no disk, no clock.

A module of this package that holds a ``CARD`` is an algorithm: nothing else has to be told of it. What stands beside
the core is found through `fedkd_flwr.registry`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.checks import meant
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.registry import CARDS

__all__ = ["Card", "allowed_by_default", "cards", "find_card"]


@cache
def cards() -> dict[str, Card]:
    """Return the card of every algorithm of this package, by name.

    >>> cards()["fedct"].sends
    'labels'
    """
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    modules += [import_module(name) for name in CARDS]
    found = (card for module in modules for card in vars(module).values() if isinstance(card, Card))
    return {card.name: card for card in sorted(found, key=lambda card: card.name)}


def allowed_by_default() -> frozenset[str]:
    """Return the algorithms that a party takes part in unless its owner says otherwise: those that send labels."""
    return frozenset(name for name, card in cards().items() if card.allowed)


@cache
def find_card(name: str) -> Card:
    """Return the card of an algorithm: one of this package by its name, or anybody's as ``package.module:CARD``.

    Raises `ConfigError` if there is none of that name, it cannot be imported, or it is no `Card`.
    """
    if name in cards():
        return cards()[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        rule = f"be one of {', '.join(cards())}, or a card of your own as package.module:CARD"
        raise ConfigError(explain("algorithm", rule, name, meant(name, cards())))
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two: no name of a module at all
        rule, way_out = "name a card that can be imported", "Install its package where the server and the parties run."
        raise ConfigError(explain("algorithm", rule, f"{name} ({error})", way_out)) from error
    if isinstance(found, Card) and found.name in cards():
        way_out = "Give your card a name of its own."
        raise ConfigError(explain("name of the card", "be none of this package's algorithms", found.name, way_out))
    if not isinstance(found, Card):
        raise ConfigError(explain("algorithm", "name a fedkd_flwr Card", f"{name}, a {type(found).__name__}"))
    return found
