"""Messages as they leave: a record of its own for each party."""

from federation import fedct_grid, parties, quick_fedct


def test_each_party_gets_a_record_of_its_own():
    grid = fedct_grid(parties(3))
    quick_fedct().start(grid, num_rounds=1)
    contents = [id(m.content) for m in grid.sent]
    assert len(set(contents)) == len(contents)
