"""The run config and a node's own config, checked; strings become objects only here and in `assembly`.

Both are flat kebab-case scalars. Unknown keys, wrong types and impossible combinations are refused before any party
is contacted: *name, rule, value seen, way out*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["NodeConfig", "RunConfig", "parse_node_config", "parse_run_config"]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Flat(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=_kebab, populate_by_name=True)


_VOTES = ("fedkt", "pate")
_SOFT = ("fedmd", "dd")
# settings that promise something: silently ignored, they would let a run look more private than it is
_OF_ALGORITHMS: dict[str, tuple[str, ...]] = {
    "level": ("fedkt",),
    "noise": _VOTES,
    "gamma": _VOTES,
    "sigma": _VOTES,
    "threshold": _VOTES,
    "sigma_threshold": _VOTES,
    "num_queries": _VOTES,
    "max_answers": _VOTES,
    "release": _VOTES,
    "unqueried": _VOTES,
    "server_epsilon_budget": _VOTES,
    "label_mechanism": ("fedct", *_SOFT),
    "label_epsilon": ("fedct", *_SOFT),
    "calibration": ("fedct",),
    "sensitivity": ("fedct",),
    "sensitivity_labels": ("fedct",),
    "epsilon": ("fedct", *_VOTES, *_SOFT),
    "share": _SOFT,
    "subset_rows": _SOFT,
    "subset_replacement": _SOFT,
    "score_noise": _SOFT,
    "score_scale": _SOFT,
    "logit_bound": _SOFT,
    "pretrain_epochs": _SOFT,
    "round_epsilon": ("privatekt",),
    "participation": ("privatekt",),
    "fraction_parties": ("privatekt", "fedprox", "fedkt-prox"),
    "resume_from": ("privatekt",),
}


class RunConfig(_Flat):
    """Everything a run can be told. Defaults are those of ``pyproject.toml``: a test holds them equal."""

    algorithm: Literal["dd", "fedct", "fedkt", "fedkt-prox", "fedmd", "fedprox", "pate", "privatekt"] = "fedct"
    num_rounds: int = Field(0, ge=0)  # 0: the algorithm's default
    num_parties: int = Field(0, ge=0)  # 0: as many nodes as register
    min_parties: int = Field(2, ge=1)
    node_deadline_s: float = Field(120.0, ge=0)
    node_settle_s: float = Field(0.0, ge=0)  # 0: 3 in simulation, 30 in deployment
    round_timeout_s: float = Field(3600.0, gt=0)
    seed: int = Field(1, ge=0, lt=2**63)  # Flower carries signed 64-bit integers
    output_dir: str = ""  # "": ~/.fedkd

    dataset: str = "digits"
    data_root: str = ""
    table: str = ""
    label: str = ""
    public_path: str = ""
    schema_path: str = ""
    num_public: int = Field(0, ge=0)
    num_test: int = Field(0, ge=0)
    num_private: int = Field(0, ge=0)
    public_from: Literal["train", "test"] = "train"
    public_label: str = ""
    label_space: Literal["private", "joint"] = "private"
    synthetic_rows: int = Field(5000, ge=10)
    synthetic_features: int = Field(20, ge=2)
    synthetic_classes: int = Field(3, ge=2)

    partitioner: Literal["iid", "dirichlet", "inner-dirichlet", "pathological", "shard", "size-skewed", "file"] = (
        "dirichlet"
    )
    dirichlet_alpha: float = Field(0.5, gt=0)
    classes_per_party: int = Field(2, ge=1)
    shards_per_party: int = Field(2, ge=1)
    min_party_rows: int = Field(10, ge=1)
    class_order: str = "rarest-first"
    partition_path: str = ""
    partition_index: int = Field(0, ge=0)
    party_test_fraction: float = Field(0.2, ge=0, lt=1)

    model: str = "mixed"
    model_params: str = ""
    teacher_model: str = ""  # "": model
    teacher_params: str = ""
    student_model: str = ""
    student_params: str = ""
    final_model: str = ""  # "": the student's
    final_params: str = ""
    centralised: bool = True
    save_party_models: bool = False

    level: Literal["L0", "L1", "L2"] = "L0"
    students_per_party: int = Field(0, ge=0)  # 0: 2, and 1 at L1 and L2
    teachers_per_student: int = Field(0, ge=0)  # 0: 5, and 25 at L2
    party_models: bool = True
    voting: Literal["consistent", "plain"] = "consistent"
    informative_voters_only: bool = True
    uninformative_voters: Literal["auto", "half", "leave-out"] = "auto"
    consensus: Literal["majority", "qualified-majority", "dawid-skene"] = "majority"
    quorum: float = Field(0.9, ge=0, le=1)
    confidence: float = Field(0.9999, ge=0, le=1)
    steps_per_round: int = Field(200, ge=1)
    stop_when_converged: bool = True
    ties: Literal["random", "lowest"] = "random"
    transfer_rows: int = Field(2, ge=1)
    buffer_rounds: int = Field(25, ge=1)
    buffer_steps: int = Field(4, ge=1)
    self_training_share: float = Field(0.1, ge=0, le=1)
    local_epochs: int = Field(5, ge=1)
    solo_epochs: int = Field(0, ge=0)  # 0: as many as the party asked most often made
    proximal_mu: float = Field(0.1, ge=0, allow_inf_nan=False)
    targets: Literal["hard", "soft"] = "hard"
    participation: Literal["any", "once"] = "any"
    fraction_parties: float = Field(1.0, gt=0, le=1)
    resume_from: str = ""

    share: Literal["logits", "softmax", "argmax"] = "softmax"
    public_batch: int = Field(0, ge=0)  # 0: 5,000, or all where there are fewer
    pretrain_epochs: int = Field(0, ge=0)
    initial_epochs: int = Field(20, ge=1)
    digest_epochs: int = Field(2, ge=1)
    digest_batch: int = Field(64, ge=1)
    revisit_epochs: int = Field(1, ge=0)
    final_revisit: bool = True
    digest_order: Literal["digest-first", "revisit-first"] = "digest-first"
    digest_loss: Literal["auto", "cross-entropy", "l1-logits", "mse-probs"] = "auto"
    distillation_weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    aggregation_weights: Literal["equal", "agreement", "dawid-skene"] = "equal"
    soft_bits: Literal[16, 32] = 32

    subset_rows: int = Field(0, ge=0)  # 0: all of a party's rows
    subset_replacement: bool = True
    score_noise: Literal["none", "laplace", "gaussian"] = "none"
    score_scale: float = Field(0.0, ge=0, allow_inf_nan=False)  # 0: found from epsilon
    logit_bound: float = Field(10.0, gt=0, allow_inf_nan=False)
    noise: Literal["none", "laplace", "gaussian", "confident-gaussian"] = "none"
    gamma: float = Field(0.0, ge=0, allow_inf_nan=False)
    sigma: float = Field(0.0, ge=0, allow_inf_nan=False)
    threshold: float = Field(0.0, ge=0, allow_inf_nan=False)
    sigma_threshold: float = Field(0.0, ge=0, allow_inf_nan=False)
    num_queries: int = Field(0, ge=0)  # 0: all public rows
    max_answers: int = Field(0, ge=0)
    release: Literal["labels", "counts"] = "labels"
    unqueried: Literal["unused", "self-training"] = "unused"
    label_mechanism: Literal["none", "auto", "randomized-response", "xor"] = "none"
    label_epsilon: float = Field(0.0, ge=0, allow_inf_nan=False)
    calibration: Literal["exact", "paper"] = "exact"
    sensitivity: Literal["worst-case", "assumed", "estimated"] = "worst-case"
    sensitivity_labels: int = Field(0, ge=0)
    epsilon: float = Field(0.0, ge=0, allow_inf_nan=False)  # of the whole run; 0: the noise is given
    round_epsilon: float = Field(5.0, gt=0, allow_inf_nan=False)  # of one participation in PrivateKT
    delta: float = Field(1e-5, gt=0, lt=1)
    server_epsilon_budget: float = Field(0.0, ge=0, allow_inf_nan=False)  # 0: none

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if self.algorithm in ("fedkt", "pate") and self.num_rounds > 1:
            rule = f"be 1 for {self.algorithm} (one-shot)"
            raise ValueError(explain("num-rounds", rule, self.num_rounds, "Drop it, or use fedct."))
        for key, algorithms in _OF_ALGORITHMS.items():
            value = getattr(self, key)
            if self.algorithm not in algorithms and value != type(self).model_fields[key].default:
                way_out = f"It would be ignored: drop it, or use {' or '.join(algorithms)}."
                raise ValueError(explain(_kebab(key), f"not be set for {self.algorithm}", value, way_out))
        if self.num_parties and self.min_parties > self.num_parties:
            way_out = "Lower min-parties or raise num-parties."
            raise ValueError(
                explain("min-parties", f"be at most num-parties ({self.num_parties})", self.min_parties, way_out)
            )
        if self.dataset == "table" and not (self.table and self.label):
            seen = f"table {self.table!r}, label {self.label!r}"
            raise ValueError(
                explain(
                    "table and label", 'be given with dataset "table"', seen, "Name your file and its label column."
                )
            )
        for role in ("teacher", "student", "final"):
            if getattr(self, f"{role}_params") and not getattr(self, f"{role}_model"):
                way_out = "It would be ignored: name the model too, or use model-params."
                raise ValueError(
                    explain(f"{role}-params", f"come with {role}-model", getattr(self, f"{role}_params"), way_out)
                )
        if self.partitioner == "file" and not self.partition_path:
            raise ValueError(explain("partition-path", 'be given with partitioner "file"', self.partition_path))
        return self

    @property
    def rounds(self) -> int:
        """Return the number of rounds to run."""
        others = {"fedct": 5, "fedkt": 1, "fedmd": 20, "pate": 1, "privatekt": 100}
        return self.num_rounds or others.get(self.algorithm, 10)

    def as_scalars(self) -> dict[str, Any]:
        """Return the config as kebab-case scalars."""
        return self.model_dump(by_alias=True)


class NodeConfig(_Flat):
    """What one node says of itself and allows; the server cannot change it.

    In simulation Flower sets ``partition-id`` and ``num-partitions``; a silo gives ``data-path`` and ``public-path``.
    """

    partition_id: int | None = Field(None, ge=0)
    num_partitions: int | None = Field(None, ge=1)
    party: str = ""
    data_path: str = ""
    public_path: str = ""
    schema_path: str = ""
    label: str = ""
    model: str = ""
    model_params: str = ""
    state_dir: str = ""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    allow: str = "fedct,fedkt,pate,privatekt"
    require_privacy: bool = False
    epsilon_budget: float = Field(float("inf"), ge=0)
    delta_budget: float = Field(1e-5, gt=0, lt=1)
    share_metrics: bool = False

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if self.data_path and not self.public_path:
            raise ValueError(
                explain(
                    "public-path",
                    "be given with data-path",
                    self.public_path,
                    "Name this node's copy of the public file.",
                )
            )
        if self.data_path and not self.party:
            raise ValueError(
                explain(
                    "party", "be given with data-path", self.party, 'Give this silo a unique name: party="st-mary".'
                )
            )
        if self.model_params and not self.model:
            raise ValueError(explain("model-params", "come with model in the node config", self.model_params))
        if not self.data_path and self.partition_id is None:
            way_out = 'Start this SuperNode with --node-config \'party="..." data-path="..." public-path="..."\'.'
            raise ValueError(explain("data-path", "be given in the node config", self.data_path, way_out))
        return self

    @property
    def simulated(self) -> bool:
        """Tell whether this node plays a party of a partitioned data set."""
        return not self.data_path


_Config = TypeVar("_Config", bound=_Flat)


def parse_run_config(values: Mapping[str, Any]) -> RunConfig:
    """Return the checked run config; keys not given take their defaults.

    Raises
    ------
    ConfigError
        If a key is unknown, a value of the wrong type or out of range, or a combination impossible.
    """
    return _parse(RunConfig, values, "run config", "See docs/configuration.md for every key.")


def parse_node_config(values: Mapping[str, Any]) -> NodeConfig:
    """Return the checked node config.

    Raises
    ------
    ConfigError
        As for `parse_run_config`.
    """
    return _parse(NodeConfig, values, "node config", "Correct --node-config and restart this SuperNode.")


def _parse(model: type[_Config], values: Mapping[str, Any], what: str, way_out: str) -> _Config:
    known = {_kebab(name): field for name, field in model.model_fields.items()}
    # TOML and command lines write 1 where 1.0 is meant
    given = {
        key: float(value) if key in known and known[key].annotation is float and type(value) is int else value
        for key, value in values.items()
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise ConfigError("\n".join(_sentence(e, known, what, way_out) for e in error.errors())) from None


def _sentence(error: Any, known: Mapping[str, Any], what: str, way_out: str) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        import difflib

        near = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(sorted(known))}."
        return explain(f"{what} key {key}", "be a known key", error["input"], hint)
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    rule = error["msg"].removeprefix("Input should ")
    return explain(key, rule if rule.startswith("be ") else f"satisfy: {rule}", error["input"], way_out)
