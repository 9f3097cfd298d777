"""Every algorithm under its name: how its client and its strategy are made from the settings. One entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.apps.config import NodeConfig, RunConfig
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import make_model, parse_params, pick_model
from fedkd_flwr.strategies.base import ExchangeStrategy

__all__ = ["ALGORITHMS", "Algorithm", "check_role", "final_model", "model_factory"]


def _fit(model: Classifier, X: NDArray[Any], y: NDArray[Any], config: RunConfig, rounds: int) -> object:
    return model.fit(X, y)


def _steps(model: Classifier, X: NDArray[Any], y: NDArray[Any], config: RunConfig, rounds: int) -> object:
    # gradient learners get the steps the parties had; the others fit as they always do
    return model.update(X, y, steps=config.steps_per_round * (rounds + 1)) if model.continues else model.fit(X, y)


def _revisits(model: Classifier, X: NDArray[Any], y: NDArray[Any], config: RunConfig, rounds: int) -> object:
    epochs = config.initial_epochs + config.revisit_epochs * rounds
    return model.train_epochs(X, y, epochs=epochs) if model.supports_soft_steps else model.fit(X, y)


def _passes(model: Classifier, X: NDArray[Any], y: NDArray[Any], config: RunConfig, rounds: int) -> object:
    return model.train_epochs(X, y, epochs=config.local_epochs * config.rounds)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One algorithm.

    Parameters
    ----------
    roles : tuple of str
        Models it takes beside a party's own: ``teacher``, ``student``, ``final``.
    client : str
        The party's class, ``module:class`` within `fedkd_flwr.clients`: only what runs is imported.
    strategy : callable
        ``strategy(config, public, **flower)`` makes the server's strategy; ``flower`` are its keywords.
    train_pooled : callable
        ``train_pooled(model, X, y, config, rounds)`` trains a model on all private rows for as long as the parties
        trained theirs in so many rounds, for comparison.
    """

    client: str
    strategy: Callable[..., ExchangeStrategy[Any]]
    roles: tuple[str, ...] = ()
    train_pooled: Callable[[Classifier, NDArray[Any], NDArray[Any], RunConfig, int], object] = _fit

    def make_client(self, config: RunConfig, node: NodeConfig, party: Party, index: int) -> PartyClient:
        """Return a party's client; ``index`` counts in the cycle of mixed models."""
        module, _, name = self.client.partition(":")
        made: PartyClient = getattr(import_module(f"fedkd_flwr.clients.{module}"), name)(
            party, **_helpers(self.roles, config, node, party, index)
        )
        return made


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


def _settings(kind: Callable[..., Any], config: RunConfig, **given: Any) -> Any:
    """Return an algorithm's settings: its names are those of the run config."""
    # a run waits for its nodes before there is a strategy
    names = {field.name for field in fields(kind)} - {"node_settle_s", *given}  # type: ignore[arg-type]
    values = {name: getattr(config, name) for name in names}
    if values.get("uninformative_voters") == "auto":
        del values["uninformative_voters"]
    return kind(**values, **given)


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


def _helpers(
    roles: tuple[str, ...], config: RunConfig, node: NodeConfig, party: Party, index: int
) -> dict[str, ModelFactory]:
    """Return what makes a party's teachers and students, where the algorithm has any and the run names them."""
    made: dict[str, ModelFactory] = {}
    for role in {"teacher", "student"}.intersection(roles):
        # a silo's own choice of model stands for its teachers and students too
        spec = "" if node.model else getattr(config, f"{role}_model")
        if spec:
            made[role] = model_factory(pick_model(spec, index), getattr(config, f"{role}_params"), party.public)
            check_role(role, made[role](seed=0), party.model(seed=0))
    return made


def _one_net(config: RunConfig, public: PublicSet) -> ModelFactory:
    """Return what makes the net whose weights go round."""
    if config.model.startswith("mixed"):
        way_out = "Set model to one torch net, such as mlp or cnn-fedkt."
        raise ConfigError(explain("model", f"be the same at all parties for {config.algorithm}", config.model, way_out))
    if config.final_model:
        way_out = "Drop it: the net that parties train is the result."
        raise ConfigError(explain("final-model", f"be left out for {config.algorithm}", config.final_model, way_out))
    return model_factory(config.model, config.model_params, public)


def _plain(flower: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that every strategy takes."""
    return {name: value for name, value in flower.items() if name not in ("test", "ledger", "budget")}


def _sizes(config: RunConfig, flower: Mapping[str, Any]) -> list[int]:
    """Return how many rows each party holds, where whoever runs the server knows it."""
    from fedkd_flwr.apps.assembly import party_sizes

    known = flower["record"].simulation and config.subset_rows
    return party_sizes(config, flower["min_available_nodes"]) if known else []


def _fedct(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig

    return FedCT(config=_settings(FedCTConfig, config), public=public, **_plain(flower))


def _fedkt(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig

    settings = _settings(FedKTConfig, config)
    return FedKT(config=settings, public=public, final_model=final_model(config, public), **flower)


def _pate(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.pate import PATE, PATEConfig

    settings = _settings(PATEConfig, config)
    return PATE(config=settings, public=public, final_model=final_model(config, public), **flower)


def _privatekt(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.apps.assembly import output_root
    from fedkd_flwr.strategies.privatekt import PrivateKT, PrivateKTConfig

    runs = output_root(config.output_dir) / "runs"
    return PrivateKT(
        config.fraction_parties,
        config=_settings(PrivateKTConfig, config),
        public=public,
        global_model=_one_net(config, public),
        test=flower["test"],
        checkpoint=runs / flower["record"].run_id / "checkpoint",
        resume_from=output_root(config.resume_from, "resume-from") if config.resume_from else None,
        **_plain(flower),
    )


def _fedmd(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedmd import FedMD, FedMDConfig

    settings = _settings(FedMDConfig, config)
    return FedMD(config=settings, public=public, party_rows=_sizes(config, flower), **_plain(flower))


def _dd(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.dd import DD, DDConfig

    settings = _settings(DDConfig, config)
    return DD(config=settings, public=public, party_rows=_sizes(config, flower), **_plain(flower))


def _fedprox(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedprox import FedProx, FedProxConfig

    given = {"public": public, "global_model": _one_net(config, public), "test": flower["test"], **_plain(flower)}
    return FedProx(config.fraction_parties, config=_settings(FedProxConfig, config), **given)


def _fedkt_prox(config: RunConfig, public: PublicSet, **flower: Any) -> ExchangeStrategy[Any]:
    from fedkd_flwr.strategies.fedkt import FedKTConfig
    from fedkd_flwr.strategies.fedprox import FedKTProx, FedProxConfig

    first, settings = _settings(FedKTConfig, config), _settings(FedProxConfig, config)
    given = {"public": public, "global_model": _one_net(config, public), "test": flower["test"], **_plain(flower)}
    return FedKTProx(config.fraction_parties, fedkt=first, config=settings, **given)


ALGORITHMS: dict[str, Algorithm] = {
    "dd": Algorithm(client="dd:DDClient", strategy=_dd, train_pooled=_steps),
    "fedct": Algorithm(client="fedct:FedCTClient", strategy=_fedct, train_pooled=_steps),
    "fedkt": Algorithm(client="fedkt:FedKTClient", strategy=_fedkt, roles=("teacher", "student", "final")),
    "fedkt-prox": Algorithm(
        client="fedprox:FedKTProxClient", strategy=_fedkt_prox, roles=("teacher", "student"), train_pooled=_passes
    ),
    "fedprox": Algorithm(client="fedprox:FedProxClient", strategy=_fedprox, train_pooled=_passes),
    "privatekt": Algorithm(client="privatekt:PrivateKTClient", strategy=_privatekt),
    "fedmd": Algorithm(client="fedmd:FedMDClient", strategy=_fedmd, train_pooled=_revisits),
    "pate": Algorithm(client="pate:PATEClient", strategy=_pate, roles=("final",)),
}
