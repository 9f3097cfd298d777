"""The project of examples/from_scratch, which docs/howto/flower-project.md shows, run as it is."""

import importlib
import re
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

import fedkd_flwr.baselines.cards as cards_beside
import fedkd_flwr.clients
import fedkd_flwr.strategies
from fedkd_flwr.algorithms import cards, find_card
from fedkd_flwr.errors import TooFewPartiesError
from fedkd_flwr.registry import load as find_class
from fedkd_flwr.silo.cli.egress import ledger
from fedkd_flwr.strategies.loop import strategy_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "flower-project.md"
FOLDER = ROOT / "examples" / "from_scratch"
PROJECT, COMMON, SERVER, CLIENT = (
    (FOLDER / name).read_text("utf-8") for name in ("pyproject.toml", "common.py", "server_app.py", "client_app.py")
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
WITH_NOISE, LEDGER = [text for text in BLOCKS if "--8<--" not in text]
CLIENT_FN = """from flwr.client import Client

from fedkd_flwr.wire.records import numpy_client_mod


def client_fn(context: Context) -> Client:
    return client(context).to_client()


app = ClientApp(client_fn=client_fn, mods=[numpy_client_mod])
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return what writes the files of the project, imports its two apps, and runs them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    names = ("common", "server_app", "client_app")

    def run(server, client, run_id=1):
        for name, text in zip(names, (COMMON, server, client), strict=True):
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        for name in names:
            monkeypatch.delitem(sys.modules, name, raising=False)
        apps = [importlib.import_module(name).app for name in names[1:]]
        config = tomllib.loads(PROJECT)["tool"]["flwr"]["app"]["config"]
        nodes = [{"partition-id": i, "num-partitions": 3} for i in range(config["num-parties"])]
        apps[0](InProcessGrid(apps[1], nodes, config, run_id=run_id), Context(run_id, 1, {}, RecordDict(), config))

    yield run
    for name in names:
        sys.modules.pop(name, None)


def _with_client_fn():
    """Return the client of the older API: without the two handlers, and with `client_fn` in their place."""
    head = CLIENT.partition("@app.train()")[0]
    lines = [line for line in head.splitlines() if "import answer, finish" not in line]
    return "\n".join(lines) + "\n\n" + CLIENT_FN


def test_the_project_of_the_page_runs_also_by_the_older_api_of_clients(project, capsys):
    project(SERVER, _with_client_fn().replace('"random-forest"', '"decision-tree"'))
    assert "3 answered of 3 asked, in every round" in capsys.readouterr().out


def test_the_project_of_the_page_gives_the_figures_of_the_page(project, capsys):
    project(SERVER, CLIENT)
    printed = capsys.readouterr().out
    assert "3 answered of 3 asked, in every round" in printed
    text = PAGE.read_text(encoding="utf-8")
    alone, together = re.search(r"reached ([\d.]+) alone and ([\d.]+) with the federation", text).groups()
    assert re.search(rf"alone \(SOLO\) +{alone} ", printed)
    assert re.search(rf"with the federation +{together} ", printed)


def test_with_noise_and_a_ledger_the_third_run_is_refused_as_the_page_says(project, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("their rows", encoding="utf-8")
    head = SERVER.partition("    strategy = FedCT(")[0].replace("FedCT, FedCTConfig", "FedKT, FedKTConfig")
    more = "from functools import partial\nfrom fedkd_flwr.models.zoo import make_model\n"
    server = more + head + "    public = public_set()\n" + textwrap.indent(WITH_NOISE, "    ")
    imports, _, arguments = LEDGER.partition("party = Party(\n    # ... as above, and\n")
    arguments = textwrap.indent(arguments.removesuffix(")\n"), "    ")
    client = CLIENT.replace("    )\n    return FedCTClient(party)", f"{arguments}    )\n    return FedKTClient(party)")
    client = imports + client.replace("import FedCTClient, Party", "import FedKTClient, Party")
    client = client.replace("-> FedCTClient", "-> FedKTClient")
    # what is spent does not depend on the model: fifty teachers a party need not be forests
    client = client.replace('"random-forest"', '"decision-tree"')
    for run_id in (1, 2):
        project(server, client, run_id)
        assert re.search(r"\('record', (1\.9\d+|2\.0), 1e-05, 'proven'\)", capsys.readouterr().out)
    with pytest.raises(TooFewPartiesError, match="clinic-0: budget-exceeded, clinic-1: budget-exceeded, clinic-2"):
        project(server, client, 3)
    ledger(str(tmp_path / ".clinics"))
    told = re.search(r"\(together ([\d.]+)\)", PAGE.read_text(encoding="utf-8"))[1]
    assert f"epsilon {told}" in capsys.readouterr().out


def test_the_page_s_table_names_classes_that_there_are():
    table = PAGE.read_text(encoding="utf-8").partition("## Other algorithms")[2].partition("\n\nThe strategies")[0]
    named = set(re.findall(r"[A-Z]\w+", table))
    public = {*dir(fedkd_flwr.strategies), *dir(fedkd_flwr.clients), *dir(cards_beside)}
    public |= {find_class(card.client).__name__ for card in cards().values()}
    assert {name for name in named if name.endswith(("Config", "Client"))} <= public
    for name in ("fedct", "fedkt", "fedkt-prox", "fedmd", "pate", "privatekt"):
        card = cards()[name]
        assert {strategy_of(card).__name__, card.client.rpartition(":")[2], card.config.__name__} <= named
    assert strategy_of(find_card("fedprox")).__name__ == "FedProx"  # as the page says below the table
