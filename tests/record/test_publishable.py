"""What of a record may be published, level by level."""

import dataclasses
import math
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest

from fedkd_flwr.privacy.claims.claim import SEEDED, label_privacy, noisy_max_at_party, noisy_max_at_server
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.plan import NoisyVotes
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax
from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import WITHHELD, ColumnRecord, PartyRecord, Rejection, RoundRecord, RunRecord


def test_publishable_leaves_out_what_came_from_votes_or_rows(record):
    text = record.publishable().to_json()
    private = ["0.7", "0.75", "0.8", "confusion", "few-rows", "no-rows", "123", "4.73", "Ann", "ann/", "~"]
    for one in private:
        assert one not in text
    shown = record.publishable()
    assert shown.seconds == shown.startup_seconds == shown.rounds[0].seconds == 0.0
    assert shown.parties == [PartyRecord(name="party-a", model="cnn")]


def test_publishable_keeps_each_claim_and_withholds_the_numbers_that_depend_on_votes(record):
    first, second = record.publishable().claims
    assert first == record.claims[0]
    assert second == {"unit": "record", "epsilon": WITHHELD, "delta": WITHHELD, "publishable": False}


def test_a_smaller_epsilon_for_the_operator_leaves_no_trace_and_a_claim_that_says_nothing_is_not_published(record):
    # that there is one depends on the votes
    record.claims.append({**record.claims[0], "epsilon": 0.5, "publishable": False, "basis": "proven"})
    assert [claim["unit"] for claim in record.publishable().claims] == ["party", "record"]
    assert "0.5" not in record.publishable().to_json()
    record.claims = [{"unit": "party", "epsilon": 1.0}]
    assert record.publishable().claims[0]["epsilon"] == WITHHELD


ALWAYS = {
    "run_id", "algorithm", "sends", "returns", "schema_version", "started", "status", "reason", "simulation", "seed",
    "config", "changed", "versions", "num_public", "num_classes", "classes", "fingerprint", "server_model",
    "centralised_model", "doing", "num_rounds", "final_asked", "rounds.server_round", "rounds.asked",
    "rounds.answered", "rounds.rejected.party", "rounds.rejected.code", "parties.name", "parties.model",
}  # fmt: skip
AFTER_NOISE = {"claims", "rounds.labelled_share", "rounds.bytes_down", "final_bytes_down"}


AT_PARTY = AFTER_NOISE | {"rounds.bytes_up", "rounds.kept_share"}
VOTES = np.array([[9, 1], [2, 8]] * 10)
LAPLACE, GAUSSIAN = (
    NoisyVotes(mechanism=one, num_queries=20) for one in (LaplaceMax(gamma=0.5), GaussianMax(sigma=9.0))
)


def _labels(**changes):
    response = RandomizedResponse(epsilon=2.0, num_classes=3)
    return [dataclasses.replace(label_privacy(response, num_labels=60, delta=1e-5, rounds=3), **changes)]


LEVELS = {
    "FedCT": ("fedct", [], ALWAYS, 1),
    "FedKT L0": ("fedkt", [], ALWAYS, 3),
    "FedKT L1": ("fedkt", noisy_max_at_server(LAPLACE, delta=1e-5, counts=VOTES), ALWAYS | AFTER_NOISE, 3),
    "PATE": ("pate", noisy_max_at_server(GAUSSIAN, delta=1e-5), ALWAYS | AFTER_NOISE, 3),
    "FedKT L2": ("fedkt", noisy_max_at_party(GAUSSIAN, delta=1e-5, teachers=5), ALWAYS | AT_PARTY, 3),
    "DP-FedCT": ("fedct", _labels(), ALWAYS | AT_PARTY, 3),
    "DP-FedCT, seeded": ("fedct", _labels(epsilon=math.inf, basis=SEEDED), ALWAYS | {"claims"}, 1),
}


def _full(cls):
    """Return an instance whose every field differs from its default: also of fields added after this was written."""
    values = {}
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        kind = hints[item.name]
        kind = next((a for a in get_args(kind) if a is not type(None)), kind) if type(None) in get_args(kind) else kind
        inner = get_args(kind)
        if dataclasses.is_dataclass(kind):
            values[item.name] = _full(kind)
        elif get_origin(kind) is dict and dataclasses.is_dataclass(inner[1]):
            values[item.name] = {"common": _full(inner[1])}
        elif get_origin(kind) is list and dataclasses.is_dataclass(inner[0]):
            values[item.name] = [_full(inner[0]) for _ in range(3)]
        else:
            values[item.name] = {
                str: "text", int: 7, float: 0.123, bool: True,
                list: ["party-a"], dict: {"party-a": 0.123},
            }[get_origin(kind) or kind]  # fmt: skip
    return cls(**values)


def _told(record):
    """Return the paths of the fields that say anything."""
    empty = {cls: cls(**{f.name: None for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING
                         and f.default_factory is dataclasses.MISSING})
             for cls in (RunRecord, RoundRecord, PartyRecord, Rejection, ColumnRecord, Note)}  # fmt: skip
    found = set()

    def look(value, path):
        for item in dataclasses.fields(value):
            inner, where = getattr(value, item.name), f"{path}{item.name}"
            if isinstance(inner, list) and inner and dataclasses.is_dataclass(inner[0]):
                for entry in inner:
                    look(entry, f"{where}.")
            elif inner != getattr(empty[type(value)], item.name) and inner not in ("", None):
                found.add(where)

    look(record, "")
    return found | {"schema_version"}


def _level(name):
    algorithm, claims, allowed, rounds = LEVELS[name]
    one_shot = algorithm in ("fedkt", "pate")
    changes = {"algorithm": algorithm, "one_shot": one_shot, "claims": [c.as_dict() for c in claims]}
    return dataclasses.replace(_full(RunRecord), **changes), allowed | ({"one_shot"} if one_shot else set()), rounds


@pytest.mark.parametrize("name", LEVELS)
def test_a_publishable_record_holds_these_fields_and_no_others(name):
    record, allowed, rounds = _level(name)
    shown = record.publishable()
    assert _told(shown) == allowed
    assert len(shown.rounds) == rounds  # without a proven claim votes may decide how many there are
    assert shown.publishable() == shown


def test_the_enumeration_sees_a_field_that_should_not_be_there():
    record, allowed, _ = _level("DP-FedCT")
    leaks = {"rounds.agreement", "rounds.seconds", "rounds.accuracy", "rounds.server_accuracy", "parties.solo",
             "rounds.rejected.node_id", "parties.model_bytes", "notes.code", "notes.values", "server", "centralised",
             "parties.federated", "rounds.tested"}  # fmt: skip
    assert leaks <= _told(record) - allowed
    for leak in ("agreement", "changed_share", "seconds"):
        shown = record.publishable()
        setattr(shown.rounds[1], leak, 0.5)
        assert _told(shown) - allowed == {f"rounds.{leak}"}


def test_a_claim_without_a_proof_covers_nothing():
    record, _, _ = _level("DP-FedCT")
    assert record.covered == "party"
    record.claims[0]["basis"] = "a guess"
    assert record.covered == ""


def test_the_number_of_rounds_is_told_where_votes_cannot_have_decided_it():
    record, _, _ = _level("FedCT")
    assert len(record.publishable().rounds) == 1
    record.config = {"paper.stop-when-converged": False}
    assert len(record.publishable().rounds) == 3
    record.config, record.one_shot = {}, True
    assert len(record.publishable().rounds) == 3
