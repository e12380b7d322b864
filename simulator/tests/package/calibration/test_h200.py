"""The comparison with an H200: its data, its report, and the microbenchmarks' program on simulated time."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from simulator.calibration import packed
from simulator.calibration.benchmarks.__main__ import rows_of
from simulator.calibration.h200 import targets
from simulator.calibration.h200.__main__ import merged
from simulator.calibration.h200.measured import ratios, rounds
from simulator.calibration.h200.page import RECORDED, TITLES, error_line, measured_micro, micro_key, render, worst
from simulator.calibration.rows import ROOT, Row, load, parameters_digest, summary
from simulator.python.machine_code.assemble import VARIABLE, by_machine_code, nvdisasm
from simulator.python.toolchain import BUILD


def test_the_error_line_has_calibrating_and_validating_rows_apart():
    rows = {
        "a": Row("micro", "a", "", "us", 104, 100, "calibrated"),
        "b": Row("kernels", "b", "", "us", 80, 100, "validated"),
    }
    line = error_line(rows)
    calibrated, validated = line.split("; ")
    assert "mean 4.0 %, largest 4 %" in calibrated and "mean 20.0 %, largest 20 %" in validated


def test_the_rows_were_predicted_with_the_chips_parameters():
    assert packed.read("h200_predicted")[0]["parameters_sha256"] == parameters_digest("h200")


def test_what_was_measured_is_what_the_card_gave():
    recorded = {group: packed.read_dense(ROOT / path) for group, path in RECORDED.items()}
    micro = measured_micro()
    ladder = {f"{row['kernel']} {row['size']}": row["median_us"] for row in recorded["ladder"]["rows"]}
    rows = load("h200").values()
    assert {"micro", "kernels", "ladder"} <= {row.group for row in rows} <= set(TITLES)
    for row in rows:
        if row.group == "micro":
            measured = micro[f"{row.name} {row.parameters}".strip()]
        elif row.group == "ladder":
            measured = ladder[row.parameters]
        elif row.group == "rounds":
            measured = rounds.measured_ratio(int(row.name.split()[1]), row.parameters)
        elif row.group == "sides":
            _, number, side = row.name.split()
            measured = rounds.measured_us(int(number), side, row.parameters)
        else:
            shape, _, tile = row.parameters.partition(" ")
            measured = recorded[row.group]["median_us"][tile or "auto"][shape]
        assert row.measured == pytest.approx(measured, rel=1e-5), row  # the data sets have six digits
        assert row.use == ("calibrated" if row.group == "micro" else "validated"), row
        assert row.predicted != row.measured or row.group == "micro", "a prediction that is the measurement is none"


def test_rows_of_files_replace_the_committed_ones_beside_what_is_recorded_now(tmp_path):
    row = next(row for row in load("h200").values() if row.group == "micro")
    made = dataclasses.replace(row, predicted=1234.5, measured=0.5, older=False)
    new = dataclasses.replace(row, name="never measured", measured=7)
    file = tmp_path / "rows"
    file.write_text("".join(json.dumps(dataclasses.asdict(each)) + "\n" for each in (made, new)))
    rows = merged([file])
    assert len(rows) == len(load("h200")) + 1
    assert rows[row.key] == dataclasses.replace(row, predicted=1234.5, older=False)
    assert rows[new.key].measured == 7


def test_a_rounds_ratio_is_that_of_the_smallest_weights_with_few_rows():
    shapes = {"64x512x512": 1, "256x512x512": 1, "384x512x512": 1, "64x1024x512": 1}
    assert rounds.shapes_of({"measurement": {"shapes": shapes}}) == ["64x512x512", "256x512x512"]


def test_a_round_counts_once_and_its_sign_where_it_moved():
    def row(number: int, shape: str, predicted: float, measured: float) -> Row:
        return Row("rounds", f"round {number}", shape, "of the base", predicted, measured, "validated")

    rows = [row(9, "a", 0.8, 0.9), row(9, "b", 0.45, 0.4), row(8, "a", 1.1, 0.9), row(10, "a", 1.01, 0.99)]
    found = ratios.ratios(rows)
    assert [ratio.round for ratio in found] == ["0008", "0009", "0010"] and found[1].shapes == ("a", "b")
    assert found[1].predicted == pytest.approx(0.6) and found[1].measured == pytest.approx(0.6)
    assert [(ratio.moved, ratio.right) for ratio in found] == [(True, False), (True, True), (False, False)]
    assert ratios.rms(found) == pytest.approx(((200 / 9) ** 2 / 3 + (200 / 99) ** 2 / 3) ** 0.5)


def test_a_missed_target_is_marked():
    def rows(group: str, *errors: float) -> list[Row]:
        return [Row(group, f"round {i}", "", "us", 100 + off, 100, "validated") for i, off in enumerate(errors)]

    groups = {"micro": rows("micro", 4, -6), "kernels": rows("kernels", 1, -13), "ladder": rows("ladder", 9, -8)}
    groups["rounds"] = rows("rounds", 3, -3)
    described = {line[0]: (line[2], line[3]) for line in targets.lines(groups)}
    assert described["microbenchmarks, which calibrate"] == ("1 of 2; median 5.0 %", "**no**")
    assert described["our Hopper kernels: mean"] == ("7.0 %", "**no**")
    assert described["our Hopper kernels: largest"] == ("13.0 %", "**no**")
    assert described["measured rounds' ratios: rms"] == ("3.0 % over 2", "yes")
    assert described["their signs"] == ("2 of 2", "yes")
    assert described["fast.cu's ladder: mean"] == ("8.5 % over 2", "yes")


def test_the_report_has_a_line_for_each_row():
    rows = load("h200")
    lines = render(rows).splitlines()
    assert sum(line.endswith((" calibrated |", " validated |", ", older model |")) for line in lines) == len(rows)


def test_the_worst_kinds_are_named_once_each_by_their_worst_row():
    off = {"alu_rate warps 1": 120, "alu_rate warps 2": 150, "box_rate": 130, "load_rate L2": 105}
    rows = {
        name: Row("micro", name.split()[0], name.partition(" ")[2], "cycles", value, 100, "calibrated")
        for name, value in off.items()
    }
    lines = worst(rows, 3).splitlines()[2:]
    assert [line.split(" | ")[1:4] for line in lines] == [
        ["alu_rate warps 2", "+50 %", "2"], ["box_rate ", "+30 %", "1"],
    ]  # fmt: skip


def test_errors_are_percent_of_the_measured():
    rows = [Row("micro", "a", str(i), "us", value, 100, "calibrated") for i, value in enumerate((104, 90, 120))]
    assert [row.error for row in rows] == pytest.approx([4, -10, 20])
    assert summary(rows) == "3 | 10.0 | 11.3 | 20.0 | 1 (33 %) | 2 (67 %)"
    assert Row("micro", "a", "", "ns", 5, 0, "calibrated").error is None


def test_the_microbenchmarks_program_tells_simulated_time_under_the_runtime_shim(tmp_path):
    program = BUILD / "micro_sim"
    if not program.is_file() or nvdisasm() is None:
        pytest.skip("build/micro_sim is not built here, or there is no nvdisasm")
    own = {**os.environ, "NVFP4_SIMULATE_TIME": "h200"}

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        env = {**own, VARIABLE: str(folder)}
        return subprocess.run(
            [program, "synchronisation"], env=env, capture_output=True, text=True, check=True, timeout=500
        )

    done = by_machine_code(run, tmp_path)
    committed = load("h200")
    for row in rows_of(done.stdout):
        assert row["value"] == pytest.approx(
            committed[f"micro {micro_key(row['name'], row['parameters'])}"].predicted, rel=0.01
        ), row
    own["NVFP4_SIMULATE_TIME"] = "h300"
    refused = subprocess.run([program, "synchronisation"], env=own, capture_output=True, text=True, timeout=500)
    assert refused.returncode != 0 and "NVFP4_SIMULATE_TIME is 'h300'" in refused.stderr
