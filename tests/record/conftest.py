"""A record of a failed run, with something in every part."""

import pytest

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import PartyRecord, Rejection, RoundRecord, RunRecord


@pytest.fixture
def record():
    return RunRecord(
        run_id="7",
        algorithm="fedct",
        status="failed",
        reason="party-b has 3 rows",
        config={"quorum": 0.9, "data-root": "/home/ann/Data Sets/adult.csv", "vote": "majority"},
        seconds=9.0,
        startup_seconds=3.0,
        server_model="forest ~/runs/7/model.skops",
        server={"common": Metrics(n=2000, accuracy=0.8)},
        centralised={"common": Metrics(n=2000, accuracy=0.9)},
        rounds=[
            RoundRecord(
                server_round=1,
                asked=2,
                answered=["party-a"],
                rejected=[Rejection(party="party-b", node_id="123", code="no-rows")],
                agreement=0.7,
                labelled_share=0.6,
                changed_share=0.1,
                consensus_accuracy=0.8,
                accuracy={"party-a": 0.75},
                bytes_up=100,
                seconds=2.0,
            )
        ],
        parties=[
            PartyRecord(
                name="party-a",
                model="cnn",
                solo={"common": Metrics(n=20, accuracy=0.6, confusion=[[12, 3], [5, 0]])},
                model_bytes=9,
                notes=[Note("few-rows", {"rows": 3})],
            )
        ],
        claims=[
            {"unit": "party", "epsilon": 1.0, "delta": 0.0, "publishable": True},
            {"unit": "record", "epsilon": 4.73, "delta": 1e-5, "publishable": False},
        ],
        notes=[Note(NoteCode.NOT_FINISHED, {"party": "party-b", "code": "no-rows", "failure": "3 rows"})],
    )
