"""What all strategies whose parties send weights have in common, over all of them."""

import functools

import numpy as np
import pytest
from federation import model, party, rows
from flwr.app import Array, ArrayRecord, Message, RecordDict
from rounds import grid_of, make, members, net, run, same

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.wire.records import array_bytes

pytest.importorskip("torch")

SEND = sorted(name for name, card in cards().items() if card.sends == "weights" and name != "fedkt-prox")
NOISY = {"dp-fedavg"}


def _run(algorithm, count=3, **keywords):
    """Run one round, with noise from a seed."""
    settings = {"noise_rng": np.random.default_rng(3)} if algorithm in NOISY else {}
    return run(algorithm, rounds=1, held=members(count, algorithm), **settings, **keywords)


_honest = functools.cache(_run)  # which nobody changes


@pytest.mark.parametrize("algorithm", SEND)
def test_a_round_is_written_down_and_no_result_depends_on_the_order_of_replies(algorithm):
    one, grid = _honest(algorithm)
    other, _ = _run(algorithm, order=[2, 0, 1], first_node_id=5000)
    assert same(one.model.arrays(), other.model.arrays())
    (only,) = one.record.rounds
    assert only.answered == ["party-000", "party-001", "party-002"]
    assert only.server_accuracy == one.record.server_accuracy == one.model.accuracy(*one.exchange.test)
    assert one.record.notes[0] == one.exchange.warning
    assert len({p.federated["common"].accuracy for p in one.record.parties}) == 1
    assert only.bytes_up > 0
    assert array_bytes(next(iter(grid.replies[0].content.array_records.values()))) * 3 == only.bytes_up


@pytest.mark.parametrize("algorithm", SEND)
def test_weights_leave_only_where_the_owner_names_the_algorithm(algorithm):
    others = frozenset(set(cards()) - {algorithm})
    held = [party(f"party-{i:03d}", *rows(20, seed=i), model=net, allow=others) for i in range(2)]
    with pytest.raises(TooFewPartiesError, match="party-000: not-allowed"):
        make(algorithm).start(grid_of(held, algorithm), num_rounds=1)


@pytest.mark.parametrize("algorithm", SEND)
def test_a_model_without_weights_is_refused_before_anybody_is_asked(algorithm):
    with pytest.raises(ConfigError, match="model must be a torch net"):
        make(algorithm, global_model=model)


BY_ROWS = ("fedavg", "feddf")


def _rewrapped(reply, content):
    made = Message(content, dst_node_id=1, message_type="train")
    made.metadata.__dict__.update(reply.metadata.__dict__)
    return made


def _under_other_names(reply):
    record = reply.content.array_records["arrays"]
    first, second, *others = record
    odd = {f"{first},{second}": record[first], "": record[second], **{name: record[name] for name in others}}
    return {**reply.content, "arrays": ArrayRecord(odd)}


@pytest.mark.parametrize("algorithm", BY_ROWS)
def test_a_reply_under_other_names_counts_as_what_it_holds_and_ends_no_run(algorithm):
    """Flower's strategy ends the run where the records of two replies have different names."""

    def tamper(i, reply):
        training = "reply" in reply.content and reply.metadata.message_type == "train"
        return _rewrapped(reply, RecordDict(_under_other_names(reply))) if i == 0 and training else reply

    strategy, _ = _run(algorithm, tamper=tamper)
    honest, _ = _honest(algorithm)
    assert strategy.record.rounds[0].answered == ["party-000", "party-001", "party-002"]
    assert same(strategy.exchange.model.arrays(), honest.model.arrays())


@pytest.mark.parametrize("algorithm", SEND)
def test_weights_so_large_that_the_net_says_nothing_are_left_out_and_end_no_run(algorithm):
    def tamper(i, reply):
        if i == 0 and reply.metadata.message_type == "train":
            for record in reply.content.array_records.values():
                for name, array in list(record.items()):
                    if array.numpy().dtype == np.float32:
                        record[name] = Array(np.full(array.shape, 3e38, np.float32))
        return reply

    strategy, _ = _run(algorithm, tamper=tamper)
    (only,) = strategy.record.rounds
    assert [(r.party, r.code) for r in only.rejected] == [("party-000", "wrong-weights")]
    assert only.answered == ["party-001", "party-002"]
    assert strategy.record.status == "completed"


@pytest.mark.parametrize(
    ("algorithm", "values"),
    [("fedavg", {0: 1e30, 2: 0.0}), ("scaffold", {4: 1e30})],
    ids=["units that nothing reads", "a control"],
)
def test_huge_weights_that_the_sender_s_outputs_do_not_show_are_left_out_and_end_no_run(algorithm, values):
    """In the mean they meet the others' weights: those nets would diverge, and nobody answer the next round."""

    def tamper(i, reply):
        if i == 0 and reply.metadata.message_type == "train":
            (record,) = reply.content.array_records.values()
            names = list(record)
            for at, value in values.items():
                record[names[at]] = Array(np.full(record[names[at]].numpy().shape, value, np.float32))
        return reply

    strategy, _ = run(algorithm, rounds=2, held=members(3, algorithm), tamper=tamper)
    first, second = strategy.record.rounds
    assert [(r.party, r.code) for r in first.rejected] == [("party-000", "wrong-weights")]
    assert second.answered == ["party-001", "party-002"]
