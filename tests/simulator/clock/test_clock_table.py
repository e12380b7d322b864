"""The committed comparison with an H200, and the microbenchmarks' program under simulated time."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from scripts.bench.micro.__main__ import rows_of
from scripts.common.toolchain import BUILD
from scripts.evidence.clock import plot
from scripts.evidence.clock.__main__ import key
from scripts.evidence.clock.table import (
    DATA,
    DOCUMENT,
    ERROR,
    RECORDED,
    ROOT,
    TITLES,
    Row,
    chip_digest,
    error_line,
    load,
    render,
    summary,
)


def test_the_page_is_the_datas():
    assert (ROOT / DOCUMENT).read_text() == render(load())


def test_the_line_of_every_report_is_the_datas():
    assert (ROOT / ERROR).read_text() == error_line(load()) + "\n"
    rows = {
        "a": Row("micro", "a", "", "us", 104, 100, "calibrated"),
        "b": Row("kernels", "b", "", "us", 80, 100, "validated"),
    }
    line = (
        "microbenchmarks, which calibrate: mean 4.0 %, largest 4 %; our Hopper kernels, which validate: mean 20.0 %, "
    )
    assert error_line(rows) == line + "largest 20 %"


def test_the_rows_were_predicted_with_the_chips_file_as_it_is():
    assert json.loads((ROOT / DATA).read_text())["chip_sha256"] == chip_digest()


def test_what_was_measured_is_what_the_card_gave():
    recorded = {group: json.loads((ROOT / path).read_text()) for group, path in RECORDED.items()}
    micro = {key(row): row["value"] for row in recorded["micro"]["rows"]}
    ladder = {f"{row['kernel']} {row['size']}": row["median_us"] for row in recorded["ladder"]["rows"]}
    rows = load().values()
    assert {"micro", "kernels", "ladder"} <= {row.group for row in rows} <= set(RECORDED)
    for row in rows:
        if row.group == "micro":
            measured = micro[f"{row.name} {row.parameters}".strip()]
        elif row.group == "ladder":
            measured = ladder[row.parameters]
        else:
            shape, _, tile = row.parameters.partition(" ")
            measured = recorded[row.group]["median_us"][tile or "auto"][shape]
        assert row.measured == measured, row
        assert row.use == ("calibrated" if row.group == "micro" else "validated"), row
        assert row.predicted != row.measured or row.group == "micro", "a prediction that is the measurement is none"


def test_the_picture_is_drawn_of_the_rows():
    assert plot.digest(load()) in (ROOT / plot.PICTURE).read_text()
    rows = {
        "a": Row("micro", "a", "", "us", 104, 100, "calibrated"),
        "b": Row("kernels", "b", "", "us", 80, 100, "validated"),
    }
    drawn = plot.draw(rows)
    assert plot.digest(rows) in drawn and drawn == plot.draw(rows)
    assert all(f"{TITLES[group]} (1)" in drawn for group in ("micro", "kernels"))
    assert TITLES["sweep"] not in drawn
    assert plot.digest(rows) != plot.digest({**rows, "b": Row("kernels", "b", "", "us", 81, 100, "validated")})


def test_errors_are_percent_of_the_measured():
    rows = [Row("micro", "a", str(i), "us", value, 100, "calibrated") for i, value in enumerate((104, 90, 120))]
    assert [row.error for row in rows] == pytest.approx([4, -10, 20])
    assert summary(rows) == "3 | 10.0 | 11.3 | 20.0 | 1 (33 %) | 2 (67 %)"
    assert Row("micro", "a", "", "ns", 5, 0, "calibrated").error is None


def test_the_microbenchmarks_program_tells_simulated_time_under_the_runtime_shim():
    program = BUILD / "micro_sim"
    if not program.is_file():
        pytest.skip("build/micro_sim is not built here")
    own = {**os.environ, "NVFP4_SIMULATE_TIME": "h200"}
    done = subprocess.run(
        [program, "synchronisation"], env=own, capture_output=True, text=True, check=True, timeout=120
    )
    committed = load()
    for row in rows_of(done.stdout):
        assert row["value"] == pytest.approx(committed[f"micro {key(row)}"].predicted, rel=0.01), row
    own["NVFP4_SIMULATE_TIME"] = "h300"
    refused = subprocess.run([program, "synchronisation"], env=own, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "NVFP4_SIMULATE_TIME is 'h300'" in refused.stderr
