"""What several commands share: a page is opened where there is a browser."""

import os

from fedkd_flwr.cli.options import open_page


def test_where_no_browser_can_be_opened_nothing_of_xdg_open_is_printed(monkeypatch, capfd, tmp_path):
    fake = tmp_path / "xdg-open"
    fake.write_text("#!/bin/sh\necho noise >&2\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    open_page("/x.html")
    monkeypatch.setenv("PATH", "")
    open_page("/x.html")
    assert capfd.readouterr().err == "No browser was found. Open this page: /x.html\n"
