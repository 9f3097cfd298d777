"""DS-FL at a party."""

from score_runs import members, run


def test_a_party_of_ds_fl_answers_as_one_of_fedmd_because_only_the_server_s_average_differs(tmp_path):
    answers = {}
    for name in ("fedmd", "dsfl"):
        held = members(name=name, state=tmp_path / name)
        _, grid = run(held, name, rounds=1, initial_epochs=2)
        sent = [reply.content.array_records["arrays"]["probs"].numpy().tobytes() for reply in grid.replies[:2]]
        answers[name] = sent
    assert answers["fedmd"] == answers["dsfl"]
