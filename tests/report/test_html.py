from fedkd_flwr.report.html import Html, join, save_document, table, tag


def test_text_and_attributes_are_escaped_and_markup_is_not():
    assert tag("p", "<b>", tag("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert join(["<", Html("<br>")]) == "&lt;<br>"


def test_control_characters_are_replaced_and_line_breaks_stay():
    assert join(["a\x1b\nb\u202e"]) == "a\ufffd\nb\ufffd"


def test_number_columns_are_aligned_to_the_right():
    text = table(["name", "size"], [["a", "1"]], numbers=[1], label="Sizes")
    assert '<td>a</td><td class="num">1</td>' in text
    assert 'aria-label="Sizes"' in text


def test_an_existing_page_is_replaced_and_no_other_file_is_left(tmp_path):
    target = tmp_path / "new" / "report.html"
    save_document(target, "first", tag("h1", "3 parties"))
    save_document(target, "second", tag("h1", "4 parties"))
    assert "4 parties" in target.read_text(encoding="utf-8")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_text_without_a_utf_8_form_is_written_as_a_question_mark(tmp_path):
    assert "a?b" in save_document(tmp_path / "a.html", "t", Html("a\ud800b")).read_text(encoding="utf-8")
