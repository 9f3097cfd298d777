import logging

from fedkd_flwr.app.captured_log import captured_log


def test_what_was_named_is_heard_from_its_level_on_and_nothing_is_printed(capsys):
    party = logging.getLogger("flwr.party")
    with captured_log("flwr.party", level=logging.ERROR) as said:
        party.error("lost")
        party.info("trained")
        logging.getLogger("flwr").error("of Flower")
    assert said == ["lost"]
    assert capsys.readouterr() == ("", "")


def test_loggers_are_afterwards_as_before():
    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    with captured_log():
        assert [(one.handlers, one.propagate, one.level) for one in loggers] != before
    assert [(one.handlers, one.propagate, one.level) for one in loggers] == before
