"""The rows that ``fedkd settings`` prints."""

from fedkd_flwr.settings.listing import node_settings, run_settings


def test_each_setting_is_there_once_24_of_a_run_and_11_of_a_node_first_and_those_of_papers_last():
    assert sum(row.first for row in run_settings()) == 24
    assert sum(row.first for row in node_settings()) == 11
    keys = [row.key for row in run_settings()]
    assert len({*keys}) == len(keys) <= 95
    papers = [key.startswith("paper.") for key in keys]
    assert papers == sorted(papers)
    assert any(papers)


def test_each_description_stands_alone():
    for row in [*run_settings(), *node_settings()]:
        assert row.meaning.split()[0] not in {"Its", "Their", "They", "Those", "These", "It", "Of", "As"}, row
