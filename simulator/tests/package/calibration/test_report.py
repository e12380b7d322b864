"""The clock's committed page and the reports on demand."""

from __future__ import annotations

from simulator.calibration import report


def test_the_committed_files_are_what_the_data_give():
    for path, text in report.committed().items():
        assert path.read_text() == text, f"{path.name}: run python -m simulator.calibration.report"


def test_the_page_fits_two_screens_and_the_rest_is_written_on_demand(tmp_path):
    assert len(report.page().splitlines()) < 100
    report.write_reports(tmp_path)
    sizes = {path.name: len(path.read_text().splitlines()) for path in tmp_path.iterdir()}
    assert set(sizes) == {"h200.md", "b200.md", "blackwell.md"}
    assert sizes["h200.md"] > 1000 and sizes["b200.md"] > 500


def test_a_stale_page_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "PAGE", tmp_path / "CLOCK.md")
    assert report.main(["--check"]) == 1 and "CLOCK.md" in capsys.readouterr().err
    assert report.main(["--to", str(tmp_path / "out")]) == 0 and report.main(["--check"]) == 0


def test_the_error_line_fits_where_a_chips_report_keeps_it():
    assert all(len(line) < 256 for line in report.error_lines().values())  # chip.h: char error[256]
