"""What a federation for trying things is made of; `tests/flower` and `fedkd dev net` itself run one."""

import ssl

import numpy as np
import pandas as pd
from flwr.cli.supernode.register import try_load_public_key

from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.silo.devnet import deal, make_key, make_tls


def test_rows_are_dealt_once_each_and_the_public_ones_have_no_label(tmp_path):
    public = load_public(deal(tmp_path, ["silo-1", "silo-2"]))
    files = (tmp_path / name / "private.csv" for name in ("silo-1", "silo-2"))
    held = [load_party_table(file, public.schema, public.preprocessor) for file in files]
    rows = np.concatenate([public.X, *(X for X, _ in held)])
    assert (len(public.X), len(rows)) == (359, 1797)
    assert len(np.unique(rows, axis=0)) == 1797  # no row of the digits is there twice
    assert "digit" not in pd.read_csv(tmp_path / "silo-1" / "public.csv")
    assert {len(np.unique(y)) for _, y in held} == {10}


def test_the_certificate_is_of_this_machine_and_keys_are_for_their_owner_alone(tmp_path):
    tls, public = make_tls(tmp_path), make_key(tmp_path / "key")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls["server"], tls["key"])
    client = ssl.create_default_context(cafile=str(tls["ca"]))
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
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
