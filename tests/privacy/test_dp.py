"""dp-accounting is a quarter of a party's start, so it waits until somebody needs it."""

import subprocess
import sys

SCRIPT = """
import sys
from fedkd_flwr.privacy import dp
assert "dp_accounting" not in sys.modules
assert dp.NoOpDpEvent is sys.modules["dp_accounting"].NoOpDpEvent
"""


def test_dp_accounting_is_imported_once_a_name_of_it_is_used_and_not_before():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
