"""Simulated times of the Blackwell and GeForce kernels: their record, their pages, and the README's table."""

from __future__ import annotations

import json
from statistics import fmean

import pytest

from simulator.calibration import packed
from simulator.calibration.b200 import board
from simulator.calibration.calls import blackwell, board_times
from simulator.calibration.calls.geforce import PAGE, RECORD, floors, render
from simulator.calibration.packed import dense

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
    assert rendered == dense(json.loads(rendered)) + "\n"
    blackwell.TEXT.write_text("older")
    assert blackwell.main(["--check"]) == 1 and "BLACKWELL_TIMES.md: not what" in capsys.readouterr().err


def test_predictions_are_as_wide_as_the_clocks_largest_error_and_of_the_leaderboards_clock():
    data = json.loads(blackwell.RESULT.read_text())
    largest = max(
        abs(row["board"]["without"]["theirs"]["back_to_back_us"] / row["published_us"] - 1)
        for row in board_times.public()["rows"]
    )
    assert data["sm_clock_ghz"] == board.CLOCK_GHZ["without"]
    for shape, found in data["predictions"]["blackwell"].items():
        assert found["low_us"] < found["us"] < found["high_us"]
        assert found["high_us"] == pytest.approx(found["us"] * (1 + largest), rel=0.005)
        least = min(found["tiles_us"].values())
        assert found["tiles_us"][found["config"]] <= least * (1 + PLACES), shape
    # The same calls as in the public kernels' document, but for where the host puts the operands.
    for row in board_times.public()["rows"]:
        if row["problem"] == "dual":
            ours = row["board"]["without"]["ours"]["back_to_back_us"]
            assert data["times"][row["case"]]["back_to_back_us"] == pytest.approx(ours, rel=PLACES)


def test_the_grouped_kernels_choose_a_good_tile():
    found = blackwell.grouped()
    assert [row["case"] for row in found] == [
        "8 groups x 4096 x 7168", "8 groups x 7168 x 2048", "2 groups x 3072 x 4096", "2 groups x 4096 x 1536",
    ]  # fmt: skip
    for row in found:
        least = min(row["tiles_us"].values())
        # The transposed tile may be chosen, which is none of these.
        assert len(row["tiles_us"]) == 4 and row["ours"]["back_to_back_us"] <= least * (1 + PLACES)
        assert f" {least:.1f} " in blackwell.grouped_tiles()


@pytest.mark.parametrize("older", [False, True])
def test_times_of_an_earlier_chip_file_are_said_to_be_of_one(tmp_path, monkeypatch, older: bool):
    found = json.loads(board_times.PUBLIC.read_text())
    found["rows"] = [row | {"older": older and row["problem"] == "grouped"} for row in found["rows"]]
    file = tmp_path / "public.json"
    file.write_text(json.dumps(found))
    monkeypatch.setattr(board_times, "PUBLIC", file)
    sentence = blackwell.older_text()
    assert ("gau-nernst v6b" in sentence) == ("earlier parameters" in sentence) == older


def test_ours_stands_beside_the_best_published_time_and_the_best_kernel_simulated_beside(tmp_path, monkeypatch):
    def row(case: str, kernel: str, theirs: float, ours: float, published: float) -> dict:
        both = {
            "theirs": {"back_to_back_us": theirs, "isolated_us": theirs - 1},
            "ours": {"back_to_back_us": ours, "isolated_us": ours},
        }
        slower = {who: {key: us * (2 if who == "ours" else 1) for key, us in of.items()} for who, of in both.items()}
        variants = {"without": both, "with": slower}
        return {"kernel": kernel, "case": case, "problem": "dual", "published_us": published, **both, "board": variants}

    file = tmp_path / "public.json"
    rows = [row("1x2x3", "a", 11, 5, 12.5), row("1x2x3", "b", 20, 5, 10), row("4x5x6", "a", 44, 20, 44)]
    file.write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(board_times, "PUBLIC", file)
    monkeypatch.setattr(board_times, "NOT_SIMULATED_US", {"4x5x6": 40.0})
    first = ["1 2 3", "5.0 to 10.0", "10.0", "0.50 to 1.00", "11.0", "0.45 to 0.91"]
    second = ["4 5 6", "20.0 to 40.0", "40.0", "0.50 to 1.00", "44.0", "0.45 to 0.91"]
    both = ["dual GEMM, geometric mean", "10.0 to 20.0", "20.0", "0.50 to 1.00", "22.0", "0.45 to 0.91"]
    both = [f"**{cell}**" for cell in both]
    assert board_times.board_rows() == [first, second, both]
    assert board_times.board_rows(in_full=()) == [both]
    # Alone: 5 of 10 and 20 of 43, 10 of 10 and 40 of 43.
    assert "dual GEMM 0.48 to 0.96" in board_times.alone_text()
    assert "| a | 1x2x3 | 12.5 | 11.0 (-12%) | 11.0 (-12%) |" in board_times.public_errors()


def test_every_published_time_is_at_or_below_that_of_each_simulated_kernel():
    for case in board_times.cases():
        theirs = [row["published_us"] for row in board_times.public()["rows"] if row["case"] == case.name]
        assert theirs and case.published <= min(theirs)
    dual = {case.name: case.published for case in board_times.cases() if case.problem == "dual"}
    assert dual == {"256x4096x7168": 12.4, "512x4096x7168": 15.3, "256x3072x4096": 9.43, "512x3072x7168": 14.4}


def test_the_geforce_page_is_what_the_record_says():
    assert PAGE.read_text() == render(json.loads(RECORD.read_text()))


def test_the_geforce_floors_count_both_products_and_every_byte_once():
    memory, tensor = floors(256, 4096, 7168)
    # fp4 of three operands and a sixteenth of their elements in scale factors; fp16 out.
    assert memory == pytest.approx(((256 + 2 * 4096) * 7168 * (0.5 + 1 / 16) + 256 * 4096 * 2) / 1.792e6)
    assert tensor == pytest.approx(2 * 2 * 256 * 4096 * 7168 / (170 * 4096 * 2.407e3))


def test_256_rows_are_near_a_geforces_the_memory_floor():
    """At the boost clock; a card that runs at 2.88 GHz would come as near as 1.24 times."""
    rows = [row for row in json.loads(RECORD.read_text())["ours"] if row["shape"][0] == 256]
    assert len(rows) == 2
    for row in rows:
        assert row["alone_us"] <= 1.6 * floors(*row["shape"])[0], row


def test_public_kernels_on_an_rtx_5090_stay_below_its_peak_and_near_their_measured_rates():
    """gau-nernst/learn-cuda, as simulated and as its author measured at 400 W."""
    rows = [list(row.values()) for row in packed.read("rtx5090_rows")[1]]
    peaks = {"bf16": 209.5, "int8": 838, "mxf8": 838}
    errors = [abs(float(row[-1]) / float(row[-2]) - 1) for row in rows]
    assert {row[1] for row in rows} == set(peaks) and fmean(errors) <= 0.15
    assert all(float(row[-1]) <= 1.02 * peaks[row[1]] for row in rows)


def test_the_clocks_bias_is_a_mean_and_the_row_that_it_flatters_most(monkeypatch):
    def row(case, published, problem="dual", **us):
        board_of = {variant: {"theirs": {"back_to_back_us": time}} for variant, time in us.items()}
        return {"kernel": "k", "case": case, "problem": problem, "published_us": published, "board": board_of}

    fitted = row("x", 1.0, without=9.0) | dict(zip(("kernel", "case"), board.FITTED, strict=True))
    rows = [row("slow", 10.0, without=16.0, **{"with": 20.0}), row("fast", 10.0, without=4.0, **{"with": 5.0})]
    rows += [fitted, row("v", 1.0, problem="gemv", without=9.0)]
    monkeypatch.setattr(board_times, "public", lambda: {"rows": rows})
    said = board_times.clock_bias()
    assert "are 0.80 to 1.00 in geometric mean, and 0.40 to 0.50 where the clock flatters most (k fast)" in said
    assert board_times.clock_errors() == "60.0 to 75.0 % off in the mean, 60 to 100 % at most"
