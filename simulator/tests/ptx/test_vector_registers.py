"""Registers that are vectors (.reg .v2, .v4): as operands, and by component."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import PtxError, Sim, body


def test_vectors_are_loaded_stored_and_read_by_component():
    text = body(
        ".reg .v2 .b32 pair; .reg .v4 .f32 %quad<3>; .reg .v2 .b64 wide; ld.param.u64 %rd1, [p];",
        "ld.global.v4.f32 %quad1, [%rd1]; ld.global.v2.u32 pair, [%rd1+16];",
        "mov.f32 %quad2.x, %quad1.w; mov.f32 %quad2.y, %quad1.z; mov.f32 %quad2.z, %quad1.g;",
        "mov.f32 %quad2.a, %quad1.r; st.global.v4.f32 [%rd1], %quad2;",
        "add.u32 pair.x, pair.x, pair.y; mov.b64 %rd2, pair; mov.u64 wide.x, 5; mov.u64 wide.y, %rd2;",
        "st.global.v2.u64 [%rd1+16], wide;",
    )
    sim = Sim(text)
    memory = sim.buffer(np.array([1, 2, 3, 4, 0, 0, 0, 0], np.float32))
    memory.view(np.uint32)[4:6] = 7, 9
    assert sim.launch("k", memory, block=1) == 0, sim.findings
    assert memory[:4].tolist() == [4, 3, 2, 1]
    assert memory.view(np.uint64)[2:].tolist() == [5, 9 << 32 | 16]


@pytest.mark.parametrize("line", [".reg .v2 .pred %p;", ".reg .v2 .b32 v; mov.u32 v.z, 1;"])
def test_what_no_vector_has_is_refused(line):
    with pytest.raises(PtxError):
        Sim(body(line))
