from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from fedkd_flwr.errors import PayloadError
from fedkd_flwr.labels import Consensus, ConsensusRule
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.wire.answer_codec import decode_answer, encode_answer
from fedkd_flwr.wire.envelope import PublicSpec

AT = {"public": PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32), "server_round": 2, "base": {}}
LABELS = np.array([[0, 1, 2, -1]], dtype=np.int16)


class TwoNeeds(ConsensusRule):
    """A toy that needs two arrays in each answer and one in the first."""

    name: ClassVar[str] = "two-needs"
    needs: ClassVar[tuple[str, ...]] = ("first", "second", "sizes")
    once: ClassVar[tuple[str, ...]] = ("sizes",)

    def combine(self, ballot, *, config, rng) -> Consensus:
        """Return the first party's labels."""
        return Consensus(ballot.labels[0][0])


def test_labels_alone_come_back_and_nothing_that_nobody_asked_for():
    sent = encode_answer({"labels": LABELS, "first": np.ones(4)}, **AT)
    assert list(sent) == ["labels"]
    found = decode_answer({**sent, "first": np.ones(4)}, num_arrays=1, **AT)
    assert list(found) == ["labels"]
    assert (found["labels"] == LABELS).all()


def test_what_a_rule_without_a_codec_needs_travels_as_it_is():
    rule, values = TwoNeeds(), {"labels": LABELS, "first": np.ones(4), "second": np.zeros(2), "other": np.zeros(1)}
    sent = encode_answer(values, rule=rule, **AT)
    assert set(sent) == {"labels", "first", "second"}
    found = decode_answer(sent, rule=rule, num_arrays=1, **AT)
    assert {name: array.tolist() for name, array in found.items() if name != "labels"} == {
        "first": [1.0] * 4,
        "second": [0.0] * 2,
    }
    with pytest.raises(PayloadError, match=r"reply must hold first, second, sizes for two-needs, got no second"):
        decode_answer({name: sent[name] for name in ("labels", "first")}, rule=rule, num_arrays=1, **AT)


@pytest.mark.parametrize("rule", [TwoNeeds(), RULES["density-ratio"]])
def test_without_the_first_of_a_rule_s_needs_an_answer_is_one_of_labels_alone(rule):
    sent = encode_answer({"labels": LABELS}, **AT)
    odd = {name: np.ones(3) for name in rule.needs[1:]}
    assert list(decode_answer({**sent, **odd}, rule=rule, num_arrays=1, **AT)) == ["labels"]


def test_a_reply_without_labels_is_refused():
    with pytest.raises(PayloadError, match="no labels in the reply"):
        decode_answer({"first": np.ones(4)}, rule=TwoNeeds(), num_arrays=1, **AT)
