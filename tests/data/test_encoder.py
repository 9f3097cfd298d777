"""What a model file holds to read raw rows: it comes back whole, and hostile bytes are refused."""

import json

import pytest

from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.errors import ModelBytesError


def test_it_makes_the_same_features_of_the_same_columns_after_it_was_bytes(people, schema):
    for public in (make_public_set(people, schema), make_public_set(people, schema).without(["age"])[0]):
        encoder = Encoder.from_bytes(Encoder.of(public).to_bytes())
        assert (encoder.reads, encoder.num_features) == (public.schema.column_names, public.num_features)
        assert encoder.features(people).tolist() == public.X.tolist()
        assert encoder.fingerprint == public.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"preprocessing": 1}, {"kind": "other"}, {"schema": "classes = ["}, {"state": None}, {"state": {"numeric": {}}},
        *({"state": {"numeric": {"age": age}, "terms": {}}} for age in ([0, 0, 0], [0, "x", 1])),
    ],
)  # fmt: skip
def test_bytes_that_are_none_are_refused(people, schema, change):
    plain = json.loads(Encoder.of(make_public_set(people, schema)).to_bytes())
    for data in (json.dumps(plain | change).encode(), b"", b"[]", b"[" * 9999):
        with pytest.raises(ModelBytesError):
            Encoder.from_bytes(data)
