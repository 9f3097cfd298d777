"""What stands beside the core is found by import strings, so each of them must name something."""

import pytest

from fedkd_flwr import registry

STRINGS = {name: getattr(registry, name) for name in registry.__all__ if isinstance(getattr(registry, name), str)}


@pytest.mark.parametrize("name", [*STRINGS.values(), *dict.fromkeys(registry.COMMANDS.values())])
def test_an_import_string_names_what_can_be_called(name):
    if name == registry.TEXT_MODEL:
        pytest.importorskip("transformers")
    assert callable(registry.load(name))


def test_every_command_stands_under_one_task_and_each_group_of_commands_says_what_it_is_about():
    listed = [word for words in registry.TASKS.values() for word in words]
    assert sorted(listed) == sorted({words.split()[0] for words in registry.COMMANDS})
    assert set(registry.GROUPS) == {words.rpartition(" ")[0] for words in registry.COMMANDS} - {""}
