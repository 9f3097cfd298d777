"""Parties here compute in processes of their own."""

import pytest

from fedkd_flwr.models.serialize import import_skops


@pytest.fixture(autouse=True, scope="session")
def _imported_once():
    """Import what writes a model: each party's own process is a fork of this one, and would import it anew."""
    import_skops()
