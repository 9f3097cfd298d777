"""A party: it learns from its own rows, and labels the public ones once."""

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedkt.task import deal, load, student_labels

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Send the students' labels: num_public times s bytes, and neither rows nor models."""
    run, party = context.run_config, int(context.node_config["partition-id"])
    seed = int(run["seed"])
    data = load(str(run["data-path"]), seed)
    (X, y), (public, _) = data["private"], data["public"]
    mine = deal(y, int(run["num-parties"]), seed)[party]
    labels = student_labels(
        X[mine], y[mine], public, int(run["num-students"]), int(run["num-teachers"]), [seed, 2, party]
    )
    return Message(RecordDict({"labels": ArrayRecord({"labels": Array(labels)})}), reply_to=message)
