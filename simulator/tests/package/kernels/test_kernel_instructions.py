"""Instructions that a kernel's results do not show: hints, prefetches, the early start of the next launch.

A kernel that loses one of them is slower and still right, so its PTX is asked for them.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from simulator.python import ptxsim
from simulator.tests.sim_kit import built

PTX = {
    "hopper": "submission/hopper/hopper_kernels.ptx",
    "blackwell": "submission/blackwell/blackwell_kernels.ptx",
    "geforce": "submission/geforce/geforce_kernels.ptx",
}
ENTRY = re.compile(r"\.entry (\w+)\(")
INLINE = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
MNEMONIC = re.compile(r"(?:^|[;{}])\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)(?=[\s;])", re.MULTILINE)

# Registers move from the load warps to those that multiply: once given, once taken.
REGISTERS = {"setmaxnreg.dec": 1, "setmaxnreg.inc": 1}
# For the kernels whose names hold a text: instructions by their beginnings, and the least count of each.  A kernel
# prefetches the descriptor of each of its tensor maps.
HINTS = {
    "hopper": {
        "dequantize": {"prefetch.global.L2": 1},
        "narrow_dual_gemm": {"prefetch.global.L2": 1, "cp.async.cg.shared.global.L2::256B": 1},
        "persistent_dual_gemm": {"prefetch.tensormap": 3, **REGISTERS},
        "16dual_gemm": {"prefetch.tensormap": 3, **REGISTERS},
        "grouped_gemm": {"prefetch.tensormap": 1, **REGISTERS},
    },
    "blackwell": {
        "16dual_gemm": {"prefetch.tensormap": 6, "st.global.v8": 1},
        "grouped_gemm": {"prefetch.tensormap": 4},
        "12grouped_tile": {"st.global.v8": 1},
        "_gemm_kernel": {
            "cp.async.bulk.prefetch.tensor.3d.L2": 1,
            "tcgen05.relinquish_alloc_permit": 1,
        },
    },
    "geforce": {
        "16dual_gemm": {"prefetch.tensormap": 3, **REGISTERS},
        "grouped_gemm": {"prefetch.tensormap": 2, **REGISTERS},
    },
}


def instructions(text: str) -> dict[str, Counter[str]]:
    """Kernel -> how often each instruction of its inline assembly stands in the text."""
    starts = [*ENTRY.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1]: Counter(MNEMONIC.findall("".join(INLINE.findall(text, start.end(), end))))
        for start, end in zip(starts, ends, strict=True)
    }


def count(found: Counter[str], beginning: str) -> int:
    return sum(number for name, number in found.items() if name.startswith(beginning))


@pytest.fixture(scope="module", params=PTX)
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def kernels(backend):
    return instructions(built(PTX[backend]).read_text())


def test_every_kernel_overlaps_the_launches_around_it(kernels):
    for kernel, found in kernels.items():
        assert count(found, "griddepcontrol.launch_dependents") >= 1, kernel
        assert count(found, "griddepcontrol.wait") >= 1, kernel


def test_kernels_have_their_hints_and_prefetches(backend, kernels):
    for family, wanted in HINTS[backend].items():
        members = {kernel: found for kernel, found in kernels.items() if family in kernel}
        assert members, family
        for kernel, found in members.items():
            assert {name: count(found, name) for name in wanted if count(found, name) < wanted[name]} == {}, kernel


def test_every_gemm_kernel_has_a_line_of_hints(backend, kernels):
    assert [
        kernel for kernel in kernels if "gemm" in kernel and not any(name in kernel for name in HINTS[backend])
    ] == []


def test_instructions_are_counted_by_kernel():
    inline = "// begin inline asm\n\t{}\n\t// end inline asm\n"
    text = ".visible .entry a()\n{\n" + inline.format("fence.x;") + inline.format("{ @p bar.sync 0; fence.x ; }")
    text += "mov.u32 %r1, 2;\n}\n.visible .entry b()\n{\n" + inline.format("@!%p1 wait.parity [%r1], 0;") + "}\n"
    assert instructions(text) == {"a": {"bar.sync": 1, "fence.x": 2}, "b": {"wait.parity": 1}}


def test_python_finds_the_kernels_in_the_library(monkeypatch):
    monkeypatch.setenv("PTXSIM_LIBRARY", str(built("libptxsim.so")))
    modules = ptxsim.Simulator().load_all(built("libcustom_kernel_sim.so"))
    assert any("dual_gemm" in kernel for module in modules for kernel in module.kernels)
