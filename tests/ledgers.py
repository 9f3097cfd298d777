"""Ledgers and entries for tests."""

import contextlib
import sqlite3
from datetime import UTC, datetime

import dp_accounting as dp
import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.entry import Entry, plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Ledger
from fedkd_flwr.privacy.ledger.rows import RowTable
from fedkd_flwr.stores.book import changed
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DIGEST = "ab" * 32
TABLE = RowTable().with_data_set(DIGEST, "test rows", np.arange(1, 8, dtype=np.uint64))
ONE_LABEL = ((PureEvent(0.4), 1),)
NON_PRIVATE = dp.NonPrivateDpEvent()


def make_entry(server_round=1, *, run_id="r1", events=ONE_LABEL, **changes):
    values = {
        "run_id": run_id,
        "server_round": server_round,
        "algorithm": "fedct",
        "mechanism": "randomised response, epsilon 0.4 a label",
        "unit": "record",
        "adversary": "server",
        "neighbouring_relation": "replace one record",
        "events": plain_events(events),
        "when": "2029-12-31T10:00:00+00:00",
        "reply_digest": "0" * 64,
        "data": DIGEST,
    }
    return Entry(**{**values, **changes})


def make_ledger(*entries, party="party-000"):
    return Ledger(party=party, data_digest=DIGEST, entries=entries)


def past(*rounds, party="party-000", **changes):
    """Return a ledger of rounds long ago."""
    return make_ledger(*(make_entry(i, when="2020-01-01T10:00:00+00:00", **changes) for i in rounds), party=party)


def gaussian(noise):
    return dp.GaussianDpEvent(noise)


def full_ledger():
    events = [(PureEvent(0.1), 3), (gaussian(7.5), 2)]
    return make_ledger(make_entry(1, events=events), make_entry(2), make_entry(1, run_id="r2"))


def write_ledger(folder, ledger):
    """Write a ledger to a folder, as `LedgerStore` keeps it."""
    with changed(folder, party=ledger.party, timeout_s=1.0) as book:
        book.put("rows", TABLE.to_bytes())
        for entry in ledger.entries:
            book.add(entry, None, kept=3)
    return folder


def make_store(root, party="a", digest=DIGEST, **options):
    """Return a ledger's store in a folder."""
    return LedgerStore(root, party=party, data_digest=digest, **options)


def make_reply(seed=0):
    labels = np.random.default_rng(seed).integers(0, 10, (1, 50), dtype=np.int16)
    return StoredReply(arrays={"labels": labels}, metrics={"party": "a", "number": seed})


def charge(store, server_round=1, *, run_id="r1", epsilon=0.4, **changes):
    """Charge for a reply, by default that of its round."""
    values = {
        "run_id": run_id,
        "server_round": server_round,
        "algorithm": "fedct",
        "mechanism": "randomised response",
        "unit": "record",
        "adversary": "server",
        "neighbouring_relation": "replace one record",
        "events": [(PureEvent(epsilon), 1)],
        "reply": make_reply(server_round),
        "budget": Budget(),
    }
    return store.charge(**{**values, **changes})


def same(one, other):
    assert one.to_bytes() == other.to_bytes()


def refused_as_lost(call, message):
    with pytest.raises(DataError, match=message) as caught:
        call()
    assert caught.value.code is Code.LEDGER_LOST


def three(root):
    """Charge three rounds; return another store of the same ledger."""
    for server_round in (1, 2, 3):
        charge(make_store(root), server_round)
    return make_store(root)


def edited(path, *statements):
    """Change a ledger's file as somebody who can write SQL would."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
