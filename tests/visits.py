"""Instructions to one party without a server, and what it says to them."""

from federation import model, party

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.fedmd import FedMDConfig
from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.clients import FedCTClient, FedKTClient, PATEClient
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState

WIRE = {"server-round": 1, "fingerprint": "ab" * 32, "payload": "", "wire-version": 1, "last-round": 0}
CONFIG = {**FedCTConfig(steps_per_round=5).told(), **WIRE, "algorithm": "fedct"}
KT = {**FedKTConfig(students_per_party=2, teachers_per_student=5).told(), **WIRE, "algorithm": "fedkt"}
RESPONSE = FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0, steps_per_round=2).told()
NFDP = FedMDConfig(subset_rows=8, initial_epochs=1, distillation_epochs=1, answer_form="argmax").told()


def later(server_round):
    """Return what an instruction says in a later round to whoever answered the one before."""
    return {"server-round": server_round, "last-round": server_round - 1}


def fit(member, **changes):
    return FedCTClient(member).fit([], {**CONFIG, **changes})


def code(answer):
    arrays, count, metrics = answer
    assert arrays == []
    assert count == 0
    assert set(metrics) == {"party", "code", "wire-version"}
    return metrics["code"]


def net(*, seed):
    return model(seed=seed, name="mlp", hidden=4, epochs=1)


def of_run(folder, X, y, **changes):
    """Return a party as a visit makes it: ledger and state are read from the disk again."""
    kept = {"ledger": LedgerStore(folder, party="a", data_digest="ab" * 32), "run_id": "1"}
    kept["state"] = PartyState(folder, run_id="1", party="a")
    return party("a", X, y, **{"model": net, "allow": frozenset({"fedct", "fedmd"}), **kept, **changes})


# algorithms whose parties may be asked for more than labels
TELL_MORE = {
    "fedct": (FedCTClient, FedCTConfig()),
    "fedkt": (FedKTClient, FedKTConfig().resolved(num_public=60, num_classes=3, num_rounds=1)),
    "pate": (PATEClient, PATEConfig()),
}


def asked_more(rule, name, member, **changes):
    """Return payload, code and arrays of a party that a server asks for what a vote rule needs beside labels."""
    client, config = TELL_MORE[name]
    words = {**config.told(), **WIRE, "algorithm": name, "privacy": "none", "rule": rule}
    arrays, _, metrics = client(member).fit([], {**words, **changes})
    return metrics.get("payload", ""), metrics.get("code", ""), arrays
