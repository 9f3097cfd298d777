"""FedMD's settings: its usual loss, and what its parties are told; the average is tested in test_score_exchange.py."""

import pytest

from fedkd_flwr.algorithms.fedmd import FedMDConfig


@pytest.mark.parametrize(
    ("form", "loss"), [("softmax", "cross-entropy"), ("argmax", "cross-entropy"), ("logits", "l1-logits")]
)
def test_its_usual_loss_fits_what_is_sent(form, loss):
    assert FedMDConfig(answer_form=form).loss == loss


def test_parties_are_told_how_long_to_learn_and_nothing_that_the_server_alone_does():
    told = FedMDConfig().told()
    assert {"initial-epochs", "distillation-epochs", "own-rows-epochs"} <= told.keys()
    assert not {"public-rows-per-round", "weighting"} & told.keys()
