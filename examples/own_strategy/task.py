"""What the cellars have in common: wines in 13 measurements, three cultivars, and the model they train."""

from flwr.app import Context
from pandas import DataFrame, Series
from sklearn.datasets import load_wine
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.data import infer_schema, make_public_set
from fedkd_flwr.models import Classifier
from fedkd_flwr.wire.label_codec import PublicSpec

TABLE, CULTIVAR = load_wine(return_X_y=True, as_frame=True)
UNLABELLED = TABLE.iloc[::3]  # measured by all of them, and labelled by none
PUBLIC = make_public_set(UNLABELLED, infer_schema(UNLABELLED, classes=("A", "B", "C"), label="cultivar"))
SPEC = PublicSpec(num_public=PUBLIC.num_rows, num_classes=PUBLIC.num_classes, fingerprint=PUBLIC.fingerprint)


def load(context: Context) -> tuple[str, DataFrame, Series]:
    """Return a cellar's name, its wines and their cultivars."""
    number, cellars = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    mine = [i for i in range(len(TABLE)) if i % 3][number::cellars]
    return f"cellar-{number}", TABLE.iloc[mine], CULTIVAR.iloc[mine]


def model(seed: int):
    """Return an untrained model."""
    return Classifier(make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=seed)), num_classes=3)
