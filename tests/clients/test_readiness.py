"""What a party says before the first round."""

import numpy as np
import pytest
from federation import party, rows
from visits import CONFIG

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.errors import Code, LimitError


@pytest.mark.parametrize("mechanism", ["none", "randomized-response"])
def test_a_rehearsal_tells_of_a_limit_that_private_rows_may_have_passed_only_where_nothing_is_claimed(mechanism):
    def too_much(work, *, parts=1):  # the process that tries the model is a copy of this one, with all private rows
        raise LimitError("memory")

    noise = {"label_mechanism": mechanism, "noise_strength": 1.0} if mechanism != "none" else {}
    told = {**CONFIG, **FedCTConfig(**noise).told()}
    usual = FedCTClient(party("a", *rows(20, seed=0))).rehearse(told)
    arrays, count, said = FedCTClient(party("a", *rows(20, seed=0), apart=too_much)).rehearse(told)
    if mechanism == "none":
        assert (arrays, count, said["code"]) == ([], 0, Code.LIMIT_EXCEEDED)
    else:
        np.testing.assert_array_equal(arrays, usual[0])
        assert (count, said) == usual[1:]
