import pytest

from fedkd_flwr.report.canvas import Plot
from fedkd_flwr.report.html import Table, environment, save_page


def rendered(source, **values):
    return environment().from_string(source).render(**values)


def test_text_and_attributes_are_escaped_by_default_whatever_a_template_does_with_them():
    hostile = """<b>"'&\x1b\u202e"""
    escaped = "&lt;b&gt;&#34;&#39;&amp;\ufffd\ufffd"
    assert rendered("<p title='{{ x }}'>{{ x }}</p>", x=hostile) == f"<p title='{escaped}'>{escaped}</p>"
    joined = "{% from 'parts.html.md' import table %}{{ table(t) }}{{ ('a' ~ x) }}{{ [x, x] | join('<') }}"
    joined += "{{ x | capitalize }}"
    text = rendered(joined, x=hostile, t=Table(hostile, [hostile], [[hostile]]))
    assert "<b>" not in text
    assert "\x1b" not in text
    assert text.count(escaped) == 7


def test_a_name_that_no_page_gave_is_an_error_and_not_a_gap():
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        rendered("{{ x }}")


@pytest.fixture(autouse=True)
def _a_page(monkeypatch):
    import jinja2

    page = "{% from 'parts.html.md' import pictures %}<h1>{{ headline }}</h1>{{ pictures(plots, '') }}"
    own = jinja2.ChoiceLoader([jinja2.DictLoader({"page": page}), environment().loader])
    monkeypatch.setattr(environment(), "loader", own)


def _save(path, headline, plots=()):
    return save_page(path, "page", title="t", headline=headline, plots=plots)


def test_an_existing_page_is_replaced_and_no_other_file_is_left(tmp_path):
    target = tmp_path / "new" / "report.html"
    _save(target, "3 parties")
    _save(target, "4 parties")
    assert "4 parties" in target.read_text(encoding="utf-8")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_text_without_a_utf_8_form_is_written_as_a_question_mark(tmp_path):
    picture = Plot(title="", svg="<svg>a\ud800b</svg>", caption="")
    assert "a?b" in _save(tmp_path / "a.html", "", [picture]).read_text(encoding="utf-8")
