"""How raw rows become what a model reads, as bytes: schema and preprocessing, all of it learnt from public rows.

It lies in a model's file, so that the model answers for raw rows in another process. It holds no private row and no
figure of one: everything in it was fitted on the public set U.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.data.preprocessor import Preprocessor, Table
from fedkd_flwr.data.public import PREPROCESSING_VERSION, PublicSet, features_of
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.text import TextRows
from fedkd_flwr.errors import FedkdError, ModelBytesError, explain

__all__ = ["Encoder"]


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Turns raw rows into the features that a model was trained on."""

    schema: Schema
    preprocessor: Preprocessor | TextRows | None  # as in `PublicSet`: None where the raw numbers are the features
    fingerprint: str = ""  # the public set's, for the reader

    @classmethod
    def of(cls, public: PublicSet) -> Encoder:
        """Return the encoder of a public set, as a model reads it (`PublicSet.as_read_by`)."""
        return cls(schema=public.schema, preprocessor=public.preprocessor, fingerprint=public.fingerprint)

    @property
    def num_features(self) -> int:
        """Number of columns of `features`."""
        if self.preprocessor is None:
            return len(self.schema.column_names)
        return 1 if isinstance(self.preprocessor, TextRows) else self.preprocessor.num_features

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the raw columns that are read: for a model of texts its text columns alone."""
        texts = isinstance(self.preprocessor, TextRows)
        return self.schema.text_columns if texts else self.schema.column_names

    def features(self, table: Table) -> NDArray[Any]:
        """Return raw rows as features; raises `DataError` as `Preprocessor.transform` does."""
        return features_of(table, self.schema, self.preprocessor)

    def to_bytes(self) -> bytes:
        """Return the encoder as JSON. Numbers keep every bit."""
        state = self.preprocessor.state() if isinstance(self.preprocessor, Preprocessor) else None
        kind = "texts" if isinstance(self.preprocessor, TextRows) else "raw" if state is None else "features"
        plain = {"preprocessing": PREPROCESSING_VERSION, "kind": kind, "schema": self.schema.to_toml(), "state": state}
        return json.dumps(plain | {"fingerprint": self.fingerprint}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Encoder:
        """Return the encoder that `to_bytes` wrote. The bytes may come from anybody: else `ModelBytesError`."""
        try:
            plain = json.loads(data)
            if plain["preprocessing"] != PREPROCESSING_VERSION:
                way_out = "Another version of fedkd_flwr wrote the model: save it again with this one."
                seen = plain["preprocessing"]
                raise ModelBytesError(explain("preprocessing", f"be version {PREPROCESSING_VERSION}", seen, way_out))
            schema = Schema.from_toml(plain["schema"], "the model's file")
            made: Preprocessor | TextRows | None = None
            if plain["kind"] == "features":
                made = Preprocessor.restored(schema, plain["state"])
            elif plain["kind"] == "texts":
                made = TextRows(schema)
            elif plain["kind"] != "raw":
                raise ValueError(f"unknown kind {plain['kind']!r}")
            return cls(schema=schema, preprocessor=made, fingerprint=str(plain.get("fingerprint", "")))
        except ModelBytesError:
            raise
        except (FedkdError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            seen = f"this: {type(error).__name__}: {error}"
            raise ModelBytesError(explain("A model's encoder", "be one that fedkd_flwr wrote", seen)) from error
