"""What every exchange of labels has in common at the server: bases, what is read of a reply, what the record says."""

import numpy as np
import pytest
from federation import public_set

from fedkd_flwr.algorithms.exchange import VoteFacts
from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies import FedCT, FedCTConfig, PartyLabels
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels, encode_labels
from fedkd_flwr.wire.records import Reply


def _strategy(count=4, **settings):
    return FedCT(config=FedCTConfig(**settings), public=public_set(count))


def _answers(*labels, changed=None):
    return [PartyLabels(party=str(i), labels=np.array([one], np.int16), changed_share=changed)
            for i, one in enumerate(labels)]  # fmt: skip


def test_nothing_goes_out_before_the_first_consensus_and_labels_with_abstentions_after_it():
    strategy = _strategy()
    assert strategy.exchange.outgoing("fit", 1) == {}
    strategy.exchange.consensus = np.array([0, ABSTAIN, 2, 1], dtype=np.int16)
    sent = strategy.exchange.outgoing("fit", 2)["labels"]
    assert decode_labels(sent, public=strategy.exchange.spec, server_round=2).tolist() == [[0, -1, 2, 1]]


def test_bits_are_zero_or_one_in_every_place():
    strategy = _strategy(label_mechanism="xor", noise_strength=2.0)
    spec = PublicSpec(num_public=12, num_classes=2, fingerprint=strategy.exchange.spec.fingerprint)
    for bits, good in ((np.zeros((1, 12), np.int16), True), (np.full((1, 12), ABSTAIN, np.int16), False)):
        reply = Reply(node_id=1, party="a", arrays={"bits": encode_labels(bits, public=spec, server_round=1)})
        if good:
            assert strategy.exchange.read(reply, 1).labels.tolist() == bits.tolist()
        else:
            with pytest.raises(PayloadError, match="bits must be 0 or 1, got -1") as caught:
                strategy.exchange.read(reply, 1)
            assert caught.value.reason == "class-out-of-range"


def test_the_record_says_how_much_is_labelled_agreed_and_changed():
    strategy, this = _strategy(consensus="qualified-majority", quorum=1.0), RoundRecord(server_round=2)
    strategy.roster.nodes = [1, 2, 3]
    result = strategy.exchange.combine_answers(2, _answers([0, 1, 2, 0], [0, 1, 2, 1], changed=0.25), this)
    assert result["labels"].numpy().tolist() == strategy.exchange.consensus.tolist() == [0, 1, 2, ABSTAIN]
    assert (this.labelled_share, this.agreement, this.changed_share) == (0.75, 1.0, 0.25)
    truth = public_set(4).y[:3]
    assert this.consensus_accuracy == pytest.approx((truth == [0, 1, 2]).mean())


def test_a_consensus_that_is_none_is_refused():
    strategy = FedCT(config=FedCTConfig(), public=public_set(4))
    strategy.exchange.combine = lambda *_: np.array([0, 1, 2, 3], dtype=np.int16)
    with pytest.raises(DataError, match=r"consensus must lie within -1\.\.2, got 3"):
        strategy.exchange.combine_answers(1, [], RoundRecord(server_round=1))


def test_parties_that_tell_no_classes_apart_are_named_in_the_first_round_alone():
    strategy = _strategy()
    blind = _answers([0, 1, 2, 0], [0, 1, 2, 0], [1, 1, 1, 1])
    strategy.exchange.combine(2, blind, RoundRecord(server_round=2))
    assert strategy.record.notes == []
    strategy.exchange.combine(1, blind, RoundRecord(server_round=1))
    said = {"parties": {"2": "green"}, "of": 3, "weight": 0.0, "bounded": False}
    assert strategy.record.notes == [Note(NoteCode.ONE_CLASS_VOTES, said)]


def test_a_class_that_the_vote_loses_is_noted_once_with_advice_that_this_algorithm_can_take():
    strategy = _strategy(consensus="majority")
    answers = _answers([0, 1, 2, 1], [0, 1, 0, 1], [0, 1, 1, 1])
    strategy.exchange.combine(1, answers, RoundRecord(server_round=1))
    lost, way_out = strategy.record.notes
    assert lost == Note(NoteCode.CLASS_OF_ONE_PARTY, {"class": "blue", "rows": 1, "party": "0", "kept": None})
    assert way_out.code == NoteCode.TRY_CONSENSUS


def test_of_rows_that_were_not_asked_nothing_is_noted():
    strategy = _strategy()
    answers = _answers([0, 1, 2, 1], [0, 1, 2, 1], [0, 1, 1, 1])
    facts, vote = VoteFacts(class_voters=np.array([3, 3, 2])), np.array([0, 1, ABSTAIN, 1], np.int16)
    strategy.exchange.note_votes(facts, answers, vote, np.array([0, 1, 3]))
    assert strategy.record.notes[0] == Note(NoteCode.UNKNOWN_CLASSES, {"classes": ["blue"]})
    strategy.exchange.note_votes(VoteFacts(class_voters=None), answers, vote)  # the parties' noise gives every class
    assert len(strategy.record.notes) == 1 + (strategy.record.notes[-1].code == NoteCode.TRY_CONSENSUS)


def _told(config, count=60):
    """Return the record of a vote of four parties, the last of which swaps the classes."""
    strategy = FedCT(config=config, public=public_set(count))
    rng, truth = np.random.default_rng(2), np.arange(count) % 2
    said = [np.where(rng.random(count) < 0.9, truth, 1 - truth) for _ in range(3)]
    this = RoundRecord(server_round=1)
    strategy.exchange.combine_answers(1, _answers(*said, 1 - truth), this)
    return strategy.record


def test_a_liar_is_named_by_agreement_and_counts_nothing():
    record = _told(FedCTConfig(consensus="majority"))
    *honest, liar = record.parties
    assert all(p.agreement > 0.8 and p.trust == 1.0 and not p.notes for p in honest)
    assert (liar.agreement, liar.trust) == (pytest.approx(0.05, abs=0.1), pytest.approx(0.0, abs=0.01))
    assert [note.code for note in liar.notes] == [NoteCode.DISAGREES]
    assert liar.class_agreement[:2] == pytest.approx([liar.agreement] * 2, abs=0.1)
    assert np.isnan(liar.class_agreement[2])  # no row of the consensus has this class
    assert all(not p.notes for p in record.publishable().parties)
    assert all(p.agreement is None for p in record.publishable().parties)


def test_without_trust_nobody_is_accused():
    record = _told(FedCTConfig(consensus="majority", distrust="none"))
    assert all(p.trust is None and not p.notes for p in record.parties)
    assert record.parties[-1].agreement < 0.3
