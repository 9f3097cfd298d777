"""`fedkd_flwr.simulate`: a whole federation on a user's own rows, in one call."""

from __future__ import annotations

from typing import Any

from fedkd_flwr.api.result import FederationResult
from fedkd_flwr.api.rows import given_rows, settings_of
from fedkd_flwr.api.run import run

__all__ = ["simulate"]


def simulate(
    data: Any = "digits",
    *,
    label: str = "label",
    parties: Any = None,
    model: Any = None,
    public: Any = None,
    test: Any = None,
    algorithm: str = "fedkt",
    progress: bool = True,
    **settings: Any,
) -> FederationResult:
    """Simulate a federation on your rows, and return how good its models are, and the models.

    It is the run that ``fedkd simulate`` makes with the same settings, and reaches the same figures to the last digit.

    Parameters
    ----------
    data : DataFrame, tuple, dict, str, path or list
        Rows with a label: a frame of pandas, polars or pyarrow; a pair (X, y); a dict with either for each party; the
        name of a data set; a file; or a folder or list of files, one for each party.
    label : str
        The column to predict. Labels may be texts, numbers or truth values, and come back as they are.
    parties : str, int or array of shape (n,), optional
        The column that says whose row it is, or one name a row. Or a number of parties, to whom rows are split at
        random (``partitioner``, ``dirichlet_alpha``); 10 by default.
    model : estimator, torch module, class, function, str or dict, optional
        The parties' model, or a dict with one for each party's name. A fresh copy learns at each party; where its
        ``random_state`` is None, it is drawn from the run's seed. A mixture of kinds by default.
    public : frame, array or path, optional
        Rows that all parties may see; they need no label. By default a quarter of the rows is held out for that. Of
        rows that `make_public` drew give the file: then the record says what they cost.
    test : frame, tuple or path, optional
        Labelled rows on which all models are measured. By default a quarter of the rows is held out.
    algorithm : str
        Such as fedkt, fedct, pate, privatekt or fedmd.
    progress : bool
        Whether to show how far the run is.
    **settings
        Any other setting of a run, in snake_case: ``seed=3``, ``num_public=500``, ``epsilon=1.0``,
        ``name="first"``. ``fedkd settings`` lists them.

    Returns
    -------
    FederationResult
        Show it in a notebook, or print it. The run is among `runs`, too.

    Raises
    ------
    FedkdError
        If a setting, the rows or a model do not fit, or too few parties answer. `ConfigError` and `DataError`, which
        are kinds of it, are kinds of `ValueError` too.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd, fedkd_flwr as fk
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rows = pd.DataFrame({"age": [*range(20, 80)] * 2, "hospital": ["north"] * 60 + ["south"] * 60})
    >>> rows["ill"] = rows.age > 50
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = fk.simulate(rows, label="ill", parties="hospital", model=GaussianNB(), output_dir=folder)
    >>> done.predict(pd.DataFrame({"age": [25, 75]})).tolist()
    [False, True]
    """
    given = {"save_party_models": True, "algorithm": algorithm, "model": model, **settings}
    with given_rows(data, label=label, parties=parties, public=public, test=test) as (rows, values):
        return run({**rows, **settings_of(given)}, values, progress=progress)
