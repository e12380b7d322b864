"""The sweep over M: what it counts as inexact, its floors, its tables, and a small one on the CPU."""

from __future__ import annotations

import json

import pytest
import torch

from scripts.bench import sweep, sweep_report

RECORD = {
    "chip": "NVIDIA H200",
    "median_us": {
        "auto": {"8x512x256": 40.0, "1x512x256": 10.0, "1x64x128": 3.0},
        "auto+again": {"8x512x256": 41.0, "1x512x256": 10.0, "1x64x128": 3.0},
        "cublas_one_gemm": {"8x512x256": 50.0, "1x512x256": 5.0},
    },
    "left_out": {},
    "floor_us": {"8x512x256": [10.0, 1.0], "1x512x256": [2.0, 8.0]},
    "exactness": {"8x512x256 every code": {"elements": 4096, "ours": 3, "torch fp32": 1}},
}


def test_tables_by_hand():
    header, rows = sweep_report.rows(RECORD)
    assert header[:5] == ["N x K", "M", "ours, us", "cuBLAS fp16, us", "ours / cuBLAS fp16"]
    assert rows[0] == ["512 x 256", "1", "10.0", "5.0", "2.00", "2.0", "8.0", "1.25"]
    assert rows[1] == ["512 x 256", "8", "40.0", "50.0", "0.80", "10.0", "1.0", "4.00"]
    assert rows[2] == ["64 x 128", "1", "3.0", "-", "-", "-", "-", "-"]
    assert rows[3] == ["512 x 256", "geomean", "", "", "1.265", "", "", ""]  # the root of 2.00 * 0.80
    assert rows[4][:2] == ["64 x 128", "geomean"] and rows[4][4] == "-" and len(rows) == 5
    assert sweep_report.summary(RECORD) == (["M", "512 x 256"], [["1", "10.0 (2.00)"], ["8", "40.0 (0.80)"]])
    counts = [["8 512 256", "every code", "4,096", "3", "1"]]
    assert sweep_report.exactness(RECORD) == (["M N K", "data", "outputs", "ours", "torch fp32"], counts)
    assert [sweep_report.us_text(us) for us in (9.96, 999.94, 1234.5)] == ["10.0", "999.9", "1234"]


def test_outputs_outside_the_tolerance_are_counted():
    want = torch.tensor([1.0, 2.0, 0.0, 1e6, -1e6, 1e6, float("nan"), float("nan")], dtype=torch.float64)
    got = torch.tensor([1.001, 2.01, 0.002, float("inf"), float("inf"), 65504.0, float("nan"), 0.0]).half()
    assert sweep.outside(got, want) == 5  # all but the first, an overflow of the right sign, and a NaN


def test_floors_count_operands_once_and_multiply_adds_at_the_peak():
    memory, tensor = sweep.floors_us((256, 4096, 7168), "NVIDIA H200")
    operands = (256 + 2 * 4096) * 7168 * (1 / 2 + 1 / 16)
    assert memory == pytest.approx((operands + 2 * 256 * 4096) / 4.8e12 * 1e6)
    assert tensor == pytest.approx(4 * 256 * 4096 * 7168 / 989.5e12 * 1e6)
    assert sweep.floors_us((1, 64, 64), "some other chip") is None


def test_a_sweep_on_the_cpu_is_measured_written_and_shown_again(tmp_path, capsys):
    path = tmp_path / "sweep.json"
    words = ["--device", "cpu", "--rows", "1,3", "--weights", "64x128", "--repeats", "2", "--json", str(path)]
    assert sweep.main(words) == 0
    first = capsys.readouterr().out
    record = json.loads(path.read_text())
    variants = ["auto", "auto+again", "torch_bf16", "torch_fp32"]
    assert {name: list(times) for name, times in record["median_us"].items()} == {
        name: ["1x64x128", "3x64x128"] for name in variants
    }
    assert record["left_out"] == {}
    kinds = ("leaderboard", "every code", "full")
    assert record["exactness"] == {f"3x64x128 {kind}": {"elements": 192, "ours": 0, "torch fp32": 0} for kind in kinds}
    assert sweep.main(["--record", str(path)]) == 0
    assert capsys.readouterr().out == first


def test_a_kernel_that_is_wrong_is_left_out_and_counted(monkeypatch, capsys):
    def wrong(data):
        data[-1].fill_(1.0)
        return data[-1]

    monkeypatch.setattr(sweep.compare, "custom_kernel", wrong)
    monkeypatch.setattr(sweep, "custom_kernel", wrong)
    monkeypatch.setattr(sweep_report, "shapes_of", lambda record: [])
    assert sweep.main(["--device", "cpu", "--rows", "2", "--weights", "64x128", "--repeats", "1"]) == 1
    said = capsys.readouterr().out
    assert "left out: auto:" in said
    of_full = said.rpartition("2 64 128")[2].split()
    assert of_full[:2] == ["full", "128"] and int(of_full[2]) > 100


def test_draws_are_of_three_kinds_and_counted_together(monkeypatch):
    leaderboard, codes, full = (sweep.random_data(kind, (2, 64, 128), 7, "cpu") for kind in sweep.DATA)
    assert {int(code) for code in leaderboard[0].view(torch.uint8).unique()} <= {x & 0xBB for x in range(256)}
    assert torch.equal(codes[1].view(torch.uint8), full[1].view(torch.uint8))
    assert not torch.equal(codes[0].view(torch.uint8), leaderboard[0].view(torch.uint8))
    assert all(torch.equal(codes[i].float(), leaderboard[i].float()) for i in (3, 4, 5))
    assert float(codes[4].float().max()) <= 1 < float(full[4].float().abs().max())
    monkeypatch.setitem(sweep.SEEDS, "cpu", (1, 2, 3))
    monkeypatch.setattr(sweep, "outside_of_draw", lambda data, device: {"elements": 5, "ours": 1})
    assert sweep.exactness((2, 64, 128), "full", "cpu") == {"elements": 15, "ours": 3}
