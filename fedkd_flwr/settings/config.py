"""The run config, checked as a node's own config is; strings become objects only here and in `assembly`.

Both are kebab-case scalars; an algorithm's own settings stand in a section of its name (``fedct.quorum``). Which
settings there are, and what they may be, each algorithm's card says. Unknown keys, wrong types, impossible
combinations and settings that nobody reads are refused before any party is contacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import SkipValidation

from fedkd_flwr.algorithms import Card, cards, find_card
from fedkd_flwr.algorithms.card import PAPER, Config, ExchangeConfig, kebab, setting
from fedkd_flwr.app.tracking import parse_tools
from fedkd_flwr.checks import check_choice, check_parameters, nearest, read_word, split_words
from fedkd_flwr.data.choices import PARTITIONERS, read_target
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.settings.node_config import NodeConfig, listed

__all__ = ["TABLE_RULES", "RunConfig", "parse_node_config", "parse_run_config", "reads"]

_TABLE = {"dataset": ("table",)}
_BY_FILE = {"partitioner": ("file",)}
_OWN_PARTIES = {"partitioner": ("auto", "column")}
_DIRICHLET = {"partitioner": ("auto", "dirichlet", "inner-dirichlet")}
_WITH_PARTIES = ("heart",)  # named data sets whose rows are of real parties
_NAME = re.compile(r"(\w[\w.+=-]{0,99})?")


class RunConfig(Config):
    """What a run is told, whatever its algorithm; ``own`` are the algorithm's settings."""

    name: str = setting("", first=True)
    """What you call the run, so that fedkd's commands find it: at most 100 letters, digits and . _ + = -"""
    algorithm: str = setting("fedct", first=True)
    """How labels or models are exchanged: the name of an algorithm, or your own card as package.module:CARD."""
    num_rounds: int = setting(0, ge=0, le=100_000, first=True, zero="auto")
    """How many exchanges there are. auto: the algorithm's usual number. FedKT-Prox counts those of FedProx."""
    num_parties: int = setting(0, ge=0, first=True, zero="auto")
    """How many nodes the server waits for. auto: until their number is stable."""
    min_parties: int = setting(2, ge=1, first=True)
    """Fewest valid replies that a round needs; with fewer the run fails."""
    fraction_parties: float = setting(1.0, gt=0, le=1)
    """Share of the parties asked in each round, drawn by name."""
    round_timeout_s: float = setting(3600.0, gt=0, first=True)
    """Seconds after which a round goes on without parties that have not answered."""
    output_dir: str = setting("", path=True, first=True)
    """Absolute path: where runs/<run-id>/ goes. Empty: ~/.fedkd of the server's user."""
    resume_from: str = setting("")
    """A lost run to continue: its id, name or absolute path; with the settings it began with (docs/howto/resume.md)."""
    server_epsilon_budget: float = setting(0.0, ge=0, zero="none")
    """Most epsilon that noise at this server may cost over all runs on a public set."""
    centralised: bool = setting(True)
    """In simulation: also train one model on everybody's rows pooled."""
    save_party_models: bool = setting(True)
    """In simulation: keep each party's final model, so that `fedkd predict` answers with it."""

    tracking: str = setting("none")
    """Tools beside the record that get the rounds as they happen, with commas: mlflow (docs/howto/track.md)."""

    dataset: str = setting("digits", first=True)
    """In simulation: table, or the name of a data set (docs/howto/your-data.md), such as synthetic(rows=5000,
    features=20, classes=3) or mnist(public_from='test'), whose public rows are of the official test file."""
    data_root: str = setting("", path=True)
    """Absolute path: the folder of the data sets that need files."""
    table: str = setting("", only=_TABLE, path=True, first=True)
    """Absolute path of your data, in simulation: CSV, TSV, Parquet, Excel or NPZ."""
    tables: str = setting("", only=_TABLE | _OWN_PARTIES, path=True, first=True)
    """Your data in place of table: a file for each party, with commas, or their folder. A file's name is its
    party's."""
    label: str = setting("", only=_TABLE, first=True)
    """The label column of table or tables: what models learn to say."""
    test_table: str = setting("", only=_TABLE, path=True)
    """Absolute path of a file with the common test rows. Empty: num-test rows of table."""
    id_column: str = setting("", only=_TABLE)
    """The column of table that names rows and is no feature."""
    drop: str = setting("", only=_TABLE)
    """Columns of table to leave out, with commas."""
    decimal: Literal["", ".", ","] = setting("", only=_TABLE)
    """The sign before decimals in table; the other one stands between thousands. Empty: found by looking at each
    column."""
    missing: str = setting("", only=_TABLE)
    """Further words for an empty cell of table, with commas; age:-999 in one column. Empty cells, NA, n/a and ? are
    known."""
    date_order: Literal["", "day-first", "month-first"] = setting("", only=_TABLE)
    """How dates of table are read in which no day is above 12, such as 03/04/2021. Empty: such a column is an error."""
    target: str = setting("", only=_TABLE)
    """What the label is (docs/howto/numbers.md): classes; grades, as in grades(order=['mild', 'severe']); or a number,
    cut into bins that parties vote on, as in number(bins=10, unit='years') or number(edges=[0, 18, 65]), which noise
    needs. Empty: classes, but a label of many different numbers is asked about."""
    header: str = setting("", only=_TABLE)
    """The first line of table. none: it holds data; columns are called column-1, column-2 and so on. yes: it holds
    names, though it looks like a row. Another text: the names that are lacking, such as age,ward,outcome."""
    encoding: str = setting("", only=_TABLE)
    """How lines of table are read that are no UTF-8, such as windows-1251. Empty: Windows-1252."""
    public_path: str = setting("", path=True, first=True)
    """Absolute path: at real silos, the server's copy of the public file. It means: no simulation."""
    schema_path: str = setting("", path=True)
    """Absolute path of the schema of public rows. Empty: schema.toml beside public-path, or inferred for a table."""
    num_public: int = setting(0, ge=0, first=True, zero="auto")
    """In simulation: how many rows are public. auto: the data set's usual share."""
    num_test: int = setting(0, ge=0, zero="auto")
    """In simulation: how many rows are common test rows. auto: the data set's usual share."""
    num_private: int = setting(0, ge=0, zero="auto")
    """In simulation: how many rows the parties hold together. auto: the data set's usual share."""
    public_rows: str = setting("", path=True, first=True)
    """In simulation: absolute path of a file with the public rows, which need no label; read by schema-path, else by
    schema.toml beside it, else as table. Empty: num-public rows of the data set's own."""
    draw_public_epsilon: float = setting(0.0, ge=0, zero="none")
    """In simulation: draw num-public rows from noisy sums that cost this epsilon at 1e-5, for one record against the
    server (docs/howto/draw-public-rows.md)."""
    public_label_column: str = setting("", section=PAPER)
    """Public rows have labels, and nets may start from them (paper.pretrain-epochs). At silos: a column of the public
    file; in simulation: the set's label column. FedMD's sets bring their own."""

    partitioner: str = setting("auto", first=True)
    """In simulation: how rows are dealt to parties: auto, column, iid, dirichlet, inner-dirichlet, pathological, shard,
    size-skewed or file, with parameters as in dirichlet(min_rows=20) (docs/howto/your-data.md). column: the data's own
    parties. auto: those where the data have them, else dirichlet."""
    partition_column: str = setting("", only=_TABLE | _OWN_PARTIES, first=True)
    """The column of table that says whose row it is. It is no feature."""
    lacks: str = setting("")
    """In simulation: columns that parties lack, as north:ca,thal;south:slope, or how many each lacks, drawn by the
    seed. Empty: those that its own file lacks (docs/howto/your-data.md)."""
    dirichlet_alpha: float = setting(0.5, gt=0, only=_DIRICHLET, first=True)
    """In simulation: how alike the classes of dealt parties are: 0.1 is very uneven, 100 nearly even."""
    partition_path: str = setting("", only=_BY_FILE, path=True, section=PAPER)
    """With partitioner file: absolute path of an NPZ file of row numbers."""
    party_test_fraction: float = setting(0.2, ge=0, lt=1)
    """Share of its rows that a simulated party keeps for testing at home."""
    model: str = setting("", first=True)
    """The parties' model: a name or an import string (docs/howto/your-model.md), with parameters as in
    random-forest(n_estimators=50). mixed: another kind for each party. Empty: random-forest, or the net or
    xgboost that the algorithm needs."""
    teacher_model: str = setting("")
    """The model of FedKT's teachers. Empty: that of model."""
    student_model: str = setting("")
    """The model of FedKT's students. Empty: that of model."""
    final_model: str = setting("")
    """The server's model in FedKT and PATE. Empty: that of the students, of mixed ones the first that is no net."""

    own: SkipValidation[ExchangeConfig] = ExchangeConfig()

    @cached_property
    def card(self) -> Card:
        """The algorithm's card."""
        return find_card(self.algorithm)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.own.seed

    @property
    def rounds(self) -> int:
        """Return the number of rounds to run."""
        return self.num_rounds or self.card.default_rounds

    def model_of(self, role: str) -> str:
        """Return a role's model with its parameters, empty where the run gives none."""
        return str(getattr(self, "model" if role == "model" else f"{role}_model"))

    def names_of(self, role: str) -> list[str]:
        """Return the names of a role's models without parameters; those of a mixture one by one."""
        words = split_words(self.model_of(role).removeprefix("mixed:"))
        return [read_word("model" if role == "model" else f"{role}-model", word)[0] for word in words if word]

    @property
    def models(self) -> list[str]:
        """The models that the run names, whatever their role; those of a mixture one by one."""
        return [name for role in ("model", *self.card.roles) for name in self.names_of(role)]

    @property
    def has_parties(self) -> bool:
        """Whether the rows of a simulation are those of real parties, with names."""
        named = bool(self.tables or self.partition_column or self.dataset in _WITH_PARTIES)
        return named and self.dealing[0] in _OWN_PARTIES["partitioner"]

    @property
    def dealing(self) -> tuple[str, dict[str, Any]]:
        """How rows are dealt to parties, and its parameters."""
        return read_word("partitioner", self.partitioner)

    @cached_property
    def lacks_by_party(self) -> dict[str, set[str]]:
        """The columns that ``lacks`` names, by party."""
        parts = (part.rpartition(":") for part in self.lacks.split(";") if part and not self.lacks.isdecimal())
        return {party.strip(): listed(columns) for party, _, columns in parts}

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting that not every algorithm has."""
        return getattr(self.own, name, default)

    def check(self) -> None:
        """Refuse impossible combinations, and settings that the algorithm does not read."""
        card = self.card
        if not _NAME.fullmatch(self.name):
            rule = "be at most 100 letters, digits and . _ + = -, and start with a letter, digit or _"
            raise ConfigError(explain("name", rule, self.name))
        if card.one_shot and self.num_rounds > 1:
            rule, way_out = f"be 1 for {card.name} (one-shot)", "Drop it, or use fedct."
            raise ConfigError(explain("num-rounds", rule, self.num_rounds, way_out))
        unread = [
            unread_by(key, getattr(self, name), card.name, [one.name for one in cards().values() if reads(name, one)])
            for name, key in self.keys().items()
            if getattr(self, name) != self.default(name) and not reads(name, card)
        ]
        if unread:
            raise ConfigError("\n".join(unread))
        if self.server_epsilon_budget and self.own.privacy != "server":
            way_out = "It would be ignored: drop it, or choose a noise at the server."
            seen, rule = self.server_epsilon_budget, "be 0 in a run without noise at the server"
            raise ConfigError(explain("server-epsilon-budget", rule, seen, way_out))
        if self.public_path and (self.draw_public_epsilon or self.public_rows):
            way_out = "Draw them from a run of noisy-sums: fedkd server public RUN."
            keys = "draw-public-epsilon and public-rows"
            raise ConfigError(explain(keys, "not be given with public-path", self.public_path, way_out))
        parse_tools(self.tracking)
        if self.num_parties and self.min_parties > self.num_parties:
            rule, way_out = f"be at most num-parties ({self.num_parties})", "Lower min-parties or raise num-parties."
            raise ConfigError(explain("min-parties", rule, self.min_parties, way_out))
        if self.dataset == "table" and not ((self.table or self.tables) and self.label):
            rule, both = 'be given with dataset "table"', f"table {self.table!r}, label {self.label!r}"
            raise ConfigError(explain("table and label", rule, both, "Name your file and its label column."))
        self._check_parties()
        kind, given = read_target(self.target)
        if kind == "number" and self.own.noisy and not given.get("edges"):
            way_out = "Name public bounds, as in number(edges=[0, 18, 40, 65]): no claim covers quantiles."
            raise ConfigError(explain("target", "have edges with noise", self.target, way_out))
        told = [key for key in self.changed_keys() if key in {self.keys()[name] for name in TABLE_RULES}]
        if told and self.schema_path:
            way_out = "It would be ignored, because the schema says how each column is read: drop it, or schema-path."
            raise ConfigError(explain(" and ".join(told), "not be given with schema-path", self.schema_path, way_out))
        _ = self.models  # parameters that cannot be read are refused here
        if self.lacks and self.public_path:
            way_out = "Each silo names its own in its node config: drop it here."
            raise ConfigError(explain("lacks", "not be given with public-path", self.lacks, way_out))
        if self.dealing[0] == "file" and not self.partition_path:
            raise ConfigError(explain("paper.partition-path", 'be given with partitioner "file"', self.partition_path))

    def _check_parties(self) -> None:
        """Refuse two answers to whose row one is, and none where one is needed."""
        ways = [key for key in ("table", "tables", "partition_column") if getattr(self, key)]
        if "tables" in ways and len(ways) > 1:
            way_out = "Each file of tables is one party: drop the other."
            raise ConfigError(explain(" and ".join(map(kebab, ways)), "not be given together", self.tables, way_out))
        name, given = self.dealing
        known = dict.fromkeys(_OWN_PARTIES["partitioner"], ()) | PARTITIONERS
        check_choice("partitioner", name, known)
        check_parameters(f"partitioner {name}", given, known[name])
        if name == "column" and not self.has_parties:
            way_out = "Name the column that says whose row it is, or give tables=FILE,FILE: one file for each party."
            raise ConfigError(explain("partition-column", 'be given with partitioner "column"', "", way_out))
        if self.has_parties and self.dirichlet_alpha != self.default("dirichlet_alpha"):
            rule, way_out = "not be set where rows have their own parties", "Drop it, or set partitioner=dirichlet."
            raise ConfigError(explain("dirichlet-alpha", rule, self.dirichlet_alpha, way_out))

    def changed_keys(self) -> list[str]:
        """Return the keys of the settings that are not the defaults, of the algorithm's too."""
        return [
            key
            for config in (self, self.own)
            for name, key in config.keys().items()
            if getattr(config, name) != (self.card.model if name == "model" else config.default(name))
        ]

    def as_scalars(self) -> dict[str, Any]:
        """Return the settings that this run reads, by key."""
        general = {key: getattr(self, name) for name, key in self.keys().items()}
        return {**general, **{key: getattr(self.own, name) for name, key in self.own.keys().items()}}


TABLE_RULES = ("id_column", "drop", "decimal", "missing", "date_order", "header", "encoding", "target")
"""Settings that say how a user's table is read."""


def parse_run_config(values: Mapping[str, Any]) -> RunConfig:
    """Return the checked run config; keys not given take their defaults.

    Settings of other algorithms are passed over where they have their defaults, as ``pyproject.toml`` gives them all.
    """
    card = find_card(str(values.get("algorithm", RunConfig.default("algorithm"))))
    general = {key: name for name, key in RunConfig.keys().items()}
    own = {key: name for name, key in card.config.keys().items()}
    known = general | own | {key: key for one in cards().values() for key in one.config.keys().values()}
    given: dict[str, Any] = {}
    for_algorithm: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in values.items():
        if key in own:
            for_algorithm[own[key]] = value
        elif key in general:
            given[general[key]] = value
        elif key not in known:
            problems.append(unknown("run config key", key, values, known))
        else:
            problems += not_read(key, value, card)
    if given.get("model", "") == "":
        given["model"] = card.model
    try:
        settings = card.config(**for_algorithm)
    except ConfigError as error:
        problems.append(str(error))
        settings = card.config()
    try:
        run = RunConfig(**given, own=settings)
    except ConfigError as error:
        problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return run


def parse_node_config(values: Mapping[str, Any]) -> NodeConfig:
    """Return the checked node config."""
    known = {key: name for name, key in NodeConfig.keys().items()}
    for key in sorted(values.keys() - known.keys()):
        raise ConfigError(unknown("node config key", key, values, known))
    return NodeConfig(**{known[key]: value for key, value in values.items()})


def reads(name: str, card: Card) -> bool:
    """Tell whether an algorithm reads a general setting: some of them not every algorithm does."""
    some = {
        "fraction_parties": card.samples,
        "server_epsilon_budget": "server" in card.noise,
        **{f"{role}_model": role in card.roles for role in ("teacher", "student", "final")},
    }
    return some.get(name, True)


def unknown(what: str, key: str, values: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return a sentence with the key that was meant: one of that name in a section, or out of it; else one alike."""
    keys, name = sorted(known), key.rpartition(".")[2]
    python = {"parties": "partition-column" if isinstance(values[key], str) else "num-parties"}  # its name there
    near = [one for one in keys if one.rpartition(".")[2] == name or one == python.get(key)]
    near = near or nearest(key, [one for one in keys if one not in values]) or nearest(key, keys)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known keys: {', '.join(keys)}."
    if what == "run config key" and key in NodeConfig.keys().values():
        hint = "It is a party's own setting: give it in the node config."
    return explain(f"{what} {key}", "be a known key", values[key], hint)


def not_read(key: str, value: Any, card: Card) -> Iterator[str]:
    """Yield a sentence where a setting of other algorithms has another value than its default."""
    readers = {
        name: one.config.default(field)
        for name, one in cards().items()
        for field, its_key in one.config.keys().items()
        if its_key == key
    }
    default = next(iter(readers.values()))
    if isinstance(value, bool) is not isinstance(default, bool) or value != default:
        own = [one for one in card.config.keys().values() if re.split(r"[.-]", one)[-1] == key]
        yield unread_by(key, value, card.name, list(readers), own)


def unread_by(key: str, value: Any, algorithm: str, readers: list[str], own: Sequence[str] = ()) -> str:
    """Return a sentence with the settings alike that the algorithm has, else with the algorithms that have this one."""
    instead = f"; {algorithm} has {' and '.join(own)}" if own else f", or use {' or '.join(readers)}"
    way_out = f"It would be ignored: drop it{instead}."
    return explain(key, f"not be set for {algorithm}", value, way_out)
