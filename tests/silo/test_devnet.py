"""What a federation for trying things is made of; `tests/flower` and `fedkd dev net` itself run one."""

import ssl

import pandas as pd
import pytest
from flwr.cli.supernode.register import try_load_public_key

from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.errors import DataError
from fedkd_flwr.silo.devnet import deal, make_key, make_tls


def test_rows_are_dealt_once_each_and_the_public_ones_have_no_label(tmp_path):
    table = pd.DataFrame({"x": range(200), "y": ["no", "yes"] * 100})
    table.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "net").mkdir()
    public = deal(tmp_path / "net", ["silo-1", "silo-2"], table=str(tmp_path / "rows.csv"), label="y")
    held = [pd.read_csv(tmp_path / "net" / name / "private.csv") for name in ("silo-1", "silo-2")]
    shown = pd.read_csv(public)
    assert list(shown.columns) == ["x"]
    assert (len(shown), *map(len, held)) == (40, 80, 80)
    assert sorted([*shown.x, *held[0].x, *held[1].x]) == list(range(200))
    pool = load_public(tmp_path / "net" / "silo-1" / "public.csv")
    X, y = load_party_table(tmp_path / "net" / "silo-1" / "private.csv", pool.schema, pool.preprocessor)
    assert len(X) == len(y) == 80
    with pytest.raises(DataError, match="label must be a column"):
        deal(tmp_path, ["silo-3"], table=str(tmp_path / "rows.csv"), label="z")


def test_rows_without_a_label_are_left_out_because_one_of_them_keeps_its_silo_out_of_every_run(tmp_path):
    table = pd.DataFrame({"x": range(100), "y": ["no", "yes", "NA", ""] * 25})
    table.to_csv(tmp_path / "rows.csv", index=False)
    public = deal(tmp_path, ["silo-1"], table=str(tmp_path / "rows.csv"), label="y")
    pool = load_public(public)
    X, _ = load_party_table(tmp_path / "silo-1" / "private.csv", pool.schema, pool.preprocessor)
    assert (pool.num_rows, len(X)) == (10, 40)


def test_a_table_that_asks_for_a_rule_is_to_be_corrected_because_the_command_takes_none(tmp_path):
    table = pd.DataFrame({"day": [f"0{i % 9 + 1}/04/2021" for i in range(60)], "y": ["no", "yes"] * 30})
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=r"'day' must hold dates .* day above 12") as found:
        deal(tmp_path, ["silo-1"], table=str(tmp_path / "rows.csv"), label="y")
    assert "fedkd server schema" not in str(found.value)


def test_the_certificate_is_of_this_machine_and_keys_are_for_their_owner_alone(tmp_path):
    tls, public = make_tls(tmp_path), make_key(tmp_path / "key")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls["server"], tls["key"])
    client = ssl.create_default_context(cafile=str(tls["ca"]))
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO())]
    into, out = ends[0]
    one = client.wrap_bio(into, out, server_hostname="127.0.0.1")
    other = server.wrap_bio(out, into, server_side=True)
    for _ in range(4):  # the handshake checks names and signatures
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert one.version() == "TLSv1.3"
    assert try_load_public_key(public)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("key", "server.key")} == {0o600}
