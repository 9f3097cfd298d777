"""Rows of three invented hospitals, and what a run of them measured."""

import numpy as np
import pandas as pd


def hospital_rows(count=120, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 90, count),
            "bmi": rng.normal(26, 4, count).round(1),
            "smoker": rng.choice(["yes", "no"], count),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, count), unit="D"),
            "hospital": rng.choice(["north", "south", "west"], count),
        }
    )
    rows.loc[::17, "bmi"] = np.nan
    rows["outcome"] = np.where(rows.age + 10 * (rows.smoker == "yes") > 60, "ill", "well")
    return rows


def figures(record):
    """Return all that a run measured, and not how long it took."""
    parties = [(p.name, p.class_counts, p.agreement, p.solo, p.federated) for p in record.parties]
    return record.fingerprint, parties, record.server, record.centralised, [r.agreement for r in record.rounds]
