"""What privacy calls `dp` is dp-accounting; that it is imported late, `test_imports` says."""

import dp_accounting

from fedkd_flwr.privacy import dp


def test_a_name_is_dp_accounting_s_own():
    assert dp.NoOpDpEvent is dp_accounting.NoOpDpEvent
