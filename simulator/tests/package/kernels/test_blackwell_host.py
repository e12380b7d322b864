"""The Blackwell backend's own host code on the simulator: edge sizes, both scale layouts, NaN, refusals."""

from __future__ import annotations

import re
from itertools import cycle

import pytest

from simulator.tests.sim_kit import built, nvcc
from simulator.validation import datasets
from simulator.validation.backend_table import BACKENDS, BLACKWELL, CHOSEN, MODES, Problem, Run, execute, small


@pytest.fixture(scope="module")
def library():
    nvcc()
    return built("libcustom_kernel_sim.so")


# Each configuration in one mode, and the plan's choice in two; `make blackwell-table` runs the rest.
CASES = [*zip(BLACKWELL.shares(), cycle(MODES), strict=False), (CHOSEN, "late"), (CHOSEN, "random:3")]


@pytest.mark.parametrize(("config", "mode"), CASES)
def test_small_problems_are_right_and_clean(library, config, mode):
    row = execute(BLACKWELL, Run("small", config, mode, BLACKWELL.possible(small(), config)), library)
    assert row["wrong"] == []
    assert (row["right"], row["verdict"]) == (row["problems"], "clean"), row


def test_every_configuration_has_a_mode():
    assert {config for config, _ in CASES} == {CHOSEN, *BLACKWELL.shares()}
    assert {mode for _, mode in CASES} == set(MODES)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_recorded_rows_cover_every_configuration_and_are_right(backend):
    rows = [row for row in datasets.read("backends") if row["backend"] == backend.name]
    assert {row["config"] for row in rows} == {CHOSEN, *backend.shares()}
    assert {mode for row in rows for mode in row["modes"]} == set(MODES)
    assert all(row["right"] == row["problems"] and row["verdict"] == "clean" for row in rows)


@pytest.mark.parametrize(
    ("config", "problem", "named"),
    [
        ("m1n1", Problem(1, 1, 64), {"NVFP4_BLACKWELL_CONFIG", "m1n1", *BLACKWELL.shares()}),
        ("m256n192k4", Problem(1, 1, 768), {"k", "768", "832", "blackwell", "m256n192k4"}),
    ],
)
def test_problems_that_a_configuration_cannot_run_are_refused(library, config, problem, named):
    row = execute(BLACKWELL, Run("refused", config, "eager", [problem]), library)
    assert row["right"] == 0
    assert named <= set(re.findall(r"\w+", row["wrong"][0])), row
