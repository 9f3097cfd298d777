import sys

from pages import check_safe_and_alone

from benchmarks.harness.sweep_page import write_sweep_page


def test_the_page_has_the_picture_each_epsilon_and_the_claim(tmp_path, make_sweep):
    page = check_safe_and_alone(write_sweep_page(make_sweep(), tmp_path / "s.html").read_text(encoding="utf-8"))
    assert page.tags.count("svg") == 1
    assert "epsilon = 8.0 8 0.813 0.790 0.840 3" in page.text
    assert "without noise no bound 0.830 0.820 0.840 3" in page.text
    assert "The server itself sees labels without noise" in page.text
    assert "All runs of the sweep together cost more" in page.text
    assert "noise of the first point" not in page.text  # the noise differs at the other points
    assert "<b>" in page.text  # the command is escaped


def test_a_claim_that_is_not_proven_is_a_warning_on_the_page(tmp_path, make_sweep, sweep_claim):
    sweep = make_sweep(claim={**sweep_claim, "basis": "none: seeded"})
    assert 'class="bad">NO GUARANTEE' in write_sweep_page(sweep, tmp_path / "s.html").read_text(encoding="utf-8")
    assert "NO GUARANTEE" not in write_sweep_page(make_sweep(), tmp_path / "s.html").read_text(encoding="utf-8")


def test_without_matplotlib_the_page_has_its_table(tmp_path, monkeypatch, make_sweep):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = check_safe_and_alone(write_sweep_page(make_sweep(), tmp_path / "s.html").read_text(encoding="utf-8"))
    assert 'pip install "fedkd-flwr[report]"' in page.text
    assert "epsilon = 8.0" in page.text
