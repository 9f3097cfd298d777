"""A server's state after a round: read back as it was written, or said to be missing or damaged."""

import stat

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.files import write_sealed
from fedkd_flwr.stores.checkpoints import Lineage, Participations


def test_a_lineage_is_read_back_and_a_damaged_one_refused(tmp_path):
    second = Lineage.new("7").then("8")
    second.save(tmp_path)
    assert Lineage.load(tmp_path) == second
    path = tmp_path / "lineage.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes().replace(b'"finished":false', b'"finished":true '))
    with pytest.raises(DataError, match=r"lineage .* must be whole, got other content than its digest was made of"):
        Lineage.load(tmp_path)
    write_sealed(path, {"version": 2, "runs": ["7"], "secret": "00" * 32, "finished": False, "released": False})
    with pytest.raises(DataError, match=r"lineage .* must be whole.*Restore it beside the checkpoint"):
        Lineage.load(tmp_path)


def test_what_is_saved_is_loaded(tmp_path):
    for kind in (Participations, Lineage):
        with pytest.raises(DataError, match=r"must be whole, got No such file.*Restore it beside"):
            kind.load(tmp_path)
    counts = Participations(by_party={"b": 2, "a": 1}, unnamed=3, several=frozenset({"b"}))
    counts.save(tmp_path)
    assert Participations.load(tmp_path) == counts


def test_a_nameless_node_may_be_any_party_and_one_that_two_nodes_spoke_for_is_remembered_as_such():
    earlier = Participations(by_party={"a": 4}, unnamed=2)
    assert [earlier.before(name) for name in ("a", "b", "")] == [4, 2, 4]
    assert earlier.plus([("b", 1)]).by_party == {"a": 4, "b": 3}
    assert [Participations(by_party={"a": 4}).plus([("", asked)]).unnamed for asked in (0, 3)] == [0, 7]
    counts = Participations().plus([("a", 1), ("b", 1), ("a", 1)])
    assert (counts.by_party, counts.several) == ({"a": 2, "b": 1}, {"a"})
    assert counts.with_count("b", 5).plus([("b", 1)]).several == {"a"}


@pytest.mark.parametrize(
    "changed", [{"unnamed": True}, {"by_party": {"a": -1}}, {"by_party": []}, {"several": 1}, {"more": 0}], ids=str
)
def test_other_counts_are_refused_with_a_way_out(tmp_path, changed):
    write_sealed(tmp_path / "participations.json", {**Participations().model_dump(mode="json"), **changed})
    with pytest.raises(DataError, match=r"participations .* must be whole, got .*Restore it beside the checkpoint"):
        Participations.load(tmp_path)


def test_counts_that_forget_a_party_are_told_from_those_that_do_not():
    settled = Participations(by_party={"a": 2}, unnamed=1)
    assert Participations(by_party={"a": 2, "b": 9}, unnamed=1).below(settled) == ""
    assert Participations(by_party={"a": 1}, unnamed=1).below(settled) == "a"
    assert Participations(unnamed=1).below(settled) == "a"
    assert Participations(by_party={"a": 2}).below(settled) == "a party without a name"
