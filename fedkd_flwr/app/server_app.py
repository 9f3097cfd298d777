"""The ServerApp: checks the run config, waits for the parties, runs the exchange, leaves a record and a page."""

from __future__ import annotations

import shlex
import shutil
import time
from dataclasses import asdict
from logging import INFO, WARN
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

# Not on use: in a simulation the thread that serves would import it while another thread loads the ClientApp, and two
# threads that enter the same packages from two sides find them half made.
from fedkd_flwr.app.assembly import make_strategy
from fedkd_flwr.app.live_run import LiveRun, end_with_parent, new_record
from fedkd_flwr.app.model_cards import write_server_card
from fedkd_flwr.app.output import continued, output_root
from fedkd_flwr.app.public_rows import cost_of
from fedkd_flwr.app.tracking import parse_tools
from fedkd_flwr.app.try_models import try_final_model, try_models
from fedkd_flwr.data.datasets import Pool
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import ConfigError, FedkdError, ModelBytesError, TooFewPartiesError, cause, explain
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.record.notes import Note, NoteCode, add_note
from fedkd_flwr.record.run_record import ColumnRecord, RunRecord
from fedkd_flwr.registry import CERTIFICATE, load
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.simulation.rows import central_rows, check_simulation, held_out_rows, party_class_counts, simulated_pool
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.wire.records import WIRE_VERSION

__all__ = ["app", "federate", "first_settings", "refuse_undrawn"]

_COPIED_SHARE = 0.01  # fewer copies among the test rows cannot raise an accuracy by more than that

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation."""
    end_with_parent()
    federate(grid, context)


def federate(grid: Grid, context: Context, *, page: bool = True) -> RunRecord:
    """Run one federation and return its record; ``page``: also draw its page, which takes seconds."""
    began = time.monotonic()
    config = parse_run_config(context.run_config)
    refuse_undrawn(config)
    folder = output_root(config.output_dir) / "runs" / str(context.run_id)
    record = new_record(config, str(context.run_id))
    try:
        with LiveRun(record, folder, page=page, tracking=parse_tools(config.tracking)) as live:
            try:
                _run(grid, config, live, began)
            except Exception as error:  # nobody replied, or this very process cannot reach the SuperLink
                if not record.simulation and (fault := load(CERTIFICATE)()):
                    kind = TooFewPartiesError if isinstance(error, TooFewPartiesError) else FedkdError
                    raise kind(f"{error} {fault}") from error
                raise
    finally:
        write_server_card(record, folder)
    _nothing_to_continue(record, folder, config)
    return record


def refuse_undrawn(config: RunConfig) -> None:
    """Refuse a run that wants drawn public rows and has none: every run comes by here, and not every one can draw."""
    if config.draw_public_epsilon and not (config.public_rows and cost_of(config.public_rows)):
        way_out = "Draw them once, from a run of noisy-sums (fedkd server public RUN), and give public-rows=FILE."
        rule = "be given to fedkd simulate or fedkd_flwr.simulate, which draw before the run"
        raise ConfigError(explain("draw-public-epsilon", rule, config.draw_public_epsilon, way_out))


def _nothing_to_continue(record: RunRecord, folder: Path, config: RunConfig) -> None:
    """Mark a run that has its result, and forget what simulated parties kept to go on with; not their models."""
    from fedkd_flwr.strategies.resuming import finish

    finish(folder / "checkpoint")
    for run_id in Lineage.load(folder / "checkpoint").runs if record.simulation else ():
        parties = folder.parent / run_id / "parties"
        for path in parties.glob("*") if config.save_party_models else ():
            if path.suffix not in (".model", ".md"):
                path.unlink(missing_ok=True)
        if not config.save_party_models or not any(parties.glob("*")):
            shutil.rmtree(parties, ignore_errors=True)


def _run(grid: Grid, config: RunConfig, live: LiveRun, began: float) -> None:
    continued(config)  # a run to continue that is not there is refused before data are loaded
    from fedkd_flwr.data.tables import load_public
    from fedkd_flwr.report.sentences import reason_sentence
    from fedkd_flwr.strategies.waiting import Readiness, wait_for_nodes

    record, folder = live.record, live.folder
    if record.simulation:
        log(INFO, "loading %s", config.dataset)
        pool = simulated_pool(config)
        public, test = pool.public, (pool.X_test, pool.y_test)
        _say_how_it_was_read(pool, record)
    else:
        if fault := load(CERTIFICATE)():
            log(WARN, "%s", fault)
        log(INFO, "loading the public set %s", config.public_path)
        labels, test = config.public_label_column, None
        public = load_public(config.public_path, config.schema_path or None, labels=labels)
        _note(record, *try_final_model(config, public))
    record.num_public, record.num_classes = public.num_rows, public.num_classes
    record.classes, record.fingerprint = list(public.schema.classes), public.fingerprint
    # in simulation the first round names whoever is not ready, with the cause; nobody else's budget is at stake
    readiness = None if record.simulation else Readiness(grid, first_settings(config, public), reason_sentence)
    nodes = wait_for_nodes(
        grid,
        wanted=config.num_parties,
        minimum=config.min_parties,
        settle_s=config.own.nodes_stable_s or (3.0 if record.simulation else 30.0),
        deadline_s=config.own.node_deadline_s,
        readiness=readiness,
    )
    names = _start_parties(grid, config, nodes, live) if record.simulation else {}
    strategy = make_strategy(
        config,
        public=public,
        test=test,
        num_nodes=len(nodes),
        record=record,
        names=names,
        nodes=() if readiness is None else nodes,
        readiness=readiness,
        on_round=live.on_round,
    )
    record.startup_seconds = time.monotonic() - began
    try:
        strategy.start(grid, num_rounds=config.rounds, timeout=config.round_timeout_s)
    except TooFewPartiesError:
        if strategy.fell_short is not None and (model := getattr(strategy.exchange, "model", None)) is not None:
            _keep_model(model, public, record, folder / "model.fedkd")  # of the last round that had enough
        raise
    if (model := getattr(strategy.exchange, "model", None)) is not None:
        _keep_model(model, public, record, folder / "model.fedkd")
    if cost := cost_of(config.public_rows or config.public_path):
        _note(record, _of_drawn_rows(cost, record))
    if record.simulation:
        _measure(model, config, record, len(nodes))


def _of_drawn_rows(cost: dict[str, Any], record: RunRecord) -> Note:
    """Return what public rows drawn from noisy sums cost, alone or with what this run claims for a record.

    Epsilons and deltas add up: a bound for any two releases of one neighbouring relation, against one adversary.
    """
    told = {"epsilon": bound_text(cost["epsilon"]), "delta": bound_text(cost["delta"]), "adversary": cost["adversary"]}
    alike = ("unit", "adversary", "neighbouring relation")
    same = [one for one in record.claims if all(one[key] == cost[key] for key in alike)]
    own = next((one for one in same if one["epsilon"] is not None and one["publishable"]), None)
    if own is None or cost["epsilon"] is None:
        return Note(NoteCode.DRAWN_ROWS, told)
    total = {f"total{end}": bound_text(cost[key] + own[key]) for end, key in (("", "epsilon"), ("_delta", "delta"))}
    return Note(NoteCode.DRAWN_ROWS_TOO, told | total)


def _start_parties(grid: Grid, config: RunConfig, nodes: list[int], live: LiveRun) -> dict[int, str]:
    """Check a simulation before anybody trains, and start the processes of its parties; return their names by node."""
    from fedkd_flwr.strategies.waiting import start_processes

    if config.num_parties and len(nodes) > config.num_parties:
        way_out = "Give both the same number: num-supernodes in --federation-config."
        raise ConfigError(explain("num-parties", f"equal the {len(nodes)} SuperNodes", config.num_parties, way_out))
    check_simulation(config, len(nodes))
    log(INFO, "%d parties registered; starting their processes", len(nodes))
    started = start_processes(grid, nodes, config.round_timeout_s)
    # not before: with a process forked while Ray started in this one, Ray's node "timed out during startup"
    _note(live.record, *try_models(config, len(nodes)))
    return {node: str(said["party"]) for node, said in started.items()}


def _measure(model: Classifier | None, config: RunConfig, record: RunRecord, num_parties: int) -> None:
    """Write down what only whoever simulates can know: the server's model on all test rows, and the pooled rows."""
    if model is not None:
        record.server = _measured(model, config, num_parties)
    dealt = party_class_counts(config, num_parties)
    for party in record.parties:
        party.class_counts = dealt.get(party.name, [])
    if config.centralised:
        try:
            _centralised(config, record, num_parties)
        except Exception as error:  # a user's own model may raise anything; the run has its result
            _note(record, Note(NoteCode.NO_CENTRALISED_MODEL, {"failure": cause(error)}))


def first_settings(config: RunConfig, public: PublicSet) -> dict[str, Any]:
    """Return the settings of the first round, as parties are told them."""
    size = {"num_public": public.num_rows, "num_classes": public.num_classes}
    return {
        **config.own.resolved(**size, num_rounds=config.rounds).told(),
        "algorithm": config.card.name,
        "privacy": config.own.privacy,
        "server-round": 1,
        "fingerprint": public.fingerprint,
        "wire-version": WIRE_VERSION,
    }


def _note(record: RunRecord, *notes: Note) -> None:
    for note in notes:
        if add_note(record.notes, note):
            log(WARN, "%s", note)


def _say_how_it_was_read(pool: Pool, record: RunRecord) -> None:
    """Log and record what was done to each column of a user's table, and whether test rows are copies of others."""
    from fedkd_flwr.data.look import note_lines

    record.columns = [ColumnRecord(**asdict(note)) for note in pool.columns]
    for line in note_lines(pool.columns) if pool.columns else ():
        log(INFO, "%s", line)
    if pool.next_command:
        # without this run's name: two runs of one name cannot be told apart by it. Without the run that it continues:
        # a run with other columns cannot, and a continued run would say the same twice
        dropped = ("name=", "resume-from=")
        if (again := pool.next_command).startswith("fedkd "):  # else it is what a program is to add to its call
            again = shlex.join(word for word in shlex.split(again) if not word.startswith(dropped))
        _note(record, Note(NoteCode.LOOK_AT_COLUMNS, {"command": again}))
    table = pool.public.schema.shape is None  # images would take half a second, and are rarely equal
    if table and (copied := pool.num_copied_test_rows()) >= _COPIED_SHARE * len(pool.y_test):
        _note(record, Note(NoteCode.COPIED_TEST_ROWS, {"copied": copied, "of": len(pool.y_test)}))


def _keep_model(model: Classifier, public: PublicSet, record: RunRecord, path: Path) -> None:
    """Store the server's model; a run that has its result does not fail for want of a format."""
    from fedkd_flwr.stores.saved_model import save

    try:
        save(model, public, path)
        record.server_model = str(path)
        log(INFO, "the server's model: %s", path)
    except (ModelBytesError, OSError) as error:
        _note(record, Note(NoteCode.MODEL_NOT_KEPT, {"failure": str(error)}))


def _centralised(config: RunConfig, record: RunRecord, num_parties: int) -> None:
    """Train one model on all private rows pooled: what no federation could see."""
    from fedkd_flwr.app.models import common_kind, model_factory
    from fedkd_flwr.clients.score_exchange import pretrain_on
    from fedkd_flwr.seeds import derive_seed

    spec = common_kind(config.model, (pool := simulated_pool(config)).public)
    log(INFO, "training %s on all private rows pooled, for comparison", spec)
    model = model_factory(spec, pool.public)(seed=derive_seed(config.seed, "centralised"))
    pool = pool.as_read_by(model)
    X, y = central_rows(config, num_parties, pool, record.run_id)
    if not len(y):
        _note(record, Note(NoteCode.NO_CENTRALISED_MODEL, {"failure": ""}))
        return
    if (epochs := config.setting("pretrain_epochs", 0)) and model.supports_soft_steps:
        pretrain_on(pool.public, model, epochs=epochs, seed=config.seed)
    rounds, num_public = len(record.rounds), pool.public.num_rows
    config.card.train_pooled(model, X, y, config=config.own, rounds=rounds, num_public=num_public)
    record.centralised = _measured(model, config, num_parties)
    record.centralised_model = spec


def _measured(model: Classifier, config: RunConfig, num_parties: int) -> dict[str, Metrics]:
    """Return how good a model is on the test rows of a simulation."""
    found = held_out_rows(config, num_parties, simulated_pool(config).as_read_by(model))
    answering = Answering(model, None, simulated_pool(config).public.schema.target)
    return {rows: answering.metrics(X, y, *numbers) for rows, (X, y, *numbers) in found.items() if len(y)}
