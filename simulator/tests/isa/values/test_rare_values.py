"""Instructions that few kernels have: fma.oob and st.bulk."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values.value_table import check
from simulator.tests.sim_kit import Sim, body


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_oob_gives_zero_for_the_fill_of_tensor_copies(kind):
    """0x7ff7 is what copies fill in (measured on an H200); another NaN stays one, and relu keeps the zero."""
    one, two, fill, nan = 0x3C00 if kind == "f16" else 0x3F80, 0x4000, 0x7FF7, 0x7FFF
    a = np.array([one, fill, two, nan, one], np.uint16)
    b = np.array([two, one, fill, one, two], np.uint16)
    c = np.array([0, two, nan, two, fill], np.uint16)
    want = dict(zip(zip(a.tolist(), b.tolist(), c.tolist(), strict=True), [two, 0, 0, nan, nan], strict=True))
    table = {f"fma.rn.oob{relu}.{kind} {{d}}, {{a}}, {{b}}, {{c}};": (16, lambda x, y, z: want[x, y, z])
             for relu in ("", ".relu")}  # fmt: skip
    check(table, {"a": a, "b": b, "c": c})
    pair = lambda x: x.astype(np.uint32) | np.roll(x, 1).astype(np.uint32) << 16  # noqa: E731
    low_high = lambda x, y, z: want[x & 0xFFFF, y & 0xFFFF, z & 0xFFFF] | want[x >> 16, y >> 16, z >> 16] << 16  # noqa: E731
    text = f"fma.rn.oob.{kind}x2 {{d}}, {{a}}, {{b}}, {{c}};"
    check({text: (32, low_high)}, {"a": pair(a), "b": pair(b), "c": pair(c)})


def test_st_bulk_writes_zeros_into_shared_memory_and_is_checked():
    lines = (
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 3; mov.u32 %r3, room; add.u32 %r4, %r3, %r2;"
        " mov.u64 %rd2, -1; st.shared.u64 [%r4], %rd2; bar.warp.sync -1; cvt.u64.u32 %rd3, %r3;",
        "setp.eq.u32 %p1, %r1, 0;",
        "@%p1 st.bulk.weak.shared::cta [%rd3+16], {size}, 0; {sync} ld.shared.u64 %rd4, [%r4];",
        "cvt.u64.u32 %rd5, %r2; add.s64 %rd5, %rd1, %rd5; st.global.u64 [%rd5], %rd4;",
    )
    for size, sync, kinds in ((24, "bar.warp.sync -1;", set()), (24, "", {"lane-race"}), (12, "", {"copy-size"})):
        text = body(*(line.format(size=size, sync=sync) for line in lines), registers=".shared .b64 room[32];")
        sim = Sim(text.replace("sm_90a", "sm_100a"))
        out = sim.buffer(np.zeros(32, np.uint64))
        sim.launch("k", out)
        assert sim.kinds == kinds
        if not kinds:
            assert out.tolist() == [0 if 2 <= i < 5 else 2**64 - 1 for i in range(32)]
