"""The rows that ``fedkd settings`` prints."""

from fedkd_flwr.settings.listing import node_settings, run_settings


def test_24_settings_of_a_run_and_11_of_a_node_are_shown_first():
    assert sum(row.first for row in run_settings()) == 24
    assert sum(row.first for row in node_settings()) == 11


def test_there_are_at_most_95_settings_of_a_run():
    assert len(run_settings()) <= 95


def test_each_description_stands_alone():
    for row in [*run_settings(), *node_settings()]:
        assert row.meaning.split()[0] not in {"Its", "Their", "They", "Those", "These", "It", "Of", "As"}, row


def test_each_setting_is_there_once_and_those_of_papers_come_last():
    keys = [row.key for row in run_settings()]
    assert len({*keys}) == len(keys)
    papers = [key.startswith("paper.") for key in keys]
    assert papers == sorted(papers)
    assert any(papers)
