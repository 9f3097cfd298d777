import dataclasses

import numpy as np
import pytest
from federation import accuracies, fedct_grid, parties, party, public_set, rows
from flwr.app import Array
from rounds import grid_of, make, run_fedct

from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import FedCT, FedCTConfig, PartyLabels
from fedkd_flwr.wire.label_codec import PublicSpec, encode_labels


def test_the_order_of_parties_and_their_node_ids_change_nothing():
    first, _ = run_fedct(parties())
    shuffled, _ = run_fedct(list(reversed(parties())), order=[3, 0, 4, 1, 2], first_node_id=77)
    assert (first.exchange.consensus == shuffled.exchange.consensus).all()
    assert accuracies(first) == accuracies(shuffled)


def test_interpolating_learners_converge_and_the_run_stops_early_for_another_round_would_change_nothing():
    strategy, grid = make("fedct", steps_per_round=20), grid_of(parties(), "fedct")
    result = strategy.start(grid, num_rounds=10)
    record = strategy.record
    assert record.status == "completed"
    assert record.rounds[0].answered == [f"party-{i:03d}" for i in range(5)]
    assert record.rounds[0].consensus_accuracy > 0.85
    assert set(record.mean_accuracies()) == {"solo-common", "federated-common"}
    assert (result.arrays["labels"].numpy() == strategy.exchange.consensus).all()
    assert len(record.rounds) == strategy.exchange.finished_round < 10
    kinds = [m.metadata.message_type for m in grid.sent]
    assert kinds.count("evaluate") == 5
    # another round would indeed change nothing
    whole, _ = run_fedct(parties(), rounds=strategy.exchange.finished_round + 2, stop_when_converged=False)
    assert (strategy.exchange.consensus == whole.exchange.consensus).all()
    assert accuracies(strategy) == accuracies(whole)


def _round(strategy, number, *labels):
    this, previous = RoundRecord(server_round=number), strategy.exchange.consensus
    answers = []
    for i, (now, before) in enumerate(labels):
        changed = None if before is None else float(np.mean(np.array(now) != np.array(before)))
        answers.append(PartyLabels(party=str(i), labels=np.array([now], dtype=np.int16), changed_share=changed))
    strategy.exchange.consensus = strategy.exchange.combine(number, answers, this)
    strategy.exchange._describe(this, answers)
    return strategy.exchange.converged(previous, answers, this)


def test_an_unchanged_unanimous_consensus_does_not_stop_parties_that_still_change_their_labels():
    config = FedCTConfig(consensus="qualified-majority", quorum=0.9, one_class_voters="count")
    strategy = FedCT(config=config, public=public_set(4))
    strategy.roster.nodes = [1, 2]
    a, b = [0, 1, 2, 1], [0, 1, 1, 2]
    assert not _round(strategy, 1, (a, None), (b, None))
    assert not _round(strategy, 2, (b, a), (a, b))
    assert _round(strategy, 3, (b, b), (a, a))


def test_a_missing_party_keeps_the_run_going():
    strategy = FedCT(config=FedCTConfig(one_class_voters="count"), public=public_set(3))
    strategy.roster.nodes = [1, 2]
    assert not _round(strategy, 1, ([0, 1, 2], None))
    assert not _round(strategy, 2, ([0, 1, 2], [0, 1, 2]))


def _skewed():
    return [party(f"p{i}", *rows(20, seed=i, classes=(i % 3,))) for i in range(6)]


def test_a_quorum_that_labels_nothing_warns_and_the_run_goes_on():
    strategy, _ = run_fedct(_skewed(), consensus="qualified-majority", quorum=1.0, one_class_voters="count", rounds=2)
    assert strategy.record.rounds[0].labelled_share == 0.0
    assert strategy.record.notes[0] == Note(NoteCode.NO_LABELS, {"server_round": 1, "quorum": 1.0})
    assert strategy.record.status == "completed"


class TestDensityRatios:
    """Parties of one class each: no label of theirs is worth a vote, and their ratios know every row."""

    ALLOW = frozenset({"fedct", "density-ratio"})

    def members(self, state=None, **changes):
        made = []
        for i in range(3):
            name = f"p{i}"
            kept = {"state": PartyState(state, run_id="1", party=name)} if state is not None else {}
            X, y = rows(30, seed=i, classes=(i % 3,))
            made.append(party(name, X, y, **{"allow": self.ALLOW, **kept, **changes}))
        return made

    def run(self, members, **settings):
        return run_fedct(members, consensus=settings.pop("consensus", "auto"), **settings)[0]

    def test_one_class_a_party_is_labelled_where_a_majority_knows_nothing(self, tmp_path):
        found = self.run(self.members(tmp_path), stop_when_converged=False)
        voted = self.run(self.members(), consensus="majority", rounds=1)
        assert found.record.rounds[-1].consensus_accuracy > 0.9
        assert voted.record.rounds[-1].consensus_accuracy < 0.6
        assert found.record.consensus_rule == "density-ratio"
        assert "of the public rows look like private rows" in found.record.consensus_reason
        assert voted.record.consensus_rule == ""
        for one in found.record.parties:
            assert one.public_fit > 0.2
            assert 0 <= one.trust <= 1
            assert one.federated["common"].accuracy > one.solo["common"].accuracy + 0.3
        # later rounds send only what changed, and parties that lost their state all of it again
        first, _, third = found.record.rounds
        assert third.bytes_up < first.bytes_up
        lost = self.run(self.members(), stop_when_converged=False)
        assert (lost.exchange.consensus == found.exchange.consensus).all()
        assert all(r.rejected == [] for r in (*found.record.rounds, *lost.record.rounds))

    def test_public_rows_from_elsewhere_fall_back_to_labels_and_ask_for_no_more_ratios(self):
        far = public_set()
        far = dataclasses.replace(far, X=far.X + 40, fingerprint="cd" * 32)
        strategy = FedCT(config=FedCTConfig(seed=1, nodes_stable_s=1e-6), public=far)
        grid = fedct_grid(self.members(public=far))
        strategy.start(grid, num_rounds=2)
        assert strategy.record.consensus_rule in ("majority", "dawid-skene")
        assert "Only 0 % of the public rows look like private rows" in strategy.record.consensus_reason
        asked = ["rule" in m.content.config_records["config"] for m in grid.sent if "train" in str(m.metadata)]
        assert asked[:3] == [True] * 3
        assert not any(asked[3:])


@pytest.mark.parametrize("mechanism", ["randomized-response", "none"])
def test_a_party_without_a_label_on_a_row_is_left_out_beside_noise_alone_and_ends_no_run(mechanism):
    """Randomised response gives every row a class, and the estimate of the true counts rests on that."""

    def tamper(i, reply):
        if i == 0 and reply.metadata.message_type == "train":
            spec = PublicSpec(num_public=60, num_classes=3, fingerprint=public_set().fingerprint)
            labels = np.full((1, 60), ABSTAIN, np.int16)
            (record,) = reply.content.array_records.values()
            record["labels"] = Array(encode_labels(labels, public=spec, server_round=1))
        return reply

    noise = {} if mechanism == "none" else {"label_mechanism": mechanism, "noise_strength": 3.0}
    strategy, _ = run_fedct(parties(4), rounds=1, tamper=tamper, consensus="majority", **noise)
    (only,) = strategy.record.rounds
    left_out = [(r.party, r.code) for r in only.rejected]
    assert left_out == ([("party-000", "class-out-of-range")] if noise else [])
