"""Files of silos: rows of people, of which age and hours tell the income, and a node's settings beside them."""

from pathlib import Path

import numpy as np
import pandas as pd
from schemas import column

from fedkd_flwr.data.schema import Column, Schema

AGE, HOURS = column("age"), column("hours")
JOB = column("job", "cook", "smith")


def schema_of(*columns: Column) -> Schema:
    return Schema(columns=columns, classes=("<=50K", ">50K"), label="income")


NUMBERS, MIXED = schema_of(AGE, HOURS), schema_of(AGE, JOB, HOURS)


def people(count: int, seed: int, *, schema: Schema = NUMBERS) -> pd.DataFrame:
    """Return rows with the columns of a schema, and the income."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(20, 70, count), rng.integers(10, 60, count) + 0.5
    table = pd.DataFrame({"age": age, "job": rng.choice(["cook", "smith"], count), "hours": hours})
    return table[list(schema.column_names)].assign(income=np.where(age + hours > 80, ">50K", "<=50K"))


def write_public(folder: Path, public: pd.DataFrame, schema: Schema = NUMBERS) -> Path:
    """Write a public file, without labels, and its schema."""
    public.drop(columns="income").to_csv(folder / "public.csv", index=False)
    schema.write(folder / "schema.toml")
    return folder / "public.csv"


def node_of(name: str, own: pd.DataFrame, file: Path, public: Path, state: Path) -> dict[str, str]:
    """Write a silo's own rows; return its node config, by key."""
    own.to_csv(file, index=False)
    return {"party": name, "data-path": str(file), "public-path": str(public), "state-dir": str(state)}
