"""SCAFFOLD: whole rounds in process, what the controls do, and what a party keeps."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from rounds import codes, make, members, net, run, same

from fedkd_flwr.baselines.scaffold import aggregate, next_control
from fedkd_flwr.errors import ConfigError

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return two rounds of parties that keep their controls, and their replies."""
    return run("scaffold", rounds=2, held=members(3, "scaffold", state=tmp_path_factory.mktemp("state")))


def test_with_zero_controls_a_round_is_that_of_fedavg_with_equal_parties():
    scaffold, _ = run("scaffold", rounds=1)
    fedavg, _ = run("fedavg", rounds=1)
    for one, other in zip(scaffold.model.arrays(), fedavg.model.arrays(), strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_the_second_round_is_corrected_and_a_party_without_memory_says_so(kept):
    forgetful, _ = run("scaffold", rounds=2, held=members(3, "scaffold"))
    assert not same(forgetful.model.arrays(), kept[0].model.arrays())
    assert {tuple(note.code for note in p.notes) for p in forgetful.record.parties} == {("state-lost",)}
    assert {tuple(p.notes) for p in kept[0].record.parties} == {()}


def test_a_party_goes_on_from_the_control_that_the_server_counted(tmp_path):
    """Party 1's first reply is spoilt on its way, so in the second round it starts from the control of before: zero."""
    spoilt = []

    def tamper(index, reply):
        if index == 1 and reply.metadata.message_type == "train" and not spoilt:
            spoilt.append(reply)
            reply.content["arrays"] = ArrayRecord({"model.0": Array(np.zeros(1, np.float32))})
        return reply

    held = members(3, "scaffold", state=tmp_path, keep_state=True)
    strategy, _ = run("scaffold", rounds=2, held=held, tamper=tamper)
    assert codes(strategy) == {"party-001": "bad-payload"}
    before = [one.state.load().arrays["kept.before.0"] for one in held]
    assert [bool(array.any()) for array in before] == [True, False, True]


@pytest.mark.parametrize("params", [{"optimizer": "adam"}, {"momentum": 0.9}])
def test_a_net_with_another_optimiser_is_refused_at_the_server_and_at_a_party(params):
    def other(*, seed):
        return net(seed=seed, **params)

    with pytest.raises(ConfigError, match=r"optimiser must be sgd without momentum.*optimizer='sgd', momentum=0"):
        make("scaffold", global_model=other)
    held = members(3, "scaffold")
    strategy, _ = run("scaffold", rounds=1, held=[*held[:2], replace(held[2], model=other)])
    assert codes(strategy) == {"party-002": "wrong-config"}


@pytest.mark.parametrize("part", ["model", "control"])
def test_arrays_that_do_not_fit_are_left_out(part):
    def tamper(index, reply):
        if index == 0 and reply.metadata.message_type == "train":
            reply.content["arrays"][f"{part}.0"] = Array(np.zeros((1, 2), np.float32))
        return reply

    strategy, _ = run("scaffold", rounds=1, tamper=tamper)
    assert codes(strategy) == {"party-000": "wrong-weights"}


def arrays(values):
    return [np.array([value], dtype=np.float32) for value in values]


def test_a_party_s_next_control_is_the_mean_gradient_of_its_steps():
    gradients, rate = [0.5, -2.0, 3.0], 0.1
    control, servers, weight = 0.25, -0.5, 1.0
    for gradient in gradients:
        weight -= rate * (gradient - control + servers)
    found = next_control(arrays([control]), arrays([servers]), arrays([1.0]), arrays([weight]), steps=3, rate=rate)
    assert found[0].dtype == np.float32
    assert np.allclose(found[0], np.mean(gradients), atol=1e-5)


def test_each_weight_of_an_array_is_averaged_over_parties_alone():
    start = [np.zeros((2, 2), dtype=np.float32)]
    replies = [([start[0] + [[1, 2], [3, 4]]], [start[0] + one]) for one in ([[0, 4], [0, 0]], [[2, 0], [0, 8]])]
    moved, control = aggregate(start, start, replies, num_parties=4)
    assert moved[0].dtype == control[0].dtype == np.float32
    assert moved[0].tolist() == [[1, 2], [3, 4]]
    assert control[0].tolist() == [[0.5, 1], [0, 2]]
