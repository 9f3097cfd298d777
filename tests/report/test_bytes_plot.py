from pages import texts

from fedkd_flwr.report.bytes_plot import bytes_plot


def test_bytes_are_written_plainly_beside_fedavg(make_record):
    plot = bytes_plot(make_record(5, 3, model="cnn"))
    shown = texts(plot.svg)
    assert {"5.1 KB", "590 B", "2.6 MB", "the model (FedAvg), up"} <= set(shown)
    assert "FedAvg of the same model" in plot.title


def test_the_ratio_in_the_title_is_model_bytes_over_label_bytes(make_record):
    record = make_record(4, 1, model="mlp")
    record.rounds[0].bytes_up, record.rounds[0].bytes_down = 4 * 5_000, 4 * 5_000
    assert bytes_plot(record).title == "A round needs 520 times fewer bytes than FedAvg of the same model up and down"


def test_what_comes_once_at_the_end_counts_in_the_title(make_record):
    """A one-round exchange has its whole way down there."""
    record = make_record(4, 1, model="mlp")
    record.rounds[0].bytes_up, record.rounds[0].bytes_down, record.final_bytes_down = 4 * 5_000, 0, 4 * 5_000
    found = bytes_plot(record)
    assert found.title == "A round needs 520 times fewer bytes than FedAvg of the same model up and down"
    assert "What a party gets at the end (result) comes once" in found.caption


def test_labels_heavier_than_a_small_model_are_said_to_be(make_record):
    record = make_record(5, 1, model="logistic-regression")
    for party in record.parties:
        party.model_bytes = 1_000
    assert "2.6 times as many bytes" in bytes_plot(record).title


def test_trees_are_shown_as_the_model_itself(make_record):
    plot = bytes_plot(make_record(5, 3, model="decision-tree"))
    assert "the model itself, up" in texts(plot.svg)
    assert "FedAvg cannot average these models" in plot.caption


def test_the_caption_says_whose_models_were_weighed_because_a_simulation_weighs_the_first_only(make_record):
    record = make_record(5, 3, model="decision-tree")
    assert "the size of one model (the mean over the parties)" in bytes_plot(record).caption
    record.parties[4].model_bytes = None
    assert "the size of one model (the mean over 4 of 5 parties)" in bytes_plot(record).caption
    for party in record.parties[1:]:
        party.model_bytes = None
    assert "the size of one model (that of 1 of 5 parties)" in bytes_plot(record).caption
    record = make_record(5, 3, model="cnn")
    record.parties[4].model_bytes = None
    assert "the size shown is the mean over 4 of 5 parties." in bytes_plot(record).caption


def test_a_single_figure_is_a_sentence_and_not_a_plot(failed_record):
    plot = bytes_plot(failed_record)
    assert plot.svg == ""
    assert "A party sends 5.1 KB a round and receives 0 B" in plot.caption


def test_the_axis_has_a_label_even_if_all_sizes_are_alike(make_record):
    record = make_record(5, 1)
    record.rounds[0].bytes_up = record.rounds[0].bytes_down = 5 * 5_000
    for party in record.parties:
        party.model_bytes = None
    assert "1 KB" in texts(bytes_plot(record).svg)


def test_what_the_parties_send_is_named(make_record):
    assert "scores sent, first round" in texts(bytes_plot(make_record(5, 3, algorithm="fedmd")).svg)


def test_weights_are_not_compared_with_sharing_weights(make_record):
    record = make_record(3, 3, algorithm="fedavg", model="mlp")
    record.sends = "weights"
    plot = bytes_plot(record)
    assert plot.title.startswith("A party sends ")
    assert "FedAvg" not in plot.title + plot.caption + " ".join(texts(plot.svg))
    assert "The parties send the model itself" in plot.caption
