"""The Blackwell kernels' PTX on the simulator: right and clean; each synchronisation that is taken out is reported."""

from __future__ import annotations

import pytest

from simulator.tests.sim_kit import nvcc
from simulator.validation.mutants.backends import blackwell_grouped as grouped
from simulator.validation.mutants.backends.blackwell_dual import (
    CONFIGS,
    PLACES,
    Kernel,
    entries,
    is_right,
    mutant_k,
    mutants,
)


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("mode", "seed"), [("eager", 0), ("random", 1)])
def test_a_kernel_is_right_and_clean(name, mode, seed):
    kernel = Kernel(name, entries()[name], mode, seed)
    for dependent in range(2 if mode == "eager" else 1):
        kernel.output[:] = 0xFFFF
        assert kernel.run(dependent) == 0, kernel.findings
        assert kernel.verdict == "clean", kernel.findings
        assert is_right(kernel)


LEAST = {"m256n64": 25, "m128n64": 10, "m256n192k2": 20, "m256n128s": 23}


@pytest.mark.parametrize("name", PLACES)
def test_each_missing_synchronisation_is_reported(name):
    count = 0
    for what, text, verdict, kinds in mutants(name, entries()[name]):
        kernel = Kernel(name, text, n=CONFIGS[name].tile_n, k=mutant_k(name))
        kernel.run()
        if what == "no griddepcontrol.wait":
            kernel.run(dependent=1)
        accepted = (verdict, "error", "review" if kernel.kinds == {"unpipelined-copy"} else verdict)
        assert kernel.verdict in accepted, (what, kernel.findings)
        assert kinds & kernel.kinds, (what, kernel.findings)
        count += 1
    assert count >= LEAST[name]


@pytest.mark.parametrize("name", grouped.CONFIGS)
def test_a_grouped_kernel_is_right_and_clean(name):
    kernel = grouped.Kernel(name, grouped.entries()[name], "random", 3)
    for dependent in range(2):
        for output in kernel.outputs:
            output[:] = 0xFFFF
        assert kernel.run(dependent) == 0, kernel.findings
        assert kernel.verdict == "clean", kernel.findings
        assert kernel.is_right()


LEAST_GROUPED = {"m256n128": 18, "m128n256": 21}


@pytest.mark.parametrize("name", grouped.PLACES)
def test_each_missing_synchronisation_of_a_grouped_kernel_is_reported(name):
    count = 0
    for what, text, verdict, kinds in grouped.mutants(name, grouped.entries()[name]):
        kernel = grouped.Kernel(name, text)
        kernel.run()
        accepted = (verdict, "error", "review" if kernel.kinds == {"unpipelined-copy"} else verdict)
        assert kernel.verdict in accepted, (what, kernel.findings)
        assert kinds & kernel.kinds, (what, kernel.findings)
        count += 1
    assert count >= LEAST_GROUPED[name]
