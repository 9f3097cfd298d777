import logging

from fedkd_flwr.app.captured_log import captured_log


def test_messages_are_collected_not_printed_and_loggers_are_afterwards_as_before(capsys):
    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate) for one in loggers]
    with captured_log() as said:
        loggers[1].error("lost")
        loggers[0].warning("of Flower")
    assert said == ["lost", "of Flower"]
    assert capsys.readouterr() == ("", "")
    assert [(one.handlers, one.propagate) for one in loggers] == before
