"""Records of parties that were measured."""

from fedkd_flwr.record.run_record import RunRecord


def record_of(solo=(), federated=(), *, rows="common", **fields):
    """Return the record of parties p0, p1 and so on with these metrics, alone and with the federation, on such rows."""
    record = RunRecord(**{"run_id": "7", "algorithm": "fedct", **fields})
    for kind, found in (("solo", solo), ("federated", federated)):
        for i, one in enumerate(found):
            getattr(record.party(f"p{i}"), kind)[rows] = one
    return record
