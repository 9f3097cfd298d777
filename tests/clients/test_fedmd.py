"""FedMD at a party: what a net is taught in each round, and in which order."""

import numpy as np
import pytest
from score_runs import mean_of_local_nets, members, run

from fedkd_flwr.clients import FedMDClient
from fedkd_flwr.wire.score_codec import decode_rows


class Watched(FedMDClient):
    """Writes down what a net is taught, in order."""

    log: list[tuple[int, str, object]]

    def improve(self, model, X, y, lesson, instruction):
        asked = decode_rows(instruction.arrays["previous"], num_public=self.party.public.num_rows)
        assert np.array_equal(lesson.X, self.party.public.X[asked])
        watched, log, at = Spy(model), Watched.log, instruction.server_round
        super().improve(watched, X, y, lesson, instruction)
        log += [(at, what, asked.tolist() if what == "digest" else None) for what in watched.calls]


class Spy:
    def __init__(self, net):
        self.net, self.calls = net, []

    def digest(self, *args, **keywords):
        self.calls.append("digest")
        self.net.digest(*args, **keywords)

    def train_epochs(self, *args, **keywords):
        self.calls.append("revisit")
        self.net.train_epochs(*args, **keywords)


def test_each_round_digests_the_last_round_s_rows_and_then_revisits(tmp_path):
    """One published port digests the first subset for ever, another revisits first."""
    pytest.importorskip("torch")
    Watched.log = []
    strategy, _ = run(members(state=tmp_path), client=Watched, rounds=3, public_rows_per_round=20)
    per_party = Watched.log
    digested = [(at, asked) for at, what, asked in per_party if what == "digest"]
    expected = {2: 1, 3: 2}
    for at, asked in digested:
        last = expected.get(at, 2) if (at, asked) != (3, strategy.exchange.rows(3).tolist()) else 3
        assert asked == strategy.exchange.rows(last).tolist()
    # rounds 2 and 3 at both parties, and the end, which digests round 3
    assert sorted(at for at, _ in digested) == [2, 2, 3, 3, 3, 3]
    assert sum(asked == strategy.exchange.rows(3).tolist() for _, asked in digested) == 2
    assert len({tuple(strategy.exchange.rows(i)) for i in (1, 2, 3)}) == 3
    assert [what for _, what, _ in per_party] == ["digest", "revisit"] * 6


def test_the_very_last_revisit_alone_can_be_left_out(tmp_path):
    pytest.importorskip("torch")
    Watched.log = []
    run(members(state=tmp_path), client=Watched, rounds=2, public_rows_per_round=20, final_own_rows=False)
    # round 2 at both parties, then the end at both
    assert [what for _, what, _ in Watched.log] == ["digest", "revisit"] * 2 + ["digest"] * 2


def test_one_round_without_revisit_or_digest_is_local_training(tmp_path):
    """The first answers are those of a net that saw its own rows for T1 epochs."""
    pytest.importorskip("torch")
    held = members(state=tmp_path)
    strategy, _ = run(held, rounds=1, answer_form="logits")
    learn = lambda net, one: net.train_epochs(one.X, one.y, epochs=3)  # noqa: E731
    alone = mean_of_local_nets(held, strategy.exchange.average_rows, learn)
    assert np.allclose(strategy.exchange.average, alone, atol=1e-6)
