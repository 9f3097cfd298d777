"""Curves and thresholds of two classes, against scikit-learn's own functions and by hand."""

import numpy as np
import pytest
from measured import record_of
from pages import texts
from sklearn import metrics as sk

from fedkd_flwr.metrics import SCORE_BINS, Metrics, measure
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.thresholds import curves_plot, points, threshold_table, thresholds_explained


def _measured(seed, n=300):
    """Return true classes, scores that are edges of bins, and what is measured of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    p = np.clip(np.round(rng.normal(0.35 + 0.3 * y, 0.2) * SCORE_BINS), 0, SCORE_BINS - 1) / SCORE_BINS
    return y, p, measure(y, (p >= 0.5).astype(int), np.stack([1 - p, p], axis=1), num_classes=2)


def test_each_point_is_scikit_learns_of_all_models_together():
    (y, p, one), (z, q, two) = _measured(0), _measured(1)
    true, scores = np.append(y, z), np.append(p, q)
    found = points([one, None, two])
    assert [point.threshold for point in found] == [k / SCORE_BINS for k in range(SCORE_BINS + 1)]
    assert found[-1].precision == 1.0  # of no answers none is wrong
    for point in found[:SCORE_BINS:4]:
        answers = scores >= point.threshold - 1e-9
        assert point.answered == pytest.approx(answers.mean())
        assert point.precision == pytest.approx(sk.precision_score(true, answers, zero_division=1.0))
        assert point.recall == pytest.approx(sk.recall_score(true, answers))
        assert point.balanced == pytest.approx(sk.balanced_accuracy_score(true, answers))
    assert sk.auc([point.false_alarms for point in found], [point.recall for point in found]) == pytest.approx(
        sk.roc_auc_score(true, scores)
    )


def test_rows_of_one_class_have_no_curve():
    assert points([Metrics(n=3, score_counts=[[4, 3, 0]])]) == points([None, Metrics(n=3)]) == []


def _record(**server):
    found = [_measured(seed)[2] for seed in range(3)]
    record = record_of(found, found, algorithm="fedkt", classes=["well", "$\\frac{$"], num_classes=2)
    record.server = {"common": _measured(9)[2]} if server.get("server") else {}
    return record


def test_the_table_is_of_the_server_s_model_where_there_is_one_and_holds_the_best_threshold():
    record = _record(server=True)
    table, curve = threshold_table(record), points([record.server["common"]])
    best = max(curve, key=lambda point: point.balanced)
    shown = {row[0]: row for row in table.rows}
    assert shown.keys() == {*(f"0.{k}0" for k in range(1, 10)), f"{best.threshold:.2f}"}
    assert shown[f"{best.threshold:.2f}"][4] == f"{best.balanced:.3f}" == max(row[4] for row in table.rows)
    assert thresholds_explained(record).startswith("Of the server's model")
    assert f"highest at {best.threshold:.2f}" in thresholds_explained(record)
    assert thresholds_explained(_record()).startswith("Of all parties together, with the federation")


def test_the_picture_has_a_curve_of_each_kind_of_model_and_none_of_three_classes():
    plot = curves_plot(_record(server=True))
    assert {"alone (SOLO)", "with the federation", "server's model"} <= set(texts(plot.svg))
    assert plot.title.startswith("At the best threshold (server's model): ")
    assert "server's model" not in texts(curves_plot(_record()).svg)
    nothing = curves_plot(RunRecord(run_id="7", algorithm="fedct", parties=[PartyRecord(name="a")]))
    assert (nothing.svg, nothing.caption, threshold_table(RunRecord(run_id="7", algorithm="x")).rows) == ("", "", [])
