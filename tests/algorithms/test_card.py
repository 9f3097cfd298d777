"""How settings are declared, checked, named and told, for every card; and how a card is found."""

import operator
import re
import sys
from dataclasses import replace
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace
from typing import ClassVar, Literal, get_args

import numpy as np
import pytest
from pydantic import ValidationError

from fedkd_flwr.algorithms import allowed_by_default, cards, find_card
from fedkd_flwr.algorithms.card import PAPER, Card, Config, ExchangeConfig, fit, kebab, setting
from fedkd_flwr.algorithms.one_shot_vote import fit_as_long
from fedkd_flwr.errors import Code, ConfigError, PayloadError
from fedkd_flwr.strategies.loop import strategy_of

CARDS = list(cards().values())
IDS = [card.name for card in CARDS]
SIZES = {"num_public": 60, "num_classes": 3, "num_rounds": 2}


# ------------------------------------------------------------------------------------------------ a family of settings


class Shared(Config):
    """What all have."""

    seed: int = setting(1, ge=0, lt=2**63, told=True)
    """Where randomness starts."""


class Red(Shared):
    """One algorithm."""

    section: ClassVar[str] = "red"

    way: Literal["short", "long"] = setting("short", told=True)
    """Which way."""
    step_size: float = setting(0.5, gt=0, le=1, told=True, only={"way": ("long",)})
    """How far a step goes."""


class Blue(Shared):
    """Another algorithm."""

    section: ClassVar[str] = "blue"

    loud: bool = setting(False)
    """Whether it can be heard."""
    word: str = setting("", told=True)
    """What it says."""


class Both(Red, Blue):
    """The two in one."""

    extra: int | None = setting(None)
    """What neither has."""

    def check(self) -> None:
        """Refuse a combination."""
        super().check()
        if self.loud and self.seed == 13:
            raise ConfigError("seed must not be 13 aloud, got 13.")


class Again(Red):
    """An algorithm that says anew what a setting is."""

    section: ClassVar[str] = "again"

    way: Literal["short", "long", "round"] = setting("round", told=True)
    """Which way."""


def test_a_setting_stands_in_the_section_of_the_class_that_declares_it():
    assert Red.keys() == {"seed": "seed", "way": "red.way", "step_size": "red.step-size"}
    assert Both.keys() == {
        "seed": "seed",
        "loud": "blue.loud",
        "word": "blue.word",
        "way": "red.way",
        "step_size": "red.step-size",
        "extra": "extra",
    }
    assert Again.keys()["way"] == "again.way"
    assert Again.keys()["step_size"] == "red.step-size"


def test_a_rule_says_in_words_which_values_are_taken():
    assert {name: Both.rule(name) for name in Both.model_fields} == {
        "seed": "a whole number >= 0 and < 2^63",
        "way": "short, long",
        "step_size": "a number > 0 and <= 1",
        "loud": "true or false",
        "word": "text",
        "extra": "a whole number",
    }


def test_a_meaning_is_the_docstring_below_its_own_setting_on_one_line():
    class Two(Red):
        first: int = setting(1)
        """What the first
        means."""
        second: int = setting(2)

    assert [Two.meaning(name) for name in ("first", "second", "way")] == ["What the first means.", "", "Which way."]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": -1}, "seed must be a whole number >= 0 and < 2^63, got -1."),
        ({"seed": True}, "seed must be a whole number >= 0 and < 2^63, got True."),
        ({"seed": 1.0}, "seed must be a whole number >= 0 and < 2^63, got 1.0."),
        ({"way": "round"}, "red.way must be one of short, long, got 'round'."),
        ({"way": "long", "step_size": float("nan")}, "red.step-size must be a number > 0 and <= 1, got nan."),
        ({"way": "long", "step_size": 0.0}, "red.step-size must be a number > 0 and <= 1, got 0.0."),
        ({"loud": 1}, "blue.loud must be true or false, got 1."),
        ({"word": 3}, "blue.word must be text, got 3."),
        ({"extra": 0.5}, "extra must be a whole number, got 0.5."),
        (
            {"step_sise": 1},
            "step-sise must be a known setting, got 1. "
            "Known: seed, blue.loud, blue.word, red.way, red.step-size, extra.",
        ),
        (
            {"step_size": 0.25},
            "red.step-size must keep its default (0.5) where red.way is 'short', got 0.25. "
            "It would be ignored: drop it, or set red.way to 'long'.",
        ),
        ({"seed": 13, "loud": True}, "seed must not be 13 aloud, got 13."),
        (
            {"seed": -1, "word": 3},
            "seed must be a whole number >= 0 and < 2^63, got -1.\nblue.word must be text, got 3.",
        ),
    ],
)
def test_a_refusal_names_the_key_the_rule_and_the_value(values, message):
    values = {name: values[name] for name in ("seed", *values) if name in values}
    with pytest.raises(ConfigError) as caught:
        Both(**values)
    assert sorted(str(caught.value).split("\n")) == sorted(message.split("\n"))
    assert caught.value.code == Code.WRONG_CONFIG


def test_all_settings_that_nobody_reads_are_named_at_once_each_by_one_reason():
    class Many(Red):
        hue: int = setting(0, only={"way": ("long",), "seed": (2,)})

    with pytest.raises(ConfigError) as caught:
        Many(step_size=0.25, hue=3)
    first, second = str(caught.value).split("\n")
    assert first.startswith("red.step-size must keep its default (0.5) where red.way is 'short', got 0.25.")
    assert second.startswith("hue must keep its default (0) where red.way is 'short', got 3.")
    assert Many(hue=3, way="long", seed=2).hue == 3
    with pytest.raises(ConfigError, match=r"hue must keep its default \(0\) where seed is 1, got 3"):
        Many(hue=3, way="long")


def test_settings_do_not_change_and_a_change_makes_new_ones_checked_anew():
    assert type(Both(way="long", step_size=1).step_size) is float
    made = Both(way="long", step_size=0.25, seed=3)
    with pytest.raises(ValidationError):
        made.seed = 4
    other = made.changed(step_size=1.0)
    assert (other.step_size, other.seed, made.step_size) == (1.0, 3, 0.25)
    assert type(other) is Both
    with pytest.raises(ConfigError, match=r"red\.step-size must keep its default"):
        made.changed(way="short")
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        made.changed(seed=-1)
    assert made.changed() == made


# ------------------------------------------------------------------------------------------------ what travels


def test_parties_are_told_what_is_declared_so_by_kebab_names_without_sections():
    assert Both(way="long", step_size=0.25, loud=True).told() == {
        "seed": 1,
        "word": "",
        "way": "long",
        "step-size": 0.25,
    }


def test_what_was_told_comes_back_and_the_rest_cannot_be_read():
    made = Both(way="long", step_size=0.25, loud=True, word="x", seed=9)
    found = Both.from_told({**made.told(), "server-round": 3, "loud": True})
    assert (found.way, found.step_size, found.word, found.seed) == ("long", 0.25, "x", 9)
    assert isinstance(found, Both)
    for name in ("loud", "nodes_stable_s", "nothing"):
        with pytest.raises(AttributeError, match=f"Both as a party is told it has no {name}"):
            getattr(found, name)


def test_a_word_that_is_missing_or_breaks_a_rule_is_a_payload_error():
    told = Both().told()
    with pytest.raises(PayloadError, match=re.escape("instruction must name step-size, got none of that name.")):
        Both.from_told({name: value for name, value in told.items() if name != "step-size"})
    with pytest.raises(PayloadError, match=re.escape("instruction must name seed, word, way, step-size, got")):
        Both.from_told({})
    with pytest.raises(PayloadError, match=r"red\.way must be one of short, long, got 'round'") as caught:
        Both.from_told({**told, "way": "round"})
    assert caught.value.code == Code.BAD_INSTRUCTION
    with pytest.raises(PayloadError, match=r"red\.step-size must keep its default"):
        Both.from_told({**told, "step-size": 0.25})


# ------------------------------------------------------------------------------------------------ every card

HELPERS = (
    {},
    {"noise": "laplace", "noise_strength": 0.5},
    {"noise": "gaussian", "noise_strength": 2.0},
    {"noise": "confident-gaussian", "threshold": 3.0, "noise_strength": 2.0},
    {"noise": "gaussian", "noise_strength": 2.0, "level": "L2"},
    {"noise": "confident-gaussian", "threshold": 3.0, "noise_strength": 2.0, "level": "L2"},
    {"noise": "laplace", "noise_strength": 0.5, "level": "L2"},
    {"noise": "gaussian", "epsilon": 3.0},
    {"noise": "gaussian", "epsilon": 3.0, "level": "L2"},
    {"label_mechanism": "xor", "noise_strength": 2.0},
    {"label_mechanism": "randomized-response", "epsilon": 3.0},
    {"answer_form": "argmax", "label_mechanism": "randomized-response", "noise_strength": 2.0},
    {"answer_form": "argmax", "label_mechanism": "randomized-response", "epsilon": 3.0},
    {"answer_form": "logits"},
    {"answer_form": "logits", "score_noise": "gaussian", "noise_strength": 0.5},
    {"answer_form": "softmax", "score_noise": "laplace", "noise_strength": 0.5},
    {"answer_form": "softmax", "score_noise": "gaussian", "epsilon": 3.0},
    {"answer_form": "softmax", "score_bits": 8},
    {"subset_rows": 5},
    {"consensus": "qualified-majority"},
    {"consensus": "dawid-skene"},
    {"known_rows": 200},
)
"""Settings that make others be read."""


def _others(config, name):
    """Return values of a setting that are not its default."""
    field, default = config.model_fields[name], config.default(name)
    if choices := get_args(field.annotation):
        return [choice for choice in choices if choice not in (default, type(None))]
    if isinstance(default, bool):
        return [not default]
    numbers = [default + 1, default / 2] if isinstance(default, float) else [default + 1]
    within = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
    ends = [(within[e], getattr(limit, e)) for limit in field.metadata for e in within if hasattr(limit, e)]
    return [n for n in numbers if n != default and all(holds(n, end) for holds, end in ends)]


def _made(config, **values):
    """Return settings with these values beside each helper that lets them be."""
    found = []
    for helper in HELPERS:
        if set(helper) <= set(config.model_fields):
            try:
                found.append(config(**{**helper, **values}))
            except ConfigError:
                continue
    return found


CONFIGS = list(dict.fromkeys(card.config for card in CARDS))


PROBABILITIES_ALONE = {"answer_form": ("logits",)}
LABELS_ALONE = {"label_mechanism": ("auto", "xor")}
NO_NOISE = ("level", "noise", "noise_strength", "threshold", "num_queries", "learn_from")
NEVER = {
    "FedKTProxConfig": (*NO_NOISE, "epsilon", "delta", "party_models"),
    "FedMDConfig": LABELS_ALONE,
    "DDConfig": LABELS_ALONE,
    "StackedConfig": {**LABELS_ALONE, **PROBABILITIES_ALONE, "public_rows_per_round": (1, 2)},
    "DSFLConfig": {**LABELS_ALONE, **PROBABILITIES_ALONE},
    "ScarletConfig": {**LABELS_ALONE, **PROBABILITIES_ALONE},
}


def _never(config, name):
    """Return the values that an algorithm never takes, whatever the others are: `check` has them refused."""
    never = NEVER.get(config.__name__, {})
    if isinstance(never, tuple):
        return _others(config, name) if name in never else ()
    return never.get(name, ())


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_can_be_set_and_every_choice_taken(config):
    for name in config.model_fields:
        possible = [value for value in _others(config, name) if _made(config, **{name: value})]
        assert possible == [value for value in _others(config, name) if value not in _never(config, name)], name


@pytest.mark.parametrize("config", CONFIGS)
def test_what_parties_are_told_is_what_they_parse(config):
    for name in config.model_fields:
        made = [one for value in _others(config, name) for one in _made(config, **{name: value})] or [config()]
        if name not in ("epsilon", "delta", "num_queries"):  # of the others noise that must be found takes seconds
            made = [one for one in made if not getattr(one, "epsilon", 0.0)]
        assert made, name
        for one in made:
            resolved = one.resolved(**SIZES)
            told = resolved.told()
            again = config.from_told({**told, "algorithm": "x", "server-round": 1})
            assert again.told() == told, name
            assert not any(hasattr(again, field) for field in config.model_fields if kebab(field) not in told)
            # a setting may tell parties nothing of the server's noise; DP-FedAvg has it whatever they are told
            always = config().privacy == "server"
            assert again.privacy == (one.privacy if one.privacy == "party" or always else "none")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_explained_and_its_conditions_speak_of_settings_there_are(config):
    for name in config.model_fields:
        field = config.model_fields[name]
        assert config.meaning(name)
        assert config.meaning(name).endswith("."), name
        for other, values in field.json_schema_extra["only"].items():
            choices = get_args(config.model_fields[other].annotation) or (True, False)
            assert set(values) <= set(choices)
            assert values != choices, name  # else it would always be read


@pytest.mark.parametrize("card", CARDS, ids=IDS)
def test_an_own_setting_stands_in_the_algorithm_s_own_section(card):
    own = [kebab(card.config.__dict__["section"])] if "section" in card.config.__dict__ else []
    assert own in ([], [card.name])
    assert all(key.partition(".")[0] in {*IDS, PAPER} for key in card.config.keys().values() if "." in key)


class Learner:
    """Writes down how it was trained: a net, a learner that makes passes, or one that fits."""

    def __init__(self, kind):
        self.takes_steps = self.supports_soft_steps = kind in ("net", "own net")
        self.continues, self.calls = kind != "tree", []
        self.template = SimpleNamespace(**({"steps_of_fit": lambda rows: 3 * rows} if kind == "net" else {}))

    def fit(self, X, y):
        return self._called("fit")

    def update(self, X, y, *, steps=None):
        return self._called("update", steps)

    def train_epochs(self, X, y, *, epochs):
        return self._called("epochs", epochs)

    def _called(self, *call):
        self.calls.append(call)
        return self


@pytest.mark.parametrize(
    ("name", "kind", "settings", "calls"),
    [
        ("fedct", "net", {"steps_per_round": 7}, [("update", 35)]),  # four rounds and the end, seven steps each
        ("fedct", "passes", {}, [("update", None)] * 5),  # a learner with partial_fit makes a pass in each of them
        ("fedct", "tree", {}, [("fit",)]),
        ("dd", "net", {"steps_per_round": 7}, [("update", 35)]),
        ("dd", "tree", {}, [("fit",)]),
        ("fedmd", "net", {"initial_epochs": 7, "own_rows_epochs": 2}, [("epochs", 15)]),
        ("fedmd", "net", {"initial_epochs": 7, "own_rows_epochs": 2, "final_own_rows": False}, [("epochs", 13)]),
        ("fedmd", "tree", {}, [("fit",)]),
        ("fedavg", "net", {"local_epochs": 3}, [("epochs", 12)]),
        ("fedkt-prox", "net", {"local_epochs": 3}, [("epochs", 9)]),  # all rounds but the first
        ("fedkt", "net", {}, [("update", 27)]),  # steps over nine public rows, which are more than the eight
        ("pate", "own net", {}, [("fit",)]),
    ],
)
def test_on_pooled_rows_a_model_trains_for_as_long_as_parties_did(name, kind, settings, calls):
    card, model, X = cards()[name], Learner(kind), np.zeros((8, 2))
    card.train_pooled(model, X, np.zeros(8), config=card.config(**settings), rounds=4, num_public=9)
    assert model.calls == calls
    if name == "fedkt":
        assert fit_as_long(Learner(kind), X, np.zeros(8), num_rows=8).calls == [("fit",)]


# ------------------------------------------------------------------------------------------------ finding a card


@pytest.mark.parametrize("card", CARDS, ids=IDS)
def test_a_card_names_both_sides_and_they_name_it(card):
    assert strategy_of(card).exchange_type.card is card
    assert resolve_name(card.client).card is card
    assert issubclass(card.config, ExchangeConfig)
    assert card.default_rounds >= 1
    assert card.default_rounds == 1 or not card.one_shot
    assert ("party" in card.noise) or card.config().privacy != "party"


def test_a_silo_takes_part_by_default_where_labels_alone_leave_it():
    assert Card.train_pooled is fit
    assert {card.name for card in CARDS if card.sends == "labels"} == allowed_by_default()
    assert allowed_by_default() == {"fedct", "fedkt", "pate", "privatekt"}


def test_cards_are_found_by_name_in_order():
    assert sorted(IDS) == IDS
    assert all(find_card(card.name) is card for card in CARDS)


@pytest.fixture
def own(monkeypatch):
    module = ModuleType("their_package")
    module.CARD = replace(cards()["fedct"], name="theirs")
    module.TAKEN = replace(cards()["fedct"])
    module.nothing = 3
    monkeypatch.setitem(sys.modules, "their_package", module)
    find_card.cache_clear()
    yield
    find_card.cache_clear()


@pytest.mark.usefixtures("own")
def test_anybody_s_card_is_found_by_where_it_is():
    assert find_card("their_package:CARD") is sys.modules["their_package"].CARD


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedsgd", f"algorithm must be one of {', '.join(IDS)}, or a card of your own as package.module:CARD, got"),
        ("their_package:OTHER", "algorithm must name a card that can be imported, got their_package:OTHER .*no attrib"),
        ("no_such_package:CARD", "must name a card that can be imported, got no_such.*Install its package where"),
        (":CARD", "must name a card that can be imported"),
        ("..their_package:CARD", "must name a card that can be imported"),
        ("their_package:TAKEN", "name of the card must be none of this package's algorithms, got 'fedct'. Give your"),
        ("their_package:nothing", "algorithm must name a fedkd_flwr Card, got their_package:nothing, a int"),
    ],
)
def test_what_is_no_card_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        find_card(name)
