"""Accesses and atomics of 128 bits: values, counting by several threads of the host, alignment, forms."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values.test_memory_values import SPACES
from simulator.tests.sim_kit import PtxError, Sim, body

QUADS = ".reg .b128 %q<9>; .shared .align 128 .b8 cell[512]; .local .align 32 .b8 depot[64];"
PARAMS = ".param .u64 out, .param .u64 p"


def draw() -> np.ndarray:
    """Old value, comparand and new value of 32 lanes: old and comparand are equal or differ in one half."""
    values = np.random.default_rng(8).integers(0, 1 << 63, (32, 3, 2), np.uint64)
    values[:24, 1] = values[:24, 0]
    values[8:16, 1, 0] ^= np.uint64(1)
    values[16:24, 1, 1] ^= np.uint64(1 << 40)
    return values


@pytest.mark.parametrize("operation", ["exch", "cas"])
@pytest.mark.parametrize("space", [name for name in SPACES if "local" not in name])
def test_exchanges_and_compares_of_128_bits(operation, space):
    values = draw()
    setup, name, base = SPACES[space]
    dot = f".{name}" if name else ""
    wide = base.startswith("%rd")
    atom = {
        "exch": f"atom.relaxed.gpu{dot}.exch.L2::cache_hint.b128 %q4, [{base}], %q3, %rd9;",
        "cas": f"atom{dot}.cas.b128 %q4, [{base}], %q2, %q3;",
    }[operation]
    text = body(
        "mov.u32 %r1, %tid.x; ld.param.u64 %rd4, [in];",
        setup,
        f"mul.wide.u32 %rd9, %r1, 16; add.u64 {base}, {base}, %rd9;"
        if wide
        else f"shl.b32 %r9, %r1, 4; add.u32 {base}, {base}, %r9;",
        "mul.wide.u32 %rd9, %r1, 48; add.u64 %rd4, %rd4, %rd9;",
        *(
            f"ld.global.v2.u64 {{%rd10, %rd11}}, [%rd4+{16 * i}]; mov.b128 %q{i + 1}, {{%rd10, %rd11}};"
            for i in range(3)
        ),
        f"st{dot}.b128 [{base}], %q1;",
        atom,
        f"ld{dot}.b128 %q5, [{base}];",
        "ld.param.u64 %rd5, [out]; mul.wide.u32 %rd9, %r1, 32; add.u64 %rd5, %rd5, %rd9;",
        "st.global.b128 [%rd5], %q4; st.global.b128 [%rd5+16], %q5;",
        params=PARAMS + ", .param .u64 in",
        registers=QUADS,
    )
    sim = Sim(text)
    out, given = sim.buffer(np.zeros((32, 2, 2), np.uint64)), sim.buffer(values)
    assert sim.launch("k", out, sim.buffer(np.zeros(64, np.uint64)), given) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    for (found, compared, new), (old, left) in zip(values.tolist(), out.tolist(), strict=True):
        assert old == found
        assert left == (new if operation == "exch" or found == compared else found)


COUNT = body(
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, 0; mov.u64 %rd9, 0; mov.b128 %q1, {%rd9, %rd9};",
    "AGAIN: mov.b128 {%rd2, %rd3}, %q1; add.u64 %rd2, %rd2, 1; sub.u64 %rd3, %rd3, 1; mov.b128 %q2, {%rd2, %rd3};",
    "atom.relaxed.gpu.global.cas.b128 %q3, [%rd1], %q1, %q2; mov.b128 {%rd4, %rd5}, %q3; mov.b128 {%rd6, %rd7}, %q1;",
    "xor.b64 %rd8, %rd4, %rd6; xor.b64 %rd9, %rd5, %rd7; or.b64 %rd8, %rd8, %rd9; mov.b128 %q1, %q3;",
    "setp.ne.u64 %p1, %rd8, 0; @%p1 bra AGAIN; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 2000; @%p2 bra AGAIN;",
    "ld.relaxed.gpu.global.b128 %q4, [%rd1]; mov.b128 {%rd2, %rd3}, %q4; add.u64 %rd2, %rd2, %rd3;",
    "setp.eq.u64 %p3, %rd2, 0; @!%p3 st.global.u64 [%rd1+16], %rd2;",
    registers=QUADS,
    params=".param .u64 out",
)


def test_counting_with_compare_and_swap_loses_nothing():
    """All CTAs count one half up and the other down, so that they always sum to 0."""
    sim = Sim(COUNT, threads=4)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, grid=4, block=1) == 0, sim.findings
    assert out.tolist() == [4 * 2000, 2**64 - 4 * 2000, 0, 0]


VECTORS = body(
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; cvt.u64.u32 %rd2, %r1; mov.u32 %r2, 0;",
    "mov.u32 %r3, %tid.x; mul.wide.u32 %rd5, %r3, 32; add.u64 %rd1, %rd1, %rd5;",
    "AGAIN: add.u64 %rd2, %rd2, 2; st.relaxed.gpu.global.v2.u64 [%rd1], {%rd2, %rd2};",
    "ld.relaxed.gpu.global.v2.u64 {%rd3, %rd4}, [%rd1]; setp.ne.u64 %p2, %rd3, %rd4;",
    "@%p2 st.relaxed.gpu.global.u64 [%rd1+16], %rd3;",
    "add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 4000; @%p3 bra AGAIN;",
    params=".param .u64 out",
)


def test_a_strong_vector_is_read_and_written_as_one():
    """A status and a value in one vector belong together, whichever threads of the host execute the CTAs."""
    sim = Sim(VECTORS, threads=2)
    out = sim.buffer(np.zeros((32, 4), np.uint64))
    assert sim.launch("k", out, grid=2, block=32) == 0, sim.findings
    assert (out[:, 0] == out[:, 1]).all() and (out[:, 2] == 0).all()


@pytest.mark.parametrize(
    "line", ["atom{0}.exch.b128 %q1, [{1}+8], %q2;", "ld{0}.b128 %q1, [{1}+8];", "st{0}.b128 [{1}+8], %q1;"]
)
@pytest.mark.parametrize("space", ["global", "shared", "generic global"])
def test_quads_are_aligned_to_16_bytes(line, space):
    setup, name, base = SPACES[space]
    text = line.format(f".{name}" if name else "", base)
    for offset, kinds in ((8, {"misaligned"}), (16, set())):
        sim = Sim(body(setup, text.replace("+8", f"+{offset}"), params=PARAMS, registers=QUADS))
        memory = sim.buffer(np.zeros(8, np.uint64))
        sim.launch("k", memory, memory, block=1)
        assert sim.kinds - {"uninitialised-read"} == kinds, sim.findings


@pytest.mark.parametrize(
    "line",
    [
        "red.global.exch.b128 [%rd1], %q1;",
        "atom.global.add.b128 %q1, [%rd1], %q2;",
        "atom.global.exch.v2.b128 {%q1, %q2}, [%rd1], {%q1, %q2};",
        "atom.local.exch.b128 %q1, [%rd1], %q2;",
        "atom.global.cas.b128 %q1, [%rd1], %q2;",
    ],
)
def test_forms_that_do_not_exist_are_refused(line):
    with pytest.raises(PtxError):
        Sim(body(line, registers=QUADS))
    Sim(body("atom.global.exch.b128 _, [%rd1], %q2;", registers=QUADS))
