"""The membership audit: repeat a simulated run with other halves of the rows, and ask who was in from what was sent.

Each party's rows are paired at random, and a fair coin decides which row of a pair it trains on: half of its rows are
members, the other half fresh rows of the same law. The run under attack and the shadow runs go through the real
ServerApp, ClientApp and wire, in this process. The attack itself is in `fedkd_flwr.audit`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fedkd_flwr.app import client_app, server_app
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.live_run import captured_log
from fedkd_flwr.app.output import output_root
from fedkd_flwr.audit.bounds import attack_auc, detection_rate
from fedkd_flwr.audit.membership import likelihood_ratios, log_odds, pairs_epsilon, tree_odds
from fedkd_flwr.audit.transcript import Transcript
from fedkd_flwr.checks import check_whole
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.files import write_atomic
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import AttackFigures, AuditRecord, ProvenEpsilon, RunRecord
from fedkd_flwr.report.page import write_page
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.settings.config import RunConfig, parse_node_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.rows import party_name
from fedkd_flwr.wire.records import open_instruction, open_reply

__all__ = ["audit"]

_NEAREST = 256  # public rows looked through for each private row
_COVERED = ("replace one record", "add, remove or replace one record", "any change of the party's data")
Coins = list[NDArray[np.bool_]]


def audit(config: RunConfig, *, shadows: int = 16, progress: Callable[[str], None] = lambda _: None) -> RunRecord:
    """Run a federation and its shadows, attack it, and return its record with what the attack found.

    ``config`` is a simulation of a fixed number of parties, whose ``party-test-fraction`` and ``centralised`` are not
    read; each row is trained on in half of the ``shadows``, an even number of 4 or more. ``progress`` is called with a
    line after each run. Raises `ConfigError` for other runs, and where changes of scores are sent; `DataError` and
    `PayloadError` if the data cannot be loaded or a reply not be opened.
    """
    check_whole("shadows", shadows, 4)
    if shadows % 2:
        raise ConfigError(explain("shadows", "be even: each row is in half of them", shadows))
    if config.public_path or not config.num_parties:
        way_out = "Give --parties; a real silo's rows are not this process's to attack."
        raise ConfigError(explain("run", "be a simulation with num-parties", config.num_parties, way_out))
    config = config.model_copy(update={"party_test_fraction": 0.0, "centralised": False})
    run_id = time.time_ns()
    folder = output_root(config.output_dir) / "runs" / str(run_id)
    began = time.monotonic()
    target = _Run(config, run_id)
    coins = [derive_rng(config.seed, "audit", p.name).random(len(p.y) // 2) < 0.5 for p in target.parties]
    record = target.go(coins)
    progress(f"the run under attack: {time.monotonic() - began:.0f} s")
    with tempfile.TemporaryDirectory() as scratch, captured_log():
        elsewhere = config.model_copy(update={"output_dir": scratch})
        flips = _balanced(config.seed, [len(c) for c in coins], shadows)
        attack = _Attack(target)
        attack.add(target)
        for number, flipped in enumerate(flips):
            shadow = _Run(elsewhere, number + 1, final=False)
            shadow.go(flipped)
            attack.add(shadow)
            progress(f"shadow run {number + 1} of {shadows}: {time.monotonic() - began:.0f} s")
    record.audit = attack.found(coins, flips, record.claims)
    record.audit.seconds = time.monotonic() - began
    record.notes.append(Note(NoteCode.AUDITED))
    write_atomic(folder / "record.json", record.to_json().encode())
    write_page(record, folder / "report.html")
    return record


def _balanced(seed: int, pairs: Sequence[int], shadows: int) -> list[Coins]:
    """Return each shadow run's coins: of every pair, each row is in for half of the shadow runs."""
    half = np.arange(shadows) < shadows // 2
    rng = derive_rng(seed, "audit", "shadows")
    dealt = [rng.permuted(np.repeat(half[:, None], count, axis=1), axis=0) for count in pairs]
    return [[party[run] for party in dealt] for run in range(shadows)]


def _taken(coins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the row numbers that the coins put in: the first of each pair where they show heads."""
    return np.asarray(2 * np.arange(len(coins)) + ~coins)


class _Run:
    """One run in this process, and what each party sent; ``final``: parties take the result in, which sends nothing."""

    def __init__(self, config: RunConfig, run_id: int, *, final: bool = True) -> None:
        self.config, self.run_id, self.final = config, run_id, final
        self.scalars = config.as_scalars()
        count = config.num_parties
        self.nodes = [
            {"partition-id": i, "num-partitions": count, "party": party_name(i, config)} for i in range(count)
        ]
        self.transcripts: list[Transcript] = []

    @property
    def parties(self) -> list[Party]:
        """The parties with all of their rows."""
        return [self._client(node).party for node in self.nodes]

    def _client(self, node: Mapping[str, Any]) -> PartyClient:
        return make_client(self.config, parse_node_config(node), str(self.run_id))

    def go(self, coins: Coins) -> RunRecord:
        """Run, each party on the rows that its coins put in; the page is drawn once, when the attack is in it."""

        def handle(message: Message, context: Context) -> Message:
            if message.metadata.message_type == "query":
                return client_app.ready(message, context)
            client = self._client(context.node_config)
            whole, rows = client.party, _taken(coins[int(context.node_config["partition-id"])])
            client.party = replace(whole, X=whole.X[rows], y=whole.y[rows], tests=whole.tests if self.final else {})
            if message.metadata.message_type == "train":
                return client_app.answer(client, message)
            if not self.final:
                raise RuntimeError("A shadow run ends with its last round.")
            return client_app.finish(client, message)

        grid = InProcessGrid(handle, self.nodes, self.scalars, run_id=self.run_id)
        record = server_app.federate(grid, Context(self.run_id, 1, {}, RecordDict(), self.scalars), page=False)
        self.transcripts = _transcripts(grid, [p.spec for p in self.parties])
        return record


def _transcripts(grid: InProcessGrid, specs: Sequence[Any]) -> list[Transcript]:
    """Return what each party sent in the rounds, opened."""
    made = [Transcript(spec=spec) for spec in specs]
    for sent, reply in zip(grid.sent, grid.replies, strict=True):
        if sent.metadata.message_type != "train":
            continue
        arrays, settings = open_instruction(sent.content)
        names = str(settings.get("payload", "")).split(",")
        asked = dict(zip(names, arrays, strict=False))
        at = int(settings["server-round"])
        made[sent.metadata.dst_node_id - grid.first].add(open_reply(reply, "fit"), asked=asked, server_round=at)
    return made


class _Attack:
    """Gathers the evidence of each run on all rows of all parties."""

    def __init__(self, target: _Run) -> None:
        self.parties = target.parties
        self.evidence: list[list[NDArray[np.float64]]] = []  # by run and party
        self.sent: set[str] = set()
        for said in target.transcripts:
            self.sent |= said.kinds
        # the same columns for each run and party, whatever one of them refused
        self._weights = "model" in self.sent
        self._trees = "trees" in self.sent
        nothing_else = not (self._weights or self._trees)
        self._answers = any(said.answers.given for said in target.transcripts) or nothing_else
        self._ratios = "ratios" in self.sent
        # ratios say more than the labels beside them, which with few shadow runs are in the way
        if self._ratios and self.sent <= {"ratios", "labels", "class-counts"}:
            self._answers = False
        self._counts = "class-counts" in self.sent
        self._orders: dict[int, NDArray[np.int64]] = {}

    def add(self, run: _Run) -> None:
        """Add a run's evidence; of what was sent nothing else is kept."""
        self.evidence.append([self._of(i, said) for i, said in enumerate(run.transcripts)])
        run.transcripts = []

    def _of(self, index: int, said: Transcript) -> NDArray[np.float64]:
        party = self.parties[index]
        count = len(party.y) // 2 * 2
        X, y = party.X[:count], party.y[:count]
        columns = [np.full((count, 1), float(len(said.refused)))]  # a refusal is an output too
        if self._weights:
            net, rows = party.model(seed=0), np.arange(count)
            odds = [log_odds(net.set_arrays(w).logits(X), "logits")[rows, y] for w in said.weights] or [np.zeros(count)]
            columns.append(np.stack([odds[0], odds[-1], np.mean(odds, axis=0)], axis=1))
        if self._trees:
            columns.append(tree_odds(said.trees, X, y, num_classes=party.public.num_classes))
        for told, answers in ((self._answers, said.answers), (self._ratios, said.ratios)):
            if told:
                columns.append(answers.evidence(self._order(index, X), y))
                columns.append(answers.taught(party.public.X, X, y))
        if self._counts:
            columns.append(np.zeros((count, 1)) if said.class_counts is None else said.class_counts[y][:, None])
        return np.concatenate(columns, axis=1)

    def _order(self, index: int, X: NDArray[Any]) -> NDArray[np.int64]:
        if index not in self._orders:
            public = self.parties[index].public.X
            near = NearestNeighbors(n_neighbors=min(_NEAREST, len(public)), algorithm="brute").fit(public)
            self._orders[index] = near.kneighbors(X, return_distance=False)
        return self._orders[index]

    def found(self, coins: Coins, flips: Sequence[Coins], claims: Sequence[Mapping[str, Any]]) -> AuditRecord:
        """Return what the attack found."""
        target, *shadows = self.evidence
        scores, alone = [], []
        for i, evidence in enumerate(target):
            member = np.stack([_member(flipped[i]) for flipped in flips])
            scores.append(likelihood_ratios(evidence, np.stack([run[i] for run in shadows]), member))
            unit = evidence[:, 1:].std(axis=0)  # each column counts the same, however large its numbers are
            alone.append((evidence[:, 1:] / np.where(unit > 0, unit, 1.0)).mean(axis=1))
        inside = [_member(c) for c in coins]
        all_scores, all_inside = np.concatenate(scores), np.concatenate(inside)
        return AuditRecord(
            sent=sorted(self.sent),
            shadows=len(shadows),
            everybody=_figures(all_scores, all_inside),
            parties={p.name: _figures(s, m) for p, s, m in zip(self.parties, scores, inside, strict=True)},
            without_shadows=attack_auc(*_split(np.concatenate(alone), all_inside)),
            claims=list(_proven(claims, all_scores, all_inside)),
        )


def _member(coins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each row of the pairs whether the coins put it in."""
    return np.stack([coins, ~coins], axis=1).reshape(-1)


def _split(scores: NDArray[np.float64], inside: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return scores[inside], scores[~inside]


def _figures(scores: NDArray[np.float64], inside: NDArray[np.bool_]) -> AttackFigures:
    members, fresh = _split(scores, inside)
    return AttackFigures(
        members=len(members),
        fresh=len(fresh),
        auc=attack_auc(members, fresh),
        found_at_1_percent=detection_rate(members, fresh, false_alarms=0.01),
        found_at_1_permille=detection_rate(members, fresh, false_alarms=0.001),
    )


def _proven(
    claims: Sequence[Mapping[str, Any]], scores: NDArray[np.float64], inside: NDArray[np.bool_]
) -> Iterator[ProvenEpsilon]:
    """Yield the epsilon proven beside each claim that covers what this attacker saw: another row in a row's place."""
    pairs = scores.reshape(-1, 2)
    chosen = np.where(inside[::2], pairs[:, 0], pairs[:, 1])
    other = np.where(inside[::2], pairs[:, 1], pairs[:, 0])
    for claim in claims:
        relation, epsilon = str(claim["neighbouring relation"]), claim["epsilon"]
        if claim["adversary"] == "server" and relation.startswith(_COVERED) and epsilon is not None:
            yield ProvenEpsilon(
                unit=claim["unit"],
                neighbouring_relation=relation,
                epsilon=epsilon,
                delta=claim["delta"],
                proven=pairs_epsilon(chosen, other, delta=claim["delta"]),
            )
