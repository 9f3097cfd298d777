"""Every algorithm under its name: how its client and its strategy are made from the settings. One entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedkd_flwr.apps.config import NodeConfig, RunConfig
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.models.zoo import make_model, parse_params, pick_model
from fedkd_flwr.strategies.base import ExchangeStrategy

__all__ = ["ALGORITHMS", "Algorithm", "model_factory"]


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One algorithm.

    Parameters
    ----------
    roles : tuple of str
        Models it takes beside a party's own: ``teacher``, ``student``, ``final``.
    client : callable
        ``client(config, node, party, index)`` makes a party's client; ``index`` counts in the cycle of mixed models.
    strategy : callable
        ``strategy(config, public, **flower)`` makes the server's strategy; ``flower`` are its keywords.
    """

    client: Callable[[RunConfig, NodeConfig, Party, int], PartyClient]
    strategy: Callable[..., ExchangeStrategy[Any]]
    roles: tuple[str, ...] = ()


def model_factory(spec: str, params: str, public: PublicSet) -> ModelFactory:
    """Return a maker of fresh models for the public set's features and classes."""
    return partial(
        make_model,
        spec,
        num_classes=public.num_classes,
        num_features=public.num_features,
        shape=public.shape,
        params=parse_params(params),
    )


def _shared(config: RunConfig) -> dict[str, Any]:
    return {
        "seed": config.seed,
        "ties": config.ties,
        "node_deadline_s": config.node_deadline_s,
        "delta": config.delta,
    }


def _voters(config: RunConfig) -> dict[str, Any]:
    chosen = config.uninformative_voters
    given = {} if chosen == "auto" else {"uninformative_voters": chosen}
    return {"informative_voters_only": config.informative_voters_only, **given}


def _final_model(config: RunConfig, public: PublicSet) -> ModelFactory:
    """Return what makes the server's model; a name or parameter nobody knows is said now, not after all trained."""
    choices = (
        (config.final_model, config.final_params),
        (config.student_model, config.student_params),
        (config.model, config.model_params),
    )
    for spec, params in choices:
        if spec:
            make = model_factory(pick_model(spec, 0), params, public)
            make(seed=0)
            return make
    raise DataError(explain("model", "be given", "", 'Use model="random-forest".'))


def _noise(config: RunConfig) -> dict[str, Any]:
    names = ("noise", "gamma", "sigma", "threshold", "sigma_threshold", "epsilon", "num_queries", "max_answers")
    return {name: getattr(config, name) for name in (*names, "release", "unqueried", "party_models")}


# ---------------------------------------------------------------- FedCT


def _fedct_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedct import FedCTClient

    return FedCTClient(party)


def _fedct(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig

    names = ("consensus", "quorum", "confidence", "steps_per_round", "stop_when_converged", "label_mechanism")
    private = ("label_epsilon", "epsilon", "calibration", "sensitivity", "sensitivity_labels")
    settings = {name: getattr(config, name) for name in (*names, *private)}
    return FedCT(config=FedCTConfig(**settings, **_shared(config), **_voters(config)), public=public, **_plain(flower))


# ---------------------------------------------------------------- FedKT


def _fedkt_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedkt import FedKTClient

    roles: dict[str, Any] = {}
    for role in ("teacher", "student"):
        # a silo's own choice of model stands for its teachers and students too
        spec = "" if node.model else getattr(config, f"{role}_model")
        if spec:
            roles[role] = model_factory(pick_model(spec, index), getattr(config, f"{role}_params"), party.public)
    return FedKTClient(party, **roles)


def _fedkt(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig

    settings = FedKTConfig(
        level=config.level,
        students_per_party=config.students_per_party,
        teachers_per_student=config.teachers_per_student,
        voting=config.voting,
        **_noise(config),
        **_shared(config),
        **_voters(config),
    )
    return FedKT(config=settings, public=public, final_model=_final_model(config, public), **flower)


# ---------------------------------------------------------------- PATE


def _pate_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.pate import PATEClient

    return PATEClient(party)


def _pate(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.pate import PATE, PATEConfig

    settings = PATEConfig(**_noise(config), **_shared(config), **_voters(config))
    return PATE(config=settings, public=public, final_model=_final_model(config, public), **flower)


def _plain(flower: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a strategy that leaves no model at the server."""
    return {name: value for name, value in flower.items() if name not in ("test", "ledger", "budget")}


ALGORITHMS: dict[str, Algorithm] = {
    "fedct": Algorithm(client=_fedct_client, strategy=_fedct),
    "fedkt": Algorithm(client=_fedkt_client, strategy=_fedkt, roles=("teacher", "student", "final")),
    "pate": Algorithm(client=_pate_client, strategy=_pate, roles=("final",)),
}
