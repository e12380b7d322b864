"""The Blackwell kernel's simulated times: their document, their page, and the README's table."""

from __future__ import annotations

import json
from statistics import geometric_mean

import pytest

from scripts.evidence import readme
from simulator.calibration.calls import blackwell, board_times

PLACES = 0.05  # a time varies by as much with where the host puts the operands


def test_the_page_is_what_the_committed_data_give():
    assert blackwell.problems() == []


def test_a_stale_page_is_named(tmp_path, monkeypatch, capsys):
    for module, name in ((blackwell, "RESULT"), (blackwell, "TEXT"), (board_times, "PUBLIC")):
        path = getattr(module, name)
        copy = tmp_path / path.name
        copy.write_text(path.read_text())
        monkeypatch.setattr(module, name, copy)
    committed = board_times.PUBLIC.read_text()
    data = json.loads(blackwell.RESULT.read_text())
    data["parameters_sha256"] = "0" * 64
    blackwell.RESULT.write_text(json.dumps(data))
    assert blackwell.main(["--check"]) == 1
    assert "blackwell_calls.json: simulated with other parameters" in capsys.readouterr().err
    board_times.PUBLIC.write_text(json.dumps({"parameters_sha256": "1" * 64, "rows": blackwell.public()["rows"]}))
    assert any("public_kernels.json: simulated with other" in problem for problem in blackwell.problems())
    board_times.PUBLIC.write_text(committed)
    assert blackwell.main(["--render"]) == 0 and blackwell.main(["--check"]) == 0
    rendered = blackwell.RESULT.read_text()
    assert rendered == json.dumps(json.loads(rendered), indent=1) + "\n"
    blackwell.TEXT.write_text("older")
    assert blackwell.main(["--check"]) == 1 and "BLACKWELL_TIMES.md: not what" in capsys.readouterr().err


def test_the_table_says_that_it_is_simulated_and_how_far_off():
    data = json.loads(blackwell.RESULT.read_text())
    text = readme.clock(data)
    assert "Simulated, not measured" in text and f"{data['error']['largest_percent']} % at most" in text
    times = [found["back_to_back_us"] for found in data["times"].values()]
    assert f"| {geometric_mean(times):.1f} |" in next(line for line in text.splitlines() if "behind other" in line)
    for found in data["predictions"]["blackwell"].values():
        assert found["low_us"] < found["us"] < found["high_us"]
        largest = data["error"]["largest_percent"] / 100
        assert found["high_us"] == pytest.approx(found["us"] * (1 + largest), rel=1e-3)


def test_the_public_kernels_stand_beside_ours_on_the_same_chip_file():
    data = json.loads(blackwell.RESULT.read_text())
    assert blackwell.public()["parameters_sha256"] == data["parameters_sha256"]
    ratios = blackwell.dual_ratios(data)
    assert all(list(of) == list(data["times"]) for of in ratios.values()) and len(ratios) >= 2
    line = next(line for line in readme.clock(data).splitlines() if line.startswith("| **ours / gau-nernst v2b"))
    assert line.endswith(f"| {geometric_mean(ratios['gau-nernst v2b'].values()):.2f} |")


def test_the_grouped_benchmarks_stand_beside_a_public_kernel_on_the_same_chip_file():
    found = blackwell.grouped()
    assert [row["case"] for row in found] == [
        "8 groups x 4096 x 7168", "8 groups x 7168 x 2048", "2 groups x 3072 x 4096", "2 groups x 4096 x 1536",
    ]  # fmt: skip
    older = [row.get("older", False) for row in found]
    assert all(older) or not any(older), "ours and theirs are of one run"
    text = readme.group_clock(json.loads(blackwell.RESULT.read_text()))
    assert text.startswith("**Simulated, not measured.**")
    lines = {line.split(" | ")[0]: line for line in text.splitlines()}
    ours, theirs = (geometric_mean(row[who]["back_to_back_us"] for row in found) for who in ("ours", "theirs"))
    assert lines["| **this package**: behind other calls (simulated)"].endswith(f" | {ours:.1f} |")
    assert lines["| gau-nernst v6b: behind other calls (simulated)"].endswith(f" | {theirs:.1f} |")
    assert lines["| ours / gau-nernst v6b, behind other calls"].endswith(f" | {ours / theirs:.2f} |")
    assert lines["| speed of light at 1.5 GHz"].endswith(" | 18.8 | 10.7 | 2.4 | 1.5 | 5.2 |")
    published = geometric_mean(row["published_us"] for row in found)
    assert f"published times are {published / theirs:.2f} of its" in blackwell.grouped_doubt()
    assert f"would be {ours * published / theirs:.1f} us" in blackwell.grouped_doubt()
    for row in found:
        least = min(row["tiles_us"].values())
        # The transposed tile may be chosen, which is none of these.
        assert len(row["tiles_us"]) == 4 and row["ours"]["back_to_back_us"] <= least * (1 + PLACES)
        assert f" {least:.1f} " in blackwell.grouped_tiles()
    critical = blackwell.grouped_critical().splitlines()
    assert len(critical) == 8 and critical[1].startswith("- 8 groups x 4096 x 7168: gau-nernst v6b: ")
    assert blackwell.grouped_rows() in blackwell.render(json.loads(blackwell.RESULT.read_text()))


@pytest.mark.parametrize("older", [False, True])
def test_the_grouped_benchmarks_of_an_earlier_chip_file_are_said_to_be_of_one(tmp_path, monkeypatch, older: bool):
    found = json.loads(board_times.PUBLIC.read_text())
    found["rows"] = [row | {"older": older and row["problem"] == "grouped"} for row in found["rows"]]
    file = tmp_path / "public.json"
    file.write_text(json.dumps(found))
    monkeypatch.setattr(board_times, "PUBLIC", file)
    text = readme.group_clock(json.loads(blackwell.RESULT.read_text()))
    sentence = next((part for part in text.split(". ") if "earlier parameters" in part), "")
    assert ("gau-nernst v6b" in sentence) == older


def test_ours_over_the_best_public_kernel_is_a_range_alone_and_behind_others(tmp_path, monkeypatch):
    def row(case: str, kernel: str, theirs: float, ours: float) -> dict:
        both = {
            "theirs": {"back_to_back_us": theirs, "isolated_us": theirs - 1},
            "ours": {"back_to_back_us": ours, "isolated_us": ours},
        }
        slower = {who: {key: us * (2 if who == "ours" else 1) for key, us in of.items()} for who, of in both.items()}
        variants = {"without": both, "with": slower}
        return {"kernel": kernel, "case": case, "problem": "dual", "published_us": 12.5, **both, "board": variants}

    file = tmp_path / "public.json"
    file.write_text(json.dumps({"rows": [row("1x2x3", "a", 11, 5), row("1x2x3", "b", 20, 5)]}))
    monkeypatch.setattr(board_times, "PUBLIC", file)
    assert board_times.board_rows() == [["1 2 3", "5.0 to 10.0", "11.0", "0.45 to 0.91", "0.50 to 1.00"]]
    assert board_times.board_ratio("dual") == "0.45 to 0.91"
    assert board_times.board_ratio("dual", "isolated_us") == "0.50 to 1.00"
    assert "| a | 1x2x3 | 12.5 | 11.0 (-12%) | 11.0 (-12%) | 11.0 (-12%) |" in board_times.public_errors()
