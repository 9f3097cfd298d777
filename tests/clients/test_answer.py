"""A party that learns apart answers as one that learns here, and ends what must be ended alone alone."""

import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from federation import Means, handler, model, parties, party, rows
from grid import InProcessGrid
from rounds import fedkt, run
from sklearn.tree import DecisionTreeClassifier
from visits import WIRE, code

from fedkd_flwr.clients import FedKTClient
from fedkd_flwr.clients.answer import (
    MAX_PUBLIC_COLUMNS,
    Answer,
    DumpedModel,
    Finished,
    answer_columns,
    answer_table,
    pack_answer,
    pack_finished,
    unpack_answer,
    unpack_finished,
)
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models import serialize
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.processes.limits import Limits
from fedkd_flwr.stores.party_state import NO_STATE
from fedkd_flwr.strategies import FedKTConfig
from fedkd_flwr.wire.label_codec import PublicSpec, encode_labels
from fedkd_flwr.wire.ratio_codec import encode_ratios
from fedkd_flwr.wire.score_codec import decode_scores, encode_scores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are kept on Linux")
ANY = Limits(seconds=60.0, memory=0)
GAUSSIAN = {"noise": "gaussian", "noise_strength": 2.0}


class Counting:
    """Works here, and remembers into how many parts the visit was cut."""

    def __init__(self):
        self.parts = []

    def __call__(self, work, *, parts=1):
        self.parts.append(parts)
        return work()


def test_an_answer_comes_back_as_it_was_with_its_model_as_bytes():
    labels = np.array([[0, 1, -1]], dtype=np.int16)
    probs = np.array([[0.25, 0.75]], dtype=np.float32)
    fitted = model(seed=1).fit(np.zeros((2, 2), np.float32), np.array([0, 1]))
    sent = Answer(
        values={"labels": labels, "probs": probs},
        kept={"cache": np.arange(3)},
        metrics={"accuracy-own": 0.1 + 0.2, "odd": float("inf")},
        notes=["one-class"],
        meta={"alone": {"own": 0.5}, "learnt-from": "all rows"},
        model=fitted,
    )
    back = unpack_answer(pack_answer(sent))
    assert list(back.values) == ["labels", "probs"]
    for name, array in sent.values.items():
        assert back.values[name].dtype == array.dtype
        assert np.array_equal(back.values[name], array)
    assert np.array_equal(back.kept["cache"], np.arange(3))
    assert (back.metrics, back.notes, back.meta) == (sent.metrics, sent.notes, sent.meta)
    assert isinstance(back.model, DumpedModel)
    assert serialize.loads(back.model.data).predict(np.zeros((1, 2), np.float32)).tolist() == [0]
    assert unpack_answer(pack_answer(replace(sent, model=None))).model is None


class Unwritable(DecisionTreeClassifier):
    def __getstate__(self):
        raise RuntimeError("never")


def test_a_model_that_no_safe_format_holds_comes_back_as_none_and_its_accuracies_all_the_same(caplog):
    measured = {"own": Metrics(n=4, accuracy=0.5, support=[1, 3], confusion=[[1, 0], [2, 1]])}
    left = Finished(model=Classifier(Unwritable(), num_classes=2), solo=measured, federated=measured)
    back = unpack_finished(pack_finished(left, weighed=True))
    assert (back.model, back.solo, back.federated, back.learnt) == (DumpedModel(b""), left.solo, left.federated, True)
    assert "the model is not kept" in caplog.text
    assert "the model is not weighed" in caplog.text


def _means(*, seed):
    return Classifier(Means(), num_classes=3)


def _ran(strategy):
    told = [(p.name, p.solo, p.federated, p.notes) for p in strategy.record.parties]
    return told, [r.agreement for r in strategy.record.rounds], [r.bytes_up for r in strategy.record.rounds]


@pytest.mark.parametrize("learner", [model, _means], ids=["refitted", "continued"])
def test_a_run_apart_is_the_run_here(tmp_path, learner):
    found = []
    for name, apart in (("here", None), ("apart", ANY)):
        members = parties(3, state=tmp_path / name, apart=apart, model=learner, keep_model=True)
        found.append(_ran(run("fedct", members, rounds=2)[0]))
        kept = sorted((tmp_path / name).rglob("*.model"))
        both = {stem for member in members for stem in (member.name, f"{member.name}.alone")}
        assert {path.stem for path in kept} == both
        assert {serialize.load(path).num_classes for path in kept} == {3}
    assert found[0] == found[1]


def test_fedkt_apart_is_fedkt_here():
    found = []
    for apart in (None, ANY):
        members = parties(2, apart=apart)
        clients = [FedKTClient(one, noise_rng=np.random.default_rng(i)) for i, one in enumerate(members)]
        strategy = fedkt(level="L2", teachers_per_student=2, students_per_party=1, **GAUSSIAN)
        strategy.start(InProcessGrid(handler(clients), [{}] * 2), num_rounds=1)
        found.append(_ran(strategy))
    assert found[0] == found[1]


def test_at_l2_each_teacher_and_student_is_a_piece_with_its_own_time_and_elsewhere_all_is_one_piece():
    for level, expected in (("L0", [1, 1]), ("L2", [*[8] * 2, 4, *[8] * 2, 4, 1])):
        apart = Counting()
        members = parties(2, apart=None)
        members[0] = replace(members[0], apart=apart)
        noise = GAUSSIAN if level == "L2" else {}
        run("fedkt", members, level=level, teachers_per_student=2, students_per_party=2, **noise)
        assert apart.parts == expected
        teachers_and_students = [1 / parts for parts in apart.parts if parts > 1]
        assert sum(teachers_and_students) in (0, 1)  # together they take the visit's time, and the final visit its own


class Hangs(DecisionTreeClassifier):
    def fit(self, X, y):
        time.sleep(60)


def _hangs(*, seed):
    return Classifier(Hangs(), num_classes=3)


def test_a_party_whose_work_hangs_is_left_out_by_a_code_and_answers_the_next_run(tmp_path):
    members = parties(3, state=tmp_path, apart=Limits(seconds=60, memory=0))
    stuck = replace(members[0], model=_hangs, apart=Limits(seconds=0.3, memory=0))
    strategy, _ = run("fedct", [stuck, *members[1:]])
    (entry,) = strategy.record.rounds
    assert [(r.party, r.code) for r in entry.rejected] == [("party-000", "limit-exceeded")]
    assert entry.answered == ["party-001", "party-002"]
    again, _ = run("fedct", [replace(one, state=NO_STATE) for one in members[:2]])
    assert len(again.record.rounds[0].answered) == 2


def test_beside_a_claim_a_party_whose_work_hangs_answers_as_ever():
    members = parties(2, apart=Limits(seconds=0.3, memory=0), model=_hangs)
    strategy, _ = run("fedct", members, label_mechanism="randomized-response", noise_strength=1.0)
    assert [(r.answered, r.rejected) for r in strategy.record.rounds] == [([one.name for one in members], [])]
    assert "limit-exceeded" not in strategy.record.to_json()


class HangsOnOne(DecisionTreeClassifier):
    """Never returns where its rows hold one record."""

    def fit(self, X, y):
        time.sleep(60 if (X > 500).any() else 0)
        return super().fit(X, y)


def test_at_l2_a_teacher_that_hangs_costs_its_own_vote_and_no_other(caplog):
    X, y = rows(12, seed=1)
    X[5] = 1000
    one = party("party-000", X, y, apart=Limits(seconds=9.0, memory=0))  # 1.5 s for a teacher
    client = FedKTClient(one, teacher=lambda *, seed: Classifier(HangsOnOne(), num_classes=3))
    members = [client, FedKTClient(party("party-001", *rows(24, seed=2)))]
    strategy = fedkt(level="L2", teachers_per_student=3, students_per_party=1, **GAUSSIAN)
    strategy.start(InProcessGrid(handler(members), [{}] * 2), num_rounds=1)
    assert strategy.record.rounds[0].answered == ["party-000", "party-001"]
    assert len(re.findall(r"party-000: teacher \d failed; its labels are the lowest class", caplog.text)) == 1
    assert "learnt nothing" not in caplog.text


def test_at_l2_more_teachers_than_a_visit_has_time_for_are_refused_before_one_is_started(monkeypatch, caplog):
    """Each is ended in time, and starting 100,000 of them would keep the node from every other run all the same."""
    monkeypatch.setattr(FedKTClient, "learn", None)
    config = FedKTConfig(level="L2", teachers_per_student=1000, students_per_party=100, **GAUSSIAN)
    told = {**config.resolved(num_public=60, num_classes=3, num_rounds=1).told(), **WIRE, "algorithm": "fedkt"}
    for said in ("party", "none"):
        one = FedKTClient(party("a", *rows(20, seed=0), apart=Limits(seconds=3000.0, memory=0)))
        assert code(one.fit([], {**told, "privacy": said})) == "not-allowed"
    assert "must leave each teacher 0.1 s of half of round-limit-s (3000 s), got 100000" in caplog.text


PUBLIC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)
CLASSES = ("red", "green", "blue")
LABELS = np.array([[0, 2, 1, -1]], dtype=np.int16)


def _columns(arrays, base=None, **words):
    return answer_columns(arrays, public=PUBLIC, classes=CLASSES, server_round=1, base=base or {}, **words)


def test_labels_are_shown_by_name_and_an_abstention_as_nothing():
    arrays = {"labels": encode_labels(LABELS, public=PUBLIC, server_round=1)}
    assert _columns(arrays) == {"label": ["red", "blue", "green", ""]}
    two = np.concatenate([LABELS, LABELS[:, ::-1]])
    arrays = {"labels": encode_labels(two, public=PUBLIC, server_round=1)}
    assert list(_columns(arrays)) == ["label 1", "label 2"]


def test_changes_are_shown_as_the_whole_answer_that_the_server_makes_of_them():
    public = PublicSpec(num_public=4000, num_classes=3, fingerprint="ab" * 32)
    base = np.random.default_rng(0).integers(0, 3, (1, 4000)).astype(np.int16)
    labels = base.copy()
    labels[0, 7] = (labels[0, 7] + 1) % 3
    arrays = {"labels": encode_labels(labels, public=public, server_round=1, base=base)}
    words = {"public": public, "classes": CLASSES, "server_round": 1}
    shown = answer_columns(arrays, base={"labels": base}, **words)["label"]
    assert shown == [CLASSES[label] for label in labels[0]]
    with pytest.raises(PayloadError, match="payload base"):
        answer_columns(arrays, base={}, **words)


def test_bits_are_shown_class_by_class():
    bits = np.array([[1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0]], dtype=np.int16)
    shown = _columns({"bits": encode_labels(bits, public=PUBLIC.bits, server_round=1)})
    assert shown == {"bit of red": [1, 0, 0, 1], "bit of green": [0, 1, 0, 1], "bit of blue": [0, 0, 1, 0]}


def test_scores_are_shown_at_the_precision_at_which_they_leave():
    probs = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [0.1, 0.3, 0.6], [0.25, 0.25, 0.5]])
    sent = encode_scores(probs, public=PUBLIC, server_round=1, kind="probs", bits=2)
    shown = _columns({"probs": sent})
    read = decode_scores(sent, public=PUBLIC, server_round=1, kind="probs")
    assert shown["probs of red"] == read[:, 0].tolist()
    assert shown["probs of red"] != probs[:, 0].tolist()


def test_density_ratios_bring_labels_steps_and_class_counts():
    codes = np.array([[3, 0, 1], [0, 2, 0], [0, 0, 3], [1, 1, 1]], dtype=np.uint8)
    labels, counts = np.array([0, 1, 2, 0], dtype=np.int16), np.array([5, 0, 9])
    words = {"public": PUBLIC, "server_round": 1}
    arrays = {"ratios": encode_ratios(codes, labels, class_counts=counts, **words)}
    more = np.array([[1, 1, 2, 0]], dtype=np.int16)
    arrays["labels"] = encode_labels(more, base=labels[None], **words)
    shown = _columns(arrays, students=2)
    assert shown["density ratio step of red"] == [3, 0, 0, 1]
    assert shown["rows of each class"][0] == "red: 5; green: 0; blue: 9"
    assert (shown["label 1"], shown["label 2"]) == (["red", "green", "blue", "red"], ["green", "green", "blue", "red"])


def test_weights_are_no_table():
    assert _columns({"model.0": np.zeros((2, 2), np.float32)}) == {}


def test_the_table_names_the_rows_asked_and_no_more_columns_than_a_person_can_read():
    names = [f"c{i}" for i in range(MAX_PUBLIC_COLUMNS + 5)]
    values = [[f"{row}.{i}" for i in range(MAX_PUBLIC_COLUMNS)] for row in range(9)]
    header, first, _ = answer_table(np.array([7, 2]), (names, values), {"label": ["a", "b"]})
    assert header[-2:] == ["(5 more columns)", "label"]
    assert (first[:2], first[-1], len(first)) == ([7, "7.0"], "a", len(header))
    assert list(answer_table(np.array([7]), ([], []), {"label": ["a"]})) == [["public row", "label"], [7, "a"]]
