from __future__ import annotations

import numpy as np
import pandas as pd

from fedkd_flwr.data.columns import canonical, column_texts


def test_number_spellings_are_one_text_but_identifiers_keep_their_zeros():
    assert {canonical(v) for v in (1, 1.0, "1", "1.0", "+1", " 1.000 ", np.float32(1))} == {"1"}
    assert [canonical(v) for v in ("007", "1e3", "0.50", "-0", -0.0, True)] == ["007", "1e3", "0.5", "0", "0", "True"]


def test_missing_markers_are_none_whatever_the_type():
    values = ["", " ? ", "NA", None, float("nan"), pd.NA]
    assert column_texts(pd.Series(values, dtype=object)).tolist() == [None] * 6
