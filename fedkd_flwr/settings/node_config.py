"""The config of one node: what its owner says of it, and what he allows."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Literal

from fedkd_flwr.algorithms import allowed_by_default
from fedkd_flwr.algorithms.card import Config, setting
from fedkd_flwr.checks import read_word, split_words
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.metrics import check_names
from fedkd_flwr.registry import SITE_RULES, load

__all__ = ["NodeConfig", "listed"]


def listed(text: str) -> set[str]:
    """Return the words between commas."""
    return {word.strip() for word in text.split(",") if word.strip()}


class NodeConfig(Config):
    """What one node says of itself and allows; no setting of a run changes it.

    In simulation Flower sets ``partition-id`` and ``num-partitions``; a silo gives ``data-path`` and ``public-path``.
    """

    party: str = setting("", first=True)
    """This silo's name, unique in the federation; required with data-path."""
    data_path: str = setting("", path=True, first=True)
    """This silo's private file, with the schema's label column."""
    public_path: str = setting("", path=True, first=True)
    """This silo's copy of the public file; required with data-path."""
    schema_path: str = setting("", path=True)
    """This silo's copy of the schema. Empty: schema.toml beside public-path."""
    public_fingerprint: str = setting("", first=True)
    """The public set that was agreed on, as `fedkd doctor` prints it at the server: 20 digits to compare by telephone.
    Another one is refused. Empty: any that the server has."""
    label: str = setting("")
    """If given, the schema's label column must be this one: a check."""
    lacks: str = setting("")
    """Columns of the schema that this silo does not have, with commas: it learns and votes on the others. The server
    and whoever reads the run's page may know which (docs/howto/your-data.md)."""
    model: str = setting("", first=True)
    """This node's own model, for teachers and students too, as in a run: random-forest(n_estimators=50). Empty: the
    run's; random-forest where privacy is demanded."""
    state_dir: str = setting("", path=True, first=True)
    """Absolute path: where labels, state and model stay. Empty: ~/.fedkd of the node's user."""
    test_fraction: float = setting(0.2, ge=0, lt=1)
    """Share of this silo's rows kept for measuring."""
    allow_algorithms: str = setting(",".join(sorted(allowed_by_default())), first=True)
    """The algorithms this node takes part in, with commas; those that send scores or weights never by default. In
    simulation the run decides."""
    allow_vote_rules: str = setting("")
    """Rules that get more than labels from this node, with commas. density-ratio gets its class counts and how typical
    each public row is of its rows, in runs without noise; probabilities its class counts and how likely its model finds
    each class. In simulation the run decides."""
    allow_code: bool = setting(False)
    """Whether runs may name models by import string: code of theirs that computes on this node's rows. Never where
    privacy is demanded."""
    require_privacy: bool = setting(False, first=True)
    """Refuse runs in which no mechanism at this party makes its replies private. Alone it accepts any noise, so set
    epsilon-budget too."""
    epsilon_budget: float = setting(float("inf"), ge=0, allow_inf_nan=True, first=True)
    """Most this party may ever spend on its data, over all runs, for one record against the server; a finite budget
    refuses runs without a mechanism too."""
    delta_budget: float = setting(1e-5, gt=0, lt=1)
    """The delta at which epsilon-budget and reply-epsilon are counted."""
    rows_at_least: int = setting(0, ge=0, zero="none")
    """So many private rows this silo holds or more, which anybody may know: what NFDP (subset-rows) costs is counted
    for this number, never for the true one. none: as if all rows were drawn."""
    run_rules: str = setting("")
    """What settings of runs may be, with commas, such as num-rounds<=10, fedmd.answer-form=argmax. A setting that the
    run's algorithm does not have is passed over."""
    reply_epsilon: float = setting(float("inf"), ge=0, allow_inf_nan=True)
    """The most that one reply may cost, as an epsilon at delta-budget: the least noise. A finite one refuses replies
    without a mechanism too."""
    approve: Literal["never", "always"] = setting("never", first=True)
    """Which replies wait until a person approves them (docs/howto/approve.md): none, or each with labels, scores,
    weights or metrics."""
    approve_within_s: float = setting(3000.0, ge=0)
    """Seconds after which a reply that nobody approved is held back for good. Never more than nine tenths of the run's
    round-timeout-s."""
    reply_every_s: float = setting(0.0, ge=0)
    """Seconds: each reply leaves so long after its instruction came, or twice, three times as long and so on. Take more
    than the longest training, and less than the run's round-timeout-s. 0: at once."""
    round_limit_s: float = setting(3000.0, ge=0, zero="none")
    """Seconds of work after which a visit's learning, in a process of its own, is ended. Less than the run's
    round-timeout-s, so that the party still answers. none: never."""
    memory_limit_gb: float = setting(0.0, ge=0, zero="auto")
    """Gigabytes of memory above which a visit's learning is ended, as by round-limit-s. auto: three quarters of the
    machine's, or of its container's."""
    share_metrics: str = setting("", first=True)
    """Which metrics of this silo's models may leave, with commas: accuracy, macro-f1, ... (docs/reference/metrics.md);
    model stands for a model's name and size. Empty: none."""
    min_support: int = setting(10, ge=0)
    """Test rows that a class needs for a figure of it to leave."""
    partition_id: int | None = setting(None, ge=0)
    """Set by Flower in simulation; not for silos."""
    num_partitions: int | None = setting(None, ge=1)
    """Set by Flower in simulation; not for silos."""

    def check(self) -> None:
        """Refuse a silo without its files or name."""
        if self.data_path and not self.public_path:
            way_out = "Name this node's copy of the public file."
            raise ConfigError(explain("public-path", "be given with data-path", self.public_path, way_out))
        if self.data_path and not self.party:
            way_out = 'Give this silo a unique name: party="st-mary".'
            raise ConfigError(explain("party", "be given with data-path", self.party, way_out))
        for one in split_words(self.model.removeprefix("mixed:")):
            read_word("model", one)
        more = {rule.name for rule in RULES.values() if rule.needs}
        if wrong := listed(self.allow_vote_rules) - more:
            rule, way_out = f"name only {' and '.join(sorted(more))}", "Algorithms stand in allow-algorithms."
            raise ConfigError(explain("allow-vote-rules", rule, ", ".join(sorted(wrong)), way_out))
        if wrong := listed(self.allow_algorithms) & more:
            rule, way_out = "name algorithms alone", "Rules that get more than labels stand in allow-vote-rules."
            raise ConfigError(explain("allow-algorithms", rule, ", ".join(sorted(wrong)), way_out))
        check_names(sorted(listed(self.share_metrics)))
        _ = self.rules  # one that cannot be read is refused here
        if not self.data_path and self.partition_id is None:
            way_out = "Give the node its settings: party=... data-path=... public-path=..."
            raise ConfigError(explain("data-path", "be given in the node config", self.data_path, way_out))

    @property
    def simulated(self) -> bool:
        """Tell whether this node plays a party of a partitioned data set."""
        return not self.data_path

    @property
    def demands_privacy(self) -> bool:
        """Tell whether runs without a mechanism at this party are refused."""
        return self.require_privacy or self.epsilon_budget < math.inf

    @cached_property
    def rules(self) -> Any:
        """The rules of the site, beside the algorithms it allows; raises `ConfigError` where one cannot be read."""
        return load(SITE_RULES)(self)

    @property
    def guards(self) -> bool:
        """Tell whether what leaves is written down: at each silo, and where a simulated node asks for it."""
        return not self.simulated or bool(self.state_dir) or self.approve != "never" or self.rules.asks

    @property
    def takes_models(self) -> bool:
        """Tell whether a run may name its models: not where it names its own, nor at a silo that demands privacy."""
        return not self.model and (self.simulated or not self.demands_privacy)
