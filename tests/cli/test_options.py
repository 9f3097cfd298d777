"""What several commands share: a page is opened where there is a browser."""

from fedkd_flwr.cli.options import open_page


def test_where_no_browser_can_be_opened_the_page_is_named(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or len(opened) == 1)
    open_page("/x.html")
    open_page("/x.html")
    assert opened == ["/x.html"] * 2
    assert capsys.readouterr().err == "No browser was found. Open this page: /x.html\n"
