"""Small saved models and raw rows of their schema, for tests of graphs."""

import numpy as np
import pandas as pd
from schemas import column

from fedkd_flwr.data.public import Encoder, make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.models import NAMES
from fedkd_flwr.stores.saved_model import SavedModel

SMALL = {
    "random-forest": {"n_estimators": 8, "max_depth": 3},
    "extra-trees": {"n_estimators": 8},
    "hist-gradient-boosting": {"max_iter": 3},
    "xgboost": {"n_estimators": 4},
    "mlp": {"hidden": [8], "max_steps": 4},
    "cnn-fedkt": {"max_steps": 2},
    "cnn-privatekt": {"max_steps": 1},
    "cnn-fedmd": {"max_steps": 2, "channels": [4, 6, 8]},
}


ZOO = [name for name in NAMES if not name.startswith(("cnn-fedmd-", "transformer", "rulefit"))]


CLASSES = ("no", "perhaps", "yes", "never seen")


SCHEMA = Schema(
    columns=(column("age"), column("job title", "clerk", "smith", "7"), column("visits"), column("weight")),
    classes=CLASSES,
)


IMAGES = Schema(columns=(), classes=CLASSES, shape=(1, 20, 20))


def raw_table(count, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "weight": rng.normal(60, 9, count),
            "age": rng.integers(18, 90, count).astype(float),
            "visits": rng.integers(0, 4, count).astype(float),
            "job title": rng.choice(["clerk", "smith", "7", "7.0", " clerk ", "astronaut", ""], count),
        }
    )
    table.loc[::7, "age"] = np.nan
    return table


def raw_rows(name, count, seed):
    if name.startswith("cnn"):
        return np.random.default_rng(seed).integers(0, 256, (count, 400)).astype(np.uint8)
    return raw_table(count, seed)


def saved_model(model, schema=SCHEMA, *, y=None):
    """Fit a model on rows of three of the four classes."""
    rows = raw_rows("cnn" if schema is IMAGES else "", 90, 1)
    public = make_public_set(rows, schema)
    model.fit(public.X, np.arange(90) % 3 if y is None else y)
    return SavedModel(classifier=model, encoder=Encoder.of(public))
