"""Models from what run configs say of them: a party's own, teachers and students, the server's."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from fedkd_flwr.algorithms import Card
from fedkd_flwr.checks import split_words
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import make_model, pick_model
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["check_lacks", "check_role", "common_kind", "final_model", "global_model", "model_factory", "own_model"]
__all__ += ["party_roles"]

logger = logging.getLogger("flwr.party")


def model_factory(spec: str, public: PublicSet, *, of_run: bool = False) -> ModelFactory:
    """Return a maker of fresh models for the public set's features and classes; ``of_run`` as in `make_model`."""
    return partial(
        make_model,
        spec,
        num_classes=public.num_classes,
        num_features=public.num_features,
        shape=public.shape,
        of_run=of_run,
        values=target.values if (target := public.schema.target) is not None and target.is_number else (),
    )


def check_role(role: str, model: Classifier, own: Classifier) -> None:
    """Refuse a teacher or student that reads texts beside a model that reads numbers, or the other way round."""
    if model.takes_text is not own.takes_text:
        kinds = {True: "raw texts", False: "numbers"}
        rule = f"read {kinds[own.takes_text]}, as the party's own model does"
        seen = f"one that reads {kinds[model.takes_text]}"
        raise ConfigError(explain(f"{role}-model", rule, seen, "Give all three models of one kind."))


def check_lacks(card: Card, lacks: Collection[str]) -> None:
    """Refuse that a party lacks columns where its net, trees or counts must have those of all the others."""
    if lacks and (card.one_net or card.sends in ("weights", "trees", "sums")):
        way_out = "Take an algorithm in which parties label rows or score them, such as fedct or fedkt."
        rule = f"be empty for {card.name}: its {'net' if card.one_net else card.sends} must have all columns"
        raise ConfigError(explain("lacks", rule, ", ".join(sorted(lacks)), way_out))


def common_kind(spec: str, public: PublicSet) -> str:
    """Return the kind of a model for all: of mixed ones the first that is no net, which few rows teach too little."""
    first, *others = dict.fromkeys(pick_model(spec, i) for i in range(len(split_words(spec))))
    return min(first, *others, key=lambda one: model_factory(one, public)(seed=0).takes_steps) if others else first


def final_model(config: RunConfig, public: PublicSet) -> ModelFactory:
    """Return what makes the server's model; a name or parameter nobody knows is said now, not after all trained."""
    make = model_factory(common_kind(config.final_model or config.student_model or config.model, public), public)
    make(seed=0)
    return make


def global_model(config: RunConfig, public: PublicSet) -> ModelFactory:
    """Return what makes the net whose weights go round."""
    if config.model.startswith("mixed"):
        way_out = "Set model to one torch net, such as mlp or cnn-fedkt."
        raise ConfigError(explain("model", f"be the same at all parties for {config.algorithm}", config.model, way_out))
    return model_factory(config.model, public)


def own_model(config: RunConfig, node: NodeConfig) -> str:
    """Return the model of a node, with its parameters: the node's own, or that of the run.

    A silo that demands privacy takes none from a run: it has its own, else the usual one.
    """
    if node.takes_models or node.model:
        return config.model if node.takes_models else node.model
    usual = config.card.model
    if config.model != usual:
        said = "%s: a node that demands privacy takes no model from a run, got %s. It has %s; its config may name "
        said += "another. PrivateKT needs the run's net at all parties."
        logger.warning(said, node.party, config.model, usual)
    return usual


def party_roles(config: RunConfig, node: NodeConfig, party: Party, index: int) -> dict[str, ModelFactory]:
    """Return what makes a party's teachers and students; ``index`` is its number in the cycle of mixed models."""
    made: dict[str, ModelFactory] = {}
    for role in {"teacher", "student"}.intersection(config.card.roles):
        # a silo's own choice of model stands for its teachers and students too
        if (spec := config.model_of(role)) and node.takes_models:
            made[role] = model_factory(pick_model(spec, index), party.public)
            check_role(role, made[role](seed=0), party.model(seed=0))
    return made
