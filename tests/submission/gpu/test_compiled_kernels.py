"""What ptxas says of the kernels, in the reports that the build keeps beside their objects."""

from __future__ import annotations

import re

import pytest

from simulator.python.toolchain import NoCompiler, built, nvcc

MAX_REGISTERS = 255


def tiles_in(table, name):
    """The least number of kernels that a report holds for each chip; kernels of no tile come on top."""
    if name == "hopper/hopper_kernels":
        persistent = sum(tile["persistent"] for tile in table["hopper"]["tiles"].values())
        # Narrow tiles with K whole and split; A and its first parts, the scale factors; the grouped GEMM and its A, for
        # few groups and many, with K shared or not.
        return len(table["hopper"]["tiles"]) + persistent + 2 * len(table["hopper"]["narrow_tiles"]) + 3 + 2 * 2 * 2
    if name in ("blackwell/blackwell_kernels", "geforce/geforce_kernels"):
        of = table[name.split("/")[0]]
        # Grouped tiles for few groups and many.
        return len(of["tiles"]) + 2 * (len(of["grouped_tiles"]) + len(of.get("transposed_tiles", ()))) + 1
    if name.endswith("few_rows_kernels"):
        return 2 * len(table["blackwell"]["few_rows_tiles"])
    return {"kernels": 15, "narrow_kernels": 24, "shares_kernels": 12}[name.partition("hopper_extended_")[2]]


@pytest.mark.parametrize(
    "name",
    [
        "hopper/hopper_kernels",
        "hopper/extended/hopper_extended_kernels",
        "hopper/extended/hopper_extended_narrow_kernels",
        "hopper/extended/hopper_extended_shares_kernels",
        "blackwell/blackwell_kernels",
        "blackwell/extended/blackwell_few_rows_kernels",
        "geforce/geforce_kernels",
    ],
)
def test_no_kernel_spills_and_each_gets_the_registers_that_it_asks_for(tiles, name):
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))
    report = built(f"submission/{name}.o").with_suffix(".ptxas").read_text()
    # As where wgmma has too few registers and is serialized (C7510), or a copy is to .shared::cluster (C7506).
    assert not re.findall(r".*(?:warning|C75\d\d|serialized|setmaxnreg' ignored).*", report)
    chips: dict[str, int] = {}
    for kernel in report.split("Compiling entry function")[1:]:
        chip = re.search(r"for '(sm_\w+)'", kernel)[1]
        chips[chip] = chips.get(chip, 0) + 1
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", kernel)
        assert frames == [("0", "0", "0")], kernel
        assert int(re.search(r"Used (\d+) registers", kernel)[1]) <= MAX_REGISTERS
    assert chips and min(chips.values()) >= tiles_in(tiles.table, name)
