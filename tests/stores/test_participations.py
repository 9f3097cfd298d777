"""Counting who was asked, over runs, also where a node never said its name."""

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.files import write_sealed
from fedkd_flwr.stores.participations import Participations


def test_what_is_saved_is_loaded(tmp_path):
    counts = Participations(by_party={"b": 2, "a": 1}, unnamed=3, several=frozenset({"b"}))
    counts.save(tmp_path)
    assert Participations.load(tmp_path) == counts


def test_a_party_not_named_before_may_have_been_the_nameless_one():
    earlier = Participations(by_party={"a": 4}, unnamed=2)
    assert [earlier.before(name) for name in ("a", "b", "")] == [4, 2, 4]
    assert earlier.plus([("b", 1)]).by_party == {"a": 4, "b": 3}
    assert earlier.most == 4


def test_a_nameless_node_may_be_the_party_asked_most_often():
    assert Participations(by_party={"a": 4}).plus([("", 3)]).most == 7
    assert Participations(by_party={"a": 4}).plus([("", 0)]).unnamed == 0


def test_a_party_that_two_nodes_spoke_for_is_remembered_as_such():
    counts = Participations().plus([("a", 1), ("b", 1), ("a", 1)])
    assert (counts.by_party, counts.several) == ({"a": 2, "b": 1}, {"a"})
    assert counts.with_count("b", 5).plus([("b", 1)]).several == {"a"}


def test_nobody_asked_is_nothing_spent():
    assert Participations().most == 0
    assert Participations().plus([]) == Participations()


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"unnamed": True},
        {"parties": {"a": -1}},
        {"parties": []},
        {"several": 1},
        {"more": 0},
    ],
    ids=str,
)
def test_other_counts_are_refused_with_a_way_out(tmp_path, changed):
    write_sealed(tmp_path / "participations.json", {**Participations().as_dict(), **changed})
    with pytest.raises(DataError, match=r"participations .* must be whole, got .*Restore it beside the checkpoint"):
        Participations.load(tmp_path)


def test_one_changed_digit_is_refused(tmp_path):
    Participations(by_party={"a": 10}, unnamed=3).save(tmp_path)
    path = tmp_path / "participations.json"
    for old, new in ((b":10", b":20"), (b":3", b":4")):
        text = path.read_bytes()
        path.write_bytes(text.replace(old, new))
        with pytest.raises(DataError, match="got other content than its digest was made of"):
            Participations.load(tmp_path)
        path.write_bytes(text)


def test_counts_that_forget_a_party_are_told_from_those_that_do_not():
    settled = Participations(by_party={"a": 2}, unnamed=1)
    assert Participations(by_party={"a": 2, "b": 9}, unnamed=1).below(settled) == ""
    assert Participations(by_party={"a": 1}, unnamed=1).below(settled) == "a"
    assert Participations(unnamed=1).below(settled) == "a"
    assert Participations(by_party={"a": 2}).below(settled) == "a party without a name"
