"""Text columns, as numbers or as raw texts.

Models of numbers (forests, boosting, the MLP) get TF-IDF columns. Their words and weights are learnt from the public
texts alone, so every party computes the same columns, and a word that only one party uses never leaves it. Models that
say ``takes_text = True`` (transformers) get the raw texts of a row joined to one, and no other column.
A missing text is the empty text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import ConfigError, DataError, explain

__all__ = ["TermWeights", "TextRows", "text_values"]


def text_values(values: Any, missing: Collection[str] = ()) -> NDArray[np.object_]:
    r"""Return the values of a text column as ``str`` objects, the same from every file format and operating system.

    White space at both ends is removed, numbers get their canonical text, and a missing value is the empty text.

    >>> text_values([" so good\r\nagain ", None, "NA"]).tolist()
    ['so good\nagain', '', '']
    """
    texts = column_texts(values, missing)
    clean = ["" if text is None else text.replace("\r\n", "\n") for text in texts]
    return np.array([*clean, ""], dtype=object)[:-1]  # the added "" makes an object array of no texts too


class TermWeights:
    """TF-IDF columns of one text column, learnt from the public texts.

    Words are runs of two or more letters, digits or underscores, in lower case (scikit-learn's `TfidfVectorizer` with
    its defaults). Each row has Euclidean length 1, or 0 without a known word. The words that most public rows hold are
    kept, ties in alphabetical order, because scikit-learn's own choice among ties depends on the machine. Languages
    without spaces between words need a model that reads raw text.

    >>> weights = TermWeights().fit(np.array(["good film", "bad film"], dtype=object), max_terms=2, name="review")
    >>> weights.terms, weights.transform(np.array(["Film, film!", "secret"], dtype=object)).tolist()
    (('bad', 'film'), [[0.0, 1.0], [0.0, 0.0]])
    """

    def __init__(self) -> None:
        self.terms: tuple[str, ...] = ()
        self._vectorizer: Any = None

    def fit(self, texts: NDArray[np.object_], *, max_terms: int, name: str) -> TermWeights:
        """Learn words and weights from the public texts; return self. `DataError` if no public text holds a word."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer().build_analyzer()
        rows_with = Counter(word for text in texts for word in set(words(text)))
        if not rows_with:
            way_out = "Take the column out, or give public rows with texts."
            raise DataError(explain(f"public texts in column {name!r}", "hold words", "none", way_out))
        kept = sorted(rows_with, key=lambda word: (-rows_with[word], word))[:max_terms]
        self.terms = tuple(sorted(kept))
        self._vectorizer = TfidfVectorizer(vocabulary=list(self.terms), dtype=np.float32).fit(texts)
        return self

    def state(self) -> dict[str, list[Any]]:
        """Return the words and their weights as plain values, from which `restored` makes the same columns."""
        return {"terms": list(self.terms), "idf": self._vectorizer.idf_.tolist()}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> TermWeights:
        """Return what `state` described; raises ValueError, TypeError or KeyError if it describes nothing."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        made, idf = cls(), np.array(state["idf"], dtype=np.float32)
        made.terms = tuple(map(str, state["terms"]))
        if not (made.terms and idf.shape == (len(set(made.terms)),) and np.isfinite(idf).all()):
            raise ValueError("terms must be distinct, each with a finite weight")
        made._vectorizer = TfidfVectorizer(vocabulary=list(made.terms), dtype=np.float32)
        made._vectorizer.idf_ = idf
        return made

    def transform(self, texts: NDArray[np.object_]) -> NDArray[np.float32]:
        """Return the weights of the known words, (n, terms) float32; all zeros for a text without known words."""
        weights: NDArray[np.float32] = self._vectorizer.transform(texts).toarray()
        return weights


class TextRows:
    """Turns each raw row into one text: a line for each text column in the schema's order, without empty ones.

    Models that read texts use it in place of a `Preprocessor`. It learns nothing, and needs a column of kind ``text``.
    """

    def __init__(self, schema: Schema) -> None:
        if not schema.text_columns:
            kinds = ", ".join(f"{column.name} ({column.kind})" for column in schema.columns[:8]) or "images"
            way_out = 'Give the column that holds the text kind = "text" in schema.toml, or use a model of numbers.'
            rule = "have a column of kind 'text' for a model that reads texts"
            raise ConfigError(explain("schema", rule, f"only {kinds}", way_out))
        self.schema = schema

    def transform(self, table: Any) -> NDArray[np.object_]:
        """Return the texts, an array of shape (n, 1) of ``str`` objects."""
        if isinstance(table, np.ndarray):
            table = dict(zip(self.schema.column_names, table.T, strict=True))
        elif missing := [name for name in self.schema.text_columns if name not in table.columns]:
            rule, way_out = "include the schema's text columns", "Rename or add them; a text may be empty."
            raise DataError(explain("columns", rule, f"a table without {', '.join(missing)}", way_out))
        texts = [column for column in self.schema.columns if column.kind == "text"]
        columns = [text_values(table[column.name], column.reading.missing) for column in texts]
        rows = np.empty((len(columns[0]), 1), dtype=object)
        rows[:, 0] = ["\n".join(filter(None, row)) for row in zip(*columns, strict=True)]
        return rows
