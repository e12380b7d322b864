"""The Blackwell kernel's simulated times, and the page beside published B200 measurements."""

from __future__ import annotations

import json
from statistics import geometric_mean

import pytest

from scripts.cost_model import clock
from scripts.evidence import readme
from scripts.evidence.clock import b200_page
from scripts.evidence.clock.table import ROOT, Row


def test_both_pages_are_what_the_committed_data_give():
    assert clock.problems() == []
    rows = b200_page.load()
    head = json.loads((ROOT / b200_page.DATA).read_text())
    assert head["chip_sha256"] == b200_page.digest(), "run python -m scripts.evidence.clock.b200"
    assert (ROOT / b200_page.DOCUMENT).read_text() == b200_page.render(rows)
    assert (ROOT / b200_page.ERROR).read_text() == b200_page.error_line(rows) + "\n"


def test_what_is_stale_is_named(tmp_path, monkeypatch, capsys):
    for name in ("RESULT", "TEXT", "PUBLIC"):
        path = getattr(clock, name)
        copy = tmp_path / path.name
        copy.write_text(path.read_text())
        monkeypatch.setattr(clock, name, copy)
    data = json.loads(clock.RESULT.read_text())
    data["chip_sha256"] = "0" * 64
    clock.RESULT.write_text(json.dumps(data))
    assert clock.main(["--check"]) == 1
    assert "blackwell_clock.json: simulated with other parameters" in capsys.readouterr().err
    clock.PUBLIC.write_text(json.dumps({"chip_sha256": "1" * 64, "rows": clock.public()["rows"]}))
    assert any("blackwell_public.json: simulated with other" in problem for problem in clock.problems())
    clock.PUBLIC.write_text((ROOT / "shark_tank/simulated/blackwell_public.json").read_text())
    assert clock.main(["--render"]) == 0 and clock.main(["--check"]) == 0
    clock.TEXT.write_text("older")
    assert clock.main(["--check"]) == 1 and "blackwell_clock.md: not what" in capsys.readouterr().err


def test_the_table_says_that_it_is_simulated_and_how_far_off():
    data = json.loads(clock.RESULT.read_text())
    text = readme.clock(data)
    assert "Simulated, not measured" in text and f"{data['error']['largest_percent']} % at most" in text
    times = [found["back_to_back_us"] for found in data["times"].values()]
    assert f"| {geometric_mean(times):.1f} |" in next(line for line in text.splitlines() if "behind other" in line)
    for found in data["predictions"]["blackwell"].values():
        assert found["low_us"] < found["us"] < found["high_us"]
        largest = data["error"]["largest_percent"] / 100
        assert found["high_us"] == pytest.approx(found["us"] * (1 + largest), rel=1e-3)


def test_the_public_kernels_stand_beside_ours_on_the_same_chip_file():
    data = json.loads(clock.RESULT.read_text())
    assert clock.public()["chip_sha256"] == data["chip_sha256"]
    ratios = clock.dual_ratios(data)
    assert all(list(of) == list(data["times"]) for of in ratios.values()) and len(ratios) >= 2
    line = next(line for line in readme.clock(data).splitlines() if line.startswith("| **ours / gau-nernst v2b"))
    assert line.endswith(f"| {geometric_mean(ratios['gau-nernst v2b'].values()):.2f} |")


def test_an_error_is_told_of_rows_that_validate_alone():
    def row(use: str, predicted: float, n: int) -> Row:
        return Row("latency", "tcgen05.mma", f"N {n}", "cycles", predicted, 100, use)

    rows = {row.key: row for row in (row("calibrated", 150, 64), row("validated", 103, 80), row("validated", 99, 96))}
    assert "MMA latency 2.0 %" in b200_page.error_line(rows)
    page = b200_page.render(rows)
    assert "| calibrated | 1 | 50.0 |" in page and "| validated | 2 | 2.0 |" in page
    assert "| 5 | no |" in page and "| 5 | yes |" in page
