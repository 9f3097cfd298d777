"""`fedkd runs`: what can be read is listed, and what cannot is said."""

import json


def test_runs_lists_what_can_be_read_and_says_what_cannot(fedkd, places):
    done = fedkd("runs", "list", "--json", "--output-dir", places)
    found = {line["record"].split("/")[-2]: line for line in json.loads(done.out)}
    assert done.code == 0
    assert found["100"]["figure"]["n"] == 2000
    assert found["102"]["status"] == "failed"
    assert {found[f"20{i}"]["status"] for i in range(6)} == {"unreadable"}
    assert "200" in fedkd("runs", "list", "--output-dir", places).out
    assert "(8 older ones" in fedkd("runs", "list", "--limit", "1", "--output-dir", places).err
