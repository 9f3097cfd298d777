"""A run is submitted to a SuperLink of silos: Flower is believed only where it says that it succeeded."""

import pytest

from fedkd_flwr.app import submit
from fedkd_flwr.cli.main import main


class Answer:
    """What ``flwr`` printed."""

    def __init__(self, stdout, stderr=""):
        self.stdout, self.stderr = stdout, stderr


def test_flower_is_believed_only_if_it_says_that_it_succeeded():
    said = submit.flower("run", run=lambda *_, **__: Answer('Starting...\n{"success": true, "run-id": "7"}\n'))
    assert said["run-id"] == "7"
    with pytest.raises(submit.FlowerError, match=r"flwr run must be accepted by Flower, got .*no such SuperLink"):
        submit.flower("run", run=lambda *_, **__: Answer('{"success": false, "error-message": "no such SuperLink"}'))
    # as `flwr stop` of Flower 1.41 prints it for a run that has ended
    refused = "Using SuperLink: ops (10.0.0.7:9093)\\n Stopping run ID 7...\\n\\n[code: 18] Run is already finished."
    with pytest.raises(submit.FlowerError, match=r"flwr stop must .*, got an error: Run is already finished\. `flwr"):
        submit.flower("stop", run=lambda *_, **__: Answer(f'{{"success": false, "error-message": "{refused}"}}\n'))
    with pytest.raises(submit.FlowerError, match="nothing listens"):
        submit.flower("run", run=lambda *_, **__: Answer("", "\x1b[31mError: nothing listens\x1b[0m"))


def test_ctrl_c_while_a_run_is_submitted_says_how_to_learn_whether_it_was(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "submit", interrupted)
    with pytest.raises(SystemExit) as caught:
        main(["server", "run", "--superlink", "ops"])
    assert caught.value.code == 130
    assert "Perhaps submitted, perhaps not: `flwr list ops`" in capsys.readouterr().err
