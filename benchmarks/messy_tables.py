"""Follow our own messages word for word, on Adult as people export it, and compare with the clean file.

    python benchmarks/messy_tables.py --data-root /data

The same 4,000 rows of Adult are written once clean and in several messy ways: decimal commas, points or commas between
thousands, dates, units, an identifier, ``<0.5``, words for "no value", empty cells, semicolons, a byte order mark,
Windows-1252, a rare class. Each messy file is loaded as `fedkd simulate` does. Where an error or a note ends with a
command, its words are taken as they stand; where a cell may mean two things, the words that are true for this file.
Features must then equal those of the clean file, number for number, and so does the accuracy of a forest. The last
figure is that forest's accuracy if every column that is not plain numbers becomes categories, as before.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkd_flwr.data.columns import column_texts, sorted_texts
from fedkd_flwr.data.datasets import Pool, load_pool
from fedkd_flwr.data.published import read_published
from fedkd_flwr.data.reading import PLAIN
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import simulated_pool

ROWS = 4000
TRUE_CHOICE = {"american": ("one thousand", "month comes first")}  # what the asked user of that file knows


def clean_table(data_root: str) -> pd.DataFrame:
    """Return rows of Adult, with a laboratory value and a day that depend on the class."""
    source = read_published("adult", data_root)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(source.y))[:ROWS]
    table = pd.DataFrame(source.table).iloc[rows].reset_index(drop=True).map(lambda value: str(value).strip())
    table = table.drop(columns=["education"]).replace("?", "")
    y = source.y[rows]
    table["hours-per-week"] = [f"{float(hours) / 7:.2f}" for hours in table["hours-per-week"]]
    table["lactate"] = [f"{max(value, 0.5):.1f}" for value in rng.gamma(2, 0.8 + 0.4 * y)]
    table["admitted"] = [str(day) for day in 18_000 + rng.integers(0, 900, ROWS) - 100 * y]
    table["income"] = np.array(source.classes)[y]
    table.loc[rng.choice(ROWS, 7, replace=False), "income"] = "not said"
    return table


def days(table: pd.DataFrame, pattern: str) -> list[str]:
    """Return the days of a table as dates."""
    return [f"{np.datetime64(int(day), 'D').item():{pattern}}" for day in table["admitted"]]


def german(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table as a German laboratory exports it, and how it is written."""
    rng = np.random.default_rng(1)
    messy = table.assign(
        fnlwgt=[f"{int(number):,}".replace(",", ".") for number in table["fnlwgt"]],
        lactate=[text.replace(".", ",") if text != "0.5" else "<0,5" for text in table["lactate"]],
        admitted=days(table, "%d.%m.%Y"),
        Straße=[f"Gäßchen {i}" for i in range(ROWS)],
        **{"hours-per-week": [text.replace(".", ",") for text in table["hours-per-week"]]},
    )
    messy.insert(0, "PatientenNr", [f"P{i:06d}" for i in rng.permutation(ROWS)])
    messy["workclass"] = messy["workclass"].replace("", "k.A.")
    messy["occupation"] = messy["occupation"].replace("", "-")
    return messy, {"sep": ";", "encoding": "cp1252"}


def american(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table as a spreadsheet with American settings writes it: signs and dates that mean two things."""
    short = table["fnlwgt"].astype(int).clip(1000, 999_999)
    first = [f"{int(day) % 12 + 1:02d}/{int(day) % 11 + 1:02d}/2020" for day in table["admitted"]]
    messy = table.drop(columns=["hours-per-week", "lactate"]).assign(fnlwgt=[f"{n:,}" for n in short], admitted=first)
    messy["age"] = [age if i % 5 else "refused" for i, age in enumerate(table["age"])]
    messy.insert(0, "", range(ROWS))
    return messy, {"sep": ",", "encoding": "utf-8-sig"}


def american_clean(messy: pd.DataFrame) -> pd.DataFrame:
    """Return the clean twin of the American table."""
    day = [
        (np.datetime64(f"2020-{text[:2]}-{text[3:5]}") - np.datetime64("1970-01-01")).item().days
        for text in messy["admitted"]
    ]
    plain = messy.drop(columns=[""]).replace("refused", "")
    return plain.assign(fnlwgt=[text.replace(",", "") for text in plain["fnlwgt"]], admitted=[str(d) for d in day])


def load(words: dict[str, str]) -> Pool:
    """Load a table as a run with these words does."""
    return simulated_pool(parse_run_config({"dataset": "table", "seed": 1, **words}))


def follow(path: Path, name: str) -> tuple[Pool, int, dict[str, str]]:
    """Load a messy file and follow each message; return the data, the number of tries, and the words at the end."""
    words = {"dataset": "table", "table": str(path), "label": "income"}
    for tries in range(1, 9):
        try:
            pool = load(words)
            command = pool.next_command
        except DataError as error:
            print(f"  error: {error}")
            ways = [line for line in str(error).splitlines() if "fedkd simulate" in line]
            true = [line for line in ways if any(known in line for known in TRUE_CHOICE.get(name, ()))]
            line = (true or ways)[0]
            pool, command = None, line[line.index("fedkd simulate") :]
        if not command:
            return pool, tries, words
        said = dict(word.split("=", 1) for word in shlex.split(command)[2:])
        if pool is not None and said == words:
            return pool, tries, words
        words = {key: value for key, value in said.items() if key != "seed"}
    raise SystemExit(f"{name}: no end of suggestions: {words}")


def accuracy(pool: Pool) -> float:
    """Return the accuracy of a forest on the common test rows."""
    shape = {"num_classes": pool.public.num_classes, "num_features": pool.public.num_features}
    model = make_model("random-forest", seed=0, **shape)
    model.fit(pool.X, pool.y)
    return float(np.mean(model.predict(pool.X_test) == pool.y_test))


def as_before(path: Path, classes: tuple[str, ...]) -> Pool:
    """Return the data with categories for whatever is not plain numbers, without columns that name rows."""
    table, columns = read_table(path), []
    for name in table.columns.drop("income"):
        texts = column_texts(table[name])
        if not PLAIN.parse(table[name])[1].any():
            columns.append(Column(name=name, kind="numeric"))
        elif 2 * len(set(texts)) <= len(texts):
            columns.append(Column(name=name, kind="categorical", categories=sorted_texts(texts)))
    Schema(columns=tuple(columns), classes=classes, label="income").write(path.with_suffix(".toml"))
    return load_pool("table", seed=1, table=str(path), schema_path=str(path.with_suffix(".toml")))


def main() -> None:
    """Write the files, follow the messages, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", required=True, help="folder that holds adult/adult.data")
    options = parser.parse_args()
    table = clean_table(options.data_root)
    for name, make in (("german", german), ("american", american)):
        with tempfile.TemporaryDirectory() as folder:
            messy, style = make(table)
            twin = table if name == "german" else american_clean(messy)
            messy.to_csv(Path(folder) / "messy.csv", index=False, **style)
            twin.to_csv(Path(folder) / "clean.csv", index=False)
            print(name)
            began = time.process_time()
            pool, tries, words = follow(Path(folder) / "messy.csv", name)
            seconds = time.process_time() - began
            print("  words:", {key: value for key, value in words.items() if key not in ("dataset", "table")})
            clean = load({"table": str(Path(folder) / "clean.csv"), "label": "income"})
            same = pool.X.shape == clean.X.shape and np.array_equal(pool.X, clean.X) and np.array_equal(pool.y, clean.y)
            before = as_before(Path(folder) / "messy.csv", clean.public.schema.classes)
            print(
                f"  tries {tries}, {seconds:.1f} s; features equal: {same}; accuracy clean {accuracy(clean):.4f}, "
                f"repaired {accuracy(pool):.4f}, categories as before {accuracy(before):.4f}"
            )
            if not same:
                raise SystemExit("the repaired table is not the clean one")


if __name__ == "__main__":
    main()
