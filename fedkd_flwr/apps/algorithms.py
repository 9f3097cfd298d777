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
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import make_model, parse_params, pick_model
from fedkd_flwr.strategies.base import ExchangeStrategy

__all__ = ["ALGORITHMS", "Algorithm", "check_role", "final_model", "model_factory"]


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


def check_role(role: str, model: Classifier, own: Classifier) -> None:
    """Refuse a teacher or student that reads texts beside a model that reads numbers, or the other way round."""
    if model.takes_text is not own.takes_text:
        kinds = {True: "raw texts", False: "numbers"}
        rule = f"read {kinds[own.takes_text]}, as the party's own model does"
        way_out = "Give model, teacher-model and student-model models of one kind."
        raise ConfigError(explain(f"{role}-model", rule, f"one that reads {kinds[model.takes_text]}", way_out))


def final_model(config: RunConfig, public: PublicSet) -> ModelFactory:
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


def _roles(config: RunConfig, node: NodeConfig, party: Party, index: int) -> dict[str, Any]:
    roles: dict[str, Any] = {}
    for role in ("teacher", "student"):
        # a silo's own choice of model stands for its teachers and students too
        spec = "" if node.model else getattr(config, f"{role}_model")
        if spec:
            roles[role] = model_factory(pick_model(spec, index), getattr(config, f"{role}_params"), party.public)
            check_role(role, roles[role](seed=0), party.model(seed=0))
    return roles


def _fedkt_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedkt import FedKTClient

    return FedKTClient(party, **_roles(config, node, party, index))


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
    return FedKT(config=settings, public=public, final_model=final_model(config, public), **flower)


# ---------------------------------------------------------------- PATE


def _pate_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.pate import PATEClient

    return PATEClient(party)


def _pate(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.pate import PATE, PATEConfig

    settings = PATEConfig(**_noise(config), **_shared(config), **_voters(config))
    return PATE(config=settings, public=public, final_model=final_model(config, public), **flower)


# ---------------------------------------------------------------- PrivateKT


def _privatekt_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.privatekt import PrivateKTClient

    return PrivateKTClient(party)


def _privatekt(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.apps.assembly import output_root
    from fedkd_flwr.strategies.privatekt import PrivateKT, PrivateKTConfig

    if config.model.startswith("mixed"):
        way_out = "Set model to one torch net, such as mlp or cnn-privatekt."
        raise ConfigError(explain("model", "be the same at all parties for privatekt", config.model, way_out))
    names = ("round_epsilon", "transfer_rows", "buffer_rounds", "buffer_steps", "self_training_share")
    others = ("local_epochs", "solo_epochs", "targets", "participation")
    settings = {name: getattr(config, name) for name in (*names, *others)}
    runs = output_root(config.output_dir) / "runs"
    return PrivateKT(
        config.fraction_parties,
        config=PrivateKTConfig(**settings, **_shared(config)),
        public=public,
        global_model=model_factory(config.model, config.model_params, public),
        test=flower["test"],
        checkpoint=runs / flower["record"].run_id / "checkpoint",
        resume_from=output_root(config.resume_from, "resume-from") if config.resume_from else None,
        **_plain(flower),
    )


# ---------------------------------------------------------------- FedMD and distributed distillation


def _soft(config: RunConfig) -> dict[str, Any]:
    """Return the settings that both take."""
    names = ("share", "public_batch", "digest_loss", "aggregation_weights", "soft_bits", "pretrain_epochs")
    private = ("subset_rows", "subset_replacement", "score_noise", "score_scale", "logit_bound", "label_mechanism")
    costs = ("label_epsilon", "epsilon")
    return {name: getattr(config, name) for name in (*names, *private, *costs)} | _shared(config)


def _sizes(config: RunConfig, flower: Mapping[str, Any]) -> list[int]:
    """Return how many rows each party holds, where whoever runs the server knows it."""
    from fedkd_flwr.apps.assembly import party_sizes

    known = flower["record"].simulation and config.subset_rows
    return party_sizes(config, flower["min_available_nodes"]) if known else []


def _fedmd_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedmd import FedMDClient

    return FedMDClient(party)


def _fedmd(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedmd import FedMD, FedMDConfig

    names = ("initial_epochs", "digest_epochs", "digest_batch", "revisit_epochs", "final_revisit", "digest_order")
    settings = FedMDConfig(**{name: getattr(config, name) for name in names}, **_soft(config))
    return FedMD(config=settings, public=public, party_rows=_sizes(config, flower), **_plain(flower))


def _dd_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.dd import DDClient

    return DDClient(party)


def _dd(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.dd import DD, DDConfig

    names = ("steps_per_round", "distillation_weight")
    settings = DDConfig(**{name: getattr(config, name) for name in names}, **_soft(config))
    return DD(config=settings, public=public, party_rows=_sizes(config, flower), **_plain(flower))


# ---------------------------------------------------------------- FedProx, and FedKT before it


def _one_net(config: RunConfig, public: PublicSet) -> ModelFactory:
    if config.model.startswith("mixed"):
        way_out = "Set model to one torch net, such as mlp or cnn-fedkt."
        raise ConfigError(explain("model", f"be the same at all parties for {config.algorithm}", config.model, way_out))
    if config.final_model:
        way_out = "Drop it: the net that parties train is the result."
        raise ConfigError(explain("final-model", f"be left out for {config.algorithm}", config.final_model, way_out))
    return model_factory(config.model, config.model_params, public)


def _prox(config: RunConfig) -> Any:
    from fedkd_flwr.strategies.fedprox import FedProxConfig

    names = ("proximal_mu", "local_epochs", "solo_epochs")
    return FedProxConfig(**{name: getattr(config, name) for name in names}, **_shared(config))


def _fedprox_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedprox import FedProxClient

    return FedProxClient(party)


def _fedprox(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedprox import FedProx

    given = {"public": public, "global_model": _one_net(config, public), "test": flower["test"], **_plain(flower)}
    return FedProx(config.fraction_parties, config=_prox(config), **given)


def _fedkt_prox_client(config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
    from fedkd_flwr.clients.fedprox import FedKTProxClient

    return FedKTProxClient(party, **_roles(config, node, party, index))


def _fedkt_prox(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedkt import FedKTConfig
    from fedkd_flwr.strategies.fedprox import FedKTProx

    names = ("students_per_party", "teachers_per_student", "voting")
    first = FedKTConfig(**{n: getattr(config, n) for n in names}, **_shared(config), **_voters(config))
    given = {"public": public, "global_model": _one_net(config, public), "test": flower["test"], **_plain(flower)}
    return FedKTProx(config.fraction_parties, fedkt=first, config=_prox(config), **given)


def _plain(flower: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that every strategy takes."""
    return {name: value for name, value in flower.items() if name not in ("test", "ledger", "budget")}


ALGORITHMS: dict[str, Algorithm] = {
    "dd": Algorithm(client=_dd_client, strategy=_dd),
    "fedct": Algorithm(client=_fedct_client, strategy=_fedct),
    "fedkt": Algorithm(client=_fedkt_client, strategy=_fedkt, roles=("teacher", "student", "final")),
    "fedkt-prox": Algorithm(client=_fedkt_prox_client, strategy=_fedkt_prox, roles=("teacher", "student")),
    "fedprox": Algorithm(client=_fedprox_client, strategy=_fedprox),
    "privatekt": Algorithm(client=_privatekt_client, strategy=_privatekt),
    "fedmd": Algorithm(client=_fedmd_client, strategy=_fedmd),
    "pate": Algorithm(client=_pate_client, strategy=_pate, roles=("final",)),
}
