"""The byte mask of a bulk store."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.asynchronous.test_copies import tensor
from simulator.tests.asynchronous.test_tensor_modes import LANES, MASKED, store, store_text


@pytest.mark.parametrize("mask", [0xFFFF, 0x0001, 0x8001, 0x0FF0, 0x0F3C, 0])
def test_a_masked_store_leaves_the_other_bytes(mask):
    array, out = tensor((4, 8), np.uint32), tensor(16, np.uint32)
    want = bytearray(out.tobytes())
    source = LANES.tobytes()
    for i in range(32):
        if mask >> i % 16 & 1:
            want[i] = source[i]
    sim = store(store_text(MASKED.format(mask=mask)), array, bytes(128), [], out, "late")
    assert sim.verdict == "clean", sim.findings
    assert out.tobytes() == bytes(want)
    hinted = MASKED.replace(".cp_mask", ".L2::cache_hint.cp_mask").replace("32, ", "32, %rd1, ")
    other = tensor(16, np.uint32)
    store(store_text(hinted.format(mask=mask)), array, bytes(128), [], other, "late")
    assert other.tobytes() == bytes(want)


def test_only_selected_bytes_must_be_in_memory_and_unchanged():
    """The mask leaves out the last 12 of each 16 bytes: they may lie beyond the buffer, and threads may write them."""
    array = tensor((4, 8), np.uint32)
    for mask, ends in ((0x000F, 20), (0x001F, 20), (0x001F, 24)):
        out = tensor(8, np.uint32).view(np.uint8)[:ends]
        sim = store(store_text(MASKED.format(mask=mask)), array, bytes(128), [], out)
        assert sim.kinds == ({"out-of-bounds"} if (mask, ends) == (0x001F, 20) else set()), sim.findings
    for offset, kinds in ((4, set()), (16, {"overwrite-while-read"}), (20, set())):
        then = f"st.shared.u32 [%r2+{offset}], %r4;"
        sim = store(store_text(MASKED.format(mask=0x000F), then), array, bytes(128), [])
        assert sim.kinds == kinds, (offset, sim.findings)
