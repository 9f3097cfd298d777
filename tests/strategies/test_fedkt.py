import numpy as np
import pytest
from federation import model, parties, party, rows
from rounds import fedkt, fedkt_grid, run_fedkt

from fedkd_flwr.errors import ConfigError, PayloadError
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.ratio_codec import encode_ratios
from fedkd_flwr.wire.records import Reply


def test_one_round_leaves_a_model_at_the_server_and_labels_at_the_parties():
    strategy, grid = run_fedkt(parties())
    assert strategy.record.server_accuracy > 0.85
    assert strategy.record.rounds[0].consensus_accuracy > 0.85
    assert [m.metadata.message_type for m in grid.sent] == ["train"] * 5 + ["evaluate"] * 5
    assert all(p.solo and p.federated for p in strategy.record.parties)


def test_one_party_with_one_student_and_one_teacher_is_local_training():
    alone = party("only", *rows(40, seed=2))
    strategy, _ = run_fedkt([alone], minimum=1, students_per_party=1, teachers_per_student=1, party_models=False)
    seed = derive_seed(derive_seed(1, "only"), "teacher", 0, 0)
    teacher = model(seed=seed).fit(alone.X, alone.y).predict(alone.public.X)
    # a tree student reproduces its teacher's labels, and a tree final model the student's
    assert (strategy.exchange.consensus == teacher).all()


def test_several_rounds_are_refused():
    with pytest.raises(ConfigError, match=r"num_rounds must be 1 for fedkt, got 3\. It is one-shot"):
        fedkt().start(fedkt_grid(parties()), num_rounds=3)


def test_a_reply_that_is_turned_away_leaves_no_class_counts_behind():
    """They bind for the whole run, and a node may have sent them in another party's name."""
    strategy = fedkt(students_per_party=2, teachers_per_student=2, consensus="density-ratio")
    codes, labels, counts = np.zeros((60, 3), np.uint8), np.zeros(60, np.int16), np.array([7, 7, 7])
    sent = encode_ratios(codes, labels, public=strategy.exchange.spec, server_round=1, class_counts=counts)
    with pytest.raises(PayloadError, match="reply must hold 2 label arrays"):  # those of the second student
        strategy.exchange.read(Reply(node_id=1, party="a", arrays={"ratios": sent}), 1)
    assert strategy.exchange._said_once == {}
    second = encode_labels(labels, public=strategy.exchange.spec, server_round=1)
    strategy.exchange.read(Reply(node_id=2, party="a", arrays={"ratios": sent, "labels": second}), 1)
    assert strategy.exchange._said_once["a"]["class-counts"].tolist() == [7, 7, 7]
