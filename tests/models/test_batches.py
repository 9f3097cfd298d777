"""In which batches rows are shown."""

import pytest

torch = pytest.importorskip("torch")

from fedkd_flwr.models._batches import epochs_of, mixed  # noqa: E402  # after the skip


def test_an_epoch_shows_every_row_once():
    rows = torch.arange(10.0).reshape(10, 1)
    batches = list(epochs_of(rows, torch.zeros(10), epochs=3, batch_size=4))
    assert [len(y) for _, y in batches] == [4, 4, 2] * 3
    for epoch in range(3):
        seen = torch.cat([X for X, _ in batches[3 * epoch : 3 * epoch + 3]]).ravel()
        assert sorted(seen.tolist()) == list(range(10))
    assert len(list(epochs_of(rows, torch.zeros(10), epochs=3, batch_size=4, max_steps=4))) == 4


def test_public_rows_are_all_used_before_one_returns():
    own = torch.full((2, 1), -1.0), torch.zeros(2)
    public = torch.arange(20.0).reshape(20, 1), torch.zeros(20)
    seen = torch.cat([public[0] for _, public in mixed([own, public], [4, 4], 5)]).ravel()
    assert sorted(seen.tolist()) == list(range(20))
