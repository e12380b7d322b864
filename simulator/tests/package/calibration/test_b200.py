"""The comparison with published B200 measurements: its data, its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.calibration import packed
from simulator.calibration.b200 import board, ladder, page, sharing
from simulator.calibration.rows import Row, load, parameters_digest, parameters_of


def test_the_rows_were_predicted_with_the_chips_parameters():
    assert packed.read("b200_predicted")[0]["parameters_sha256"] == parameters_digest("b200")


def test_the_error_covers_only_rows_that_validate():
    def row(use: str, predicted: float, n: int) -> Row:
        return Row("latency", "tcgen05.mma", f"N {n}", "cycles", predicted, 100, use)

    rows = {row.key: row for row in (row("calibrated", 150, 64), row("validated", 103, 80), row("validated", 99, 96))}
    assert "MMA latency 2.0 %" in page.error_line(rows)
    text = page.render(rows)
    assert "| calibrated | 1 | 50.0 |" in text and "| validated | 2 | 2.0 |" in text
    assert "| 5 | no |" in text and "| 5 | yes |" in text


README = """
Kernel name | TFLOPS
CuBLAS      | 1358.69
v0 (sm80)   |  400.00
v1a (basic) |  200.00
v7b (128)   | 1000.00
"""


def learn_cuda(folder: Path) -> Path:
    (folder / ladder.PART).mkdir()
    (folder / ladder.PART / "README.md").write_text(README)
    return folder


def test_the_ladder_takes_published_rates_as_times_of_a_call(tmp_path, monkeypatch):
    """4096 cubed at 1 PFLOP/s takes 137.4 us; v0 is of another generation, and a library has no program."""
    folder = learn_cuda(tmp_path)
    products = 2 * 4096**3
    assert ladder.published(folder) == {name: pytest.approx(products / rate * 1e-6)
                                             for name, rate in (("v0", 400), ("v1a", 200), ("v7b", 1000))}  # fmt: skip
    monkeypatch.setattr(ladder, "call_us", lambda folder, name, ghz=0: {"v1a": 700.0, "v7b": 100.0 - ghz}[name])
    rows = list(ladder.ladder_rows(folder, []))
    assert [(row.group, row.parameters, row.predicted, row.use) for row in rows] == [
        ("ladder", "v1a 4096", 700.0, "validated"), ("ladder", "v7b 4096", 100.0, "validated"),
    ]  # fmt: skip
    assert rows[1].error == pytest.approx(100 * (100 / 137.43895 - 1), abs=0.01)
    both = {row.key: row for row in rows}
    assert page.order_line(both).startswith("1 of 1 pairs")
    assert page.error_line(both).endswith("kernels of others: mean 15 % over 2")


def test_one_kernel_of_the_ladder_gives_the_clock_and_the_others_validate_it(tmp_path, monkeypatch):
    folder = learn_cuda(tmp_path)
    readme = folder / ladder.PART / "README.md"
    readme.write_text(readme.read_text() + "v7c (store)  |  990.00\n")
    times = {"v1a": 690.0, "v7b": 137.5, "v7c": 50.0}
    monkeypatch.setattr(ladder, "call_us", lambda folder, name, ghz=0: times[name] if ghz == 1.34 else 0)
    rows = {row.key: row for row in ladder.own_clock_rows(folder, [])}
    assert [(row.parameters, row.use) for row in rows.values()] == [
        ("v1a 4096", "validated"), ("v7b 4096", "validated"), ("v7c 4096", "calibrated"),
    ]  # fmt: skip
    assert len(list(ladder.own_clock_rows(folder, ["v7b"]))) == 1
    line = page.order_line(rows, ladder.OWN_CLOCK)
    assert line.startswith("2 of 3 pairs") and " at 1.34 GHz; " in line
    said = page.error_line(rows)
    assert said.endswith("kernels of others: not compared with a B200, 0 % over 2 at their machine's 1.34 GHz")
    text = page.render(rows)
    assert "1.34 GHz, the clock of the machine that timed them | validated | 2 |" in text and "| 12 | yes |" in text


def test_the_error_fits_where_a_chips_report_keeps_it():
    assert len(page.error_line(load("b200"))) < 256  # chip.h: char error[256]


def test_public_kernels_stand_beside_their_authors_times_and_in_order_of_them(tmp_path, monkeypatch):
    def row(kernel: str, case: str, predicted: float, published: float, **more: bool) -> dict:
        times = {"theirs": {"back_to_back_us": predicted}, "published_us": published}
        return {"kernel": kernel, "case": case, **times, **more}

    file = tmp_path / "public.json"
    stored = [row("a", "1x2x3", 9, 10), row("b", "1x2x3", 8, 12, older=True), row("b", "4x5x6", 11, 10)]
    file.write_text(json.dumps({"rows": stored}))
    monkeypatch.setattr(page, "PUBLIC", file)
    rows = page.public_rows()
    assert [(found.name, round(found.error or 0), found.older) for found in rows.values()] == [
        ("a", -10, False), ("b", -33, True), ("b", 10, False),
    ]  # fmt: skip
    text = page.render({})
    assert "0 of 1 at 1.965 GHz, 0 of 0 at" in page.public_order()
    assert f"| {page.SETS['public'][0]} | validated | 3 | 10.0 | 17.8 |" in text
    assert "1 of 3 of public" in text


def test_public_rows_at_the_boards_clock_validate_but_for_the_fitted_one(tmp_path, monkeypatch):
    def row(kernel: str, case: str, slower: float) -> dict:
        both = {"theirs": {"back_to_back_us": 10}}
        at_board = {"without": {"theirs": {"back_to_back_us": 10 * slower}}, "with": both}
        return {"kernel": kernel, "case": case, "published_us": 12, **both, "board": at_board}

    file = tmp_path / "public.json"
    file.write_text(json.dumps({"rows": [row(*board.FITTED, 1.2), row("another", "1x2x3", 1.5)]}))
    monkeypatch.setattr(page, "PUBLIC", file)
    found = [(row.name, row.use, round(row.error)) for row in page.public_rows().values() if "without" in row.group]
    assert found == [(board.FITTED[0], "calibrated", 0), ("another", "validated", 25)]


def test_the_board_has_an_h200s_mechanisms_where_machine_code_is_timed(tmp_path):
    files = {name: json.loads(board.chip_file(name, tmp_path / name).read_text()) for name in board.CLOCK_GHZ}
    without, having = (files[name]["parameters"] for name in ("without", "with"))
    h200 = parameters_of("h200")
    assert set(having) == set(without), "one file, whose mechanisms are on where machine code is timed"
    missing = set(h200) - set(having)
    assert missing == {name for name in h200 if name.startswith(board.LEFT_OUT) and name not in having}
    alone = set(board.mechanisms()) - {name for name, entry in h200.items() if "machine" in entry}
    off = {name for name in alone if having[name]["value"] == 0}
    assert "launch_flush" in off and having["launch_flush"]["machine"] == h200["launch_flush"]["value"]
    assert without["sm_clock_tensor"]["value"] < having["sm_clock_tensor"]["value"] < 1.965
    assert without["sm_clock"]["value"] == having["sm_clock"]["value"] == 1.965


SHARED = "mode,cluster_size,sharing_group,smem_width,smem_height,gpu_time_ns,tma_ld_bytes_self,tma_ld_bytes_mcast\n"


def test_shared_tiles_are_compared_by_what_all_sms_get(tmp_path):
    table = tmp_path / sharing.PART / "tma2dmcast_sweep_results.csv"
    table.parent.mkdir()
    rows = ["3,1,16,128,32,1000,9000000,0", "3,1,16,128,64,1000,9000000,0", "1,4,4,128,32,1000,1000000,3000000"]
    rows += ["3,1,16,64,32,1000,1,0", "3,1,16,128,24,1000,1,0"]  # other widths and heights
    table.write_text(SHARED + "\n".join(rows) + "\n")
    found = sharing.published(tmp_path)
    assert {key: len(of) for key, of in found.items()} == {("3", "1", "16"): 2, ("1", "4", "4"): 1}
    apart, together = found["3", "1", "16"][0], found["1", "4", "4"][0]
    assert (apart.rate, together.rate) == (pytest.approx(9.0), pytest.approx(4.0))
    assert apart.tile == 16384 and apart.delivered == 24 * 4 * 16384 * 144  # nine groups of 16 of 148 SMs
    assert together.delivered == 24 * 4 * 16384 * 148
    row = apart.row(us=apart.delivered / 9.9e6)
    assert (row.group, row.use, row.error) == ("sharing", "validated", pytest.approx(10))
    assert row.parameters == "no clusters, shared by 16, bytes 16384"
    assert together.row(1).parameters == "clusters, multicast, shared by 4, bytes 16384"
    assert sharing.Shared("3", "1", "16", "8", 5.0).row(1).use == "calibrated"  # a tile of 4 KB
    alone = sharing.Shared("2", "4", "4", "32", 5.0).row(1)
    assert alone.parameters == "clusters, own tiles, shared by 1, clusters of 4, bytes 16384"
