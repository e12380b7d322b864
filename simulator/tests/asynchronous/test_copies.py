"""Bulk and tensor copies against a model of the box, its swizzle and the tensor's edge."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body
from simulator.validation.mutants.multicast import MULTICAST

BYTES = 16384
SWIZZLES = {"none": (0, 0), "32B": (1, 0x10), "64B": (2, 0x30), "128B": (3, 0x70)}


def load_text(rank: int) -> str:
    """A kernel that loads a box at the given coordinates into shared memory and copies it to `out`."""
    coordinates = ", ".join(f"%r{40 + i}" for i in range(rank))
    return body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [out];",
        "ld.param.u32 %r4, [bytes]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;",
        *(f"ld.param.u32 %r{40 + i}, [c{i}];" for i in range(rank)),
        "mov.u32 %r5, %r1;",
        f"CLEAR: shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r2; mov.u32 %r7, 0; st.shared.u32 [%r6], %r7;"
        f" add.u32 %r5, %r5, 32; setp.lt.u32 %p1, %r5, {BYTES // 4}; @%p1 bra CLEAR;",
        "fence.proxy.async; bar.warp.sync -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT;",
        "mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r4;",
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        f" [%r2], [%rd2, {{{coordinates}}}], [%r3];",
        "WAIT: bar.warp.sync -1;",
        "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra TRY;",
        "mov.u32 %r5, %r1;",
        "COPY: shl.b32 %r6, %r5, 2; add.u32 %r7, %r6, %r2; ld.shared.u32 %r8, [%r7]; cvt.u64.u32 %rd3, %r6;"
        " add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r8; add.u32 %r5, %r5, 32;"
        f" setp.lt.u32 %p1, %r5, {BYTES // 4}; @%p1 bra COPY;",
        params=".param .u64 out, .param .align 64 .b8 map[128], .param .u32 bytes"
        + "".join(f", .param .u32 c{i}" for i in range(rank)),
        registers=f".shared .align 1024 .b8 tile[{BYTES}]; .shared .align 8 .b8 bar[8];",
    )


def box_of(array: np.ndarray, at, box) -> np.ndarray:
    """The box's elements, zeros outside the tensor; `at` and `box` have the innermost coordinate first."""
    out = np.zeros(box[::-1], array.dtype)
    for index in np.ndindex(*out.shape):
        place = tuple(i + a for i, a in zip(index, at[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, array.shape, strict=True)):
            out[index] = array[place]
    return out


def swizzled(image: bytes, bits: int) -> bytes:
    out = bytearray(BYTES)
    for i in range(0, len(image), 16):
        place = i ^ (i >> 3 & bits)
        out[place : place + 16] = image[i : i + 16]
    return bytes(out)


def run_load(array, data_type, box, at, swizzle=0, mode="eager", fill=0):
    sim = Sim(load_text(len(box)), mode)
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    size = int(np.prod(box)) * array.dtype.itemsize
    tensor_map = sim.tensor_map(array, data_type, box, swizzle, fill=fill)
    status = sim.launch("k", out, tensor_map, size, *at)
    assert status == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.tobytes()


def tensor(shape, dtype) -> np.ndarray:
    from simulator.tests.sim_kit import aligned

    array = aligned(shape, dtype)
    array[...] = np.arange(1, array.size + 1).reshape(shape).astype(dtype)
    return array


@pytest.mark.parametrize("name", SWIZZLES)
@pytest.mark.parametrize("mode", MODES)
def test_swizzles(name, mode):
    number, bits = SWIZZLES[name]
    width = {0: 64, 1: 16, 2: 32, 3: 64}[number]  # fp16 elements of a row
    array = tensor((40, 128), np.uint16)
    got = run_load(array, 6, [width, 24], [16, 3], number, mode)
    assert got == swizzled(box_of(array, [16, 3], [width, 24]).tobytes(), bits)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks_and_edges(rank):
    shape = (3, 4, 5, 6, 16)[-rank:]
    array = tensor(shape, np.uint32)
    box = [8, 3, 2, 2, 2][:rank]
    for at in ([0] * rank, [4, 1, 2, 1, 1][:rank], [-4, -1, 4, 3, 2][:rank], [12, 5, -1, 0, -1][:rank]):
        got = run_load(array, 2, box, at)
        want = box_of(array, at, box).tobytes()
        assert got[: len(want)] == want, at
        assert not any(got[len(want) :])


@pytest.mark.parametrize(("data_type", "dtype"), [(0, np.uint8), (1, np.uint16), (4, np.uint64), (8, np.float64)])
def test_element_types(data_type, dtype):
    array = tensor((16, 64), dtype)
    box = [32 // np.dtype(dtype).itemsize, 5]
    assert run_load(array, data_type, box, [2, 1])[: 32 * 5] == box_of(array, [2, 1], box).tobytes()


def test_packed_fp4_types():
    codes = tensor((8, 128), np.uint8)  # 256 codes a row
    sizes, strides = [256, 8], [128]
    for data_type, padded in ((13, False), (14, True)):  # both count the packed bytes, as real kernels expect
        sim = Sim(load_text(2))
        sim.register(codes)
        out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
        tensor_map = sim.tensor_map(codes, data_type, [128, 4], 0, sizes, strides)
        assert sim.launch("k", out, tensor_map, 128 * 4 // 2, 128, 2) == 0, sim.findings
        part = codes[2:6, 64:]
        if padded:  # 16 codes: 8 bytes, then 8 of nothing
            wide = np.zeros((4, 8, 16), np.uint8)
            wide[:, :, :8] = part.reshape(4, 8, 8)
            part = wide
        assert out.tobytes()[: part.size] == part.tobytes()


def test_padded_fp6_signals_its_packed_bytes():
    codes = tensor((8, 192), np.uint8)  # 256 codes a row, 12 bytes for 16
    sim = Sim(load_text(2))
    sim.register(codes)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    tensor_map = sim.tensor_map(codes, 15, [128, 4], 0, [256, 8], [192])
    assert sim.launch("k", out, tensor_map, 4 * 96, 128, 2) == 0, sim.findings
    wide = np.zeros((4, 8, 16), np.uint8)
    wide[:, :, :12] = codes[2:6, 96:].reshape(4, 8, 12)
    assert out.tobytes()[: wide.size] == wide.tobytes()


def test_rows_of_2048_bytes_are_copied_both_ways():
    """256 elements of 8 bytes are the longest row of a box."""
    array = tensor((2, 256), np.uint64)
    assert run_load(array, 4, [256, 1], [0, 1])[:2048] == array[1].tobytes()


def test_nan_fill():
    array = tensor((4, 16), np.float32)
    got = np.frombuffer(run_load(array, 7, [16, 2], [8, 0], fill=1), np.float32)[:32].reshape(2, 16)
    assert np.isnan(got[:, 8:]).all()
    assert (got[:, :8] == array[:2, 8:]).all()


def test_broken_rules_of_tensor_maps():
    sim = Sim(load_text(2))
    array = tensor((16, 64), np.uint16)
    for wrong in (
        {"box": [64, 300]},
        {"box": [3, 4]},
        {"box": [64, 8], "swizzle": 1},
        {"box": [64, 8], "strides": [120]},
        {"box": [64, 8], "sizes": [64, 0]},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            sim.tensor_map(array, 6, **wrong)


@pytest.mark.parametrize("mode", MODES)
def test_multicast_to_a_cluster(mode):
    sim = Sim(MULTICAST, mode)
    source, out = sim.buffer(np.arange(64, dtype=np.uint32)), sim.buffer(np.zeros(128, np.uint32))
    assert sim.launch("k", out, source, grid=4, cluster=4) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert (out.reshape(4, 32) == source.reshape(2, 32)[[0, 1, 0, 1]]).all()


def test_multicast_before_the_receiver_has_armed_its_barrier():
    text = MULTICAST.replace("INIT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "INIT: bar.sync 0;")
    for mode in MODES:
        sim = Sim(text, mode)
        source, out = sim.buffer(np.arange(64, dtype=np.uint32)), sim.buffer(np.zeros(128, np.uint32))
        sim.launch("k", out, source, grid=4, cluster=4)
        assert sim.kinds & {"mbarrier-init-race", "no-mbarrier"}, sim.findings


STORE = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; add.u32 %r4, %r1, 7;",
    "st.shared.u32 [%r3], %r4; fence.proxy.async; bar.warp.sync -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;",
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd1, [out]; mov.u32 %r5, 4; mov.u32 %r6, 1;",
    "{tensor} [%rd2, {{%r5, %r6}}], [%r2];",
    "{plain} [%rd1], [%r2], 128;",
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    "END:",
    params=".param .u64 out, .param .align 64 .b8 map[128]",
    registers=".shared .align 128 .b8 tile[128];",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduce", [False, True])
def test_stores_and_reductions(mode, reduce):
    tensor_op = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    plain_op = "cp.async.bulk.global.shared::cta.bulk_group"
    if reduce:
        tensor_op = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
        plain_op = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    text = STORE.replace("{tensor}", tensor_op).replace("{plain}", plain_op).replace("{{", "{").replace("}}", "}")
    sim = Sim(text, mode)
    array, out = tensor((6, 16), np.uint32), sim.buffer(np.full(32, 100, np.uint32))
    before = array.copy()
    sim.register(array)
    assert sim.launch("k", out, sim.tensor_map(array, 2, [8, 4])) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    lanes = np.arange(7, 39, dtype=np.uint32)
    want = before.copy()
    want[1:5, 4:12] = lanes.reshape(4, 8) + (before[1:5, 4:12] if reduce else 0)
    assert (array == want).all()
    assert (out == lanes + (100 if reduce else 0)).all()


WARP_STORE = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; add.u32 %r4, %r1, 7;",
    "st.shared.u32 [%r3], %r4; fence.proxy.async; bar.warp.sync -1; ld.param.u64 %rd1, [out];",
    "rem.u32 %r5, %r1, {sets}; shl.b32 %r5, %r5, 7; cvt.u64.u32 %rd2, %r5; add.u64 %rd1, %rd1, %rd2;",
    "{store} [%rd1], [%r2], 128;",
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    params=".param .u64 out",
    registers=".shared .align 128 .b8 tile[128];",
)


@pytest.mark.parametrize("sets", [1, 4, 32])
def test_a_warp_issues_a_store_once_for_each_set_of_operands(sets):
    text = WARP_STORE.replace("{sets}", str(sets)).replace("{store}", "cp.async.bulk.global.shared::cta.bulk_group")
    sim = Sim(text)
    out = sim.buffer(np.zeros(32 * 32, np.uint32))
    assert sim.launch("k", out) == 0, sim.findings
    assert sim.counters.tma_store_bytes == 128 * sets
    assert (out.reshape(32, 32)[:sets] == np.arange(7, 39)).all()
    assert (out.reshape(32, 32)[sets:] == 0).all()


def test_each_lane_of_a_warp_issues_a_reduction():
    operation = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    sim = Sim(WARP_STORE.replace("{sets}", "1").replace("{store}", operation))
    out = sim.buffer(np.zeros(32, np.uint32))
    assert sim.launch("k", out) == 0, sim.findings
    assert (out == 32 * np.arange(7, 39)).all()


CP_ASYNC = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r4, %r3, %r2; ld.param.u64 %rd1, [in];",
    "ld.param.u64 %rd3, [out]; cvt.u64.u32 %rd2, %r3; add.u64 %rd1, %rd1, %rd2; add.u64 %rd3, %rd3, %rd2;",
    "setp.lt.u32 %p1, %r1, 30; selp.u32 %r5, 16, 4, %p1;",
    "cp.async.cg.shared.global [%r4], [%rd1], 16, %r5; cp.async.commit_group;",
    "cp.async.wait_group 0; bar.warp.sync -1; xor.b32 %r3, %r3, 16; add.u32 %r4, %r3, %r2;",
    "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4]; st.global.v4.u32 [%rd3], {%r6, %r7, %r8, %r9};",
    params=".param .u64 out, .param .u64 in",
    registers=".shared .align 128 .b8 tile[512];",
)


@pytest.mark.parametrize("mode", MODES)
def test_cp_async(mode):
    sim = Sim(CP_ASYNC, mode)
    source, out = sim.buffer(np.arange(1, 129, dtype=np.uint32)), sim.buffer(np.zeros(128, np.uint32))
    assert sim.launch("k", out, source) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    want = source.reshape(32, 4).copy()
    want[30:, 1:] = 0
    assert (out.reshape(32, 4) == want[np.arange(32) ^ 1]).all()


@pytest.mark.parametrize("mode", MODES)
def test_cp_async_mbarrier_arrive_belongs_to_its_group(mode):
    """A warp waits for its copies by group, and then tests the barrier that they arrive on."""
    text = CP_ASYNC.replace(
        "cp.async.commit_group;", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; cp.async.commit_group;"
    )
    text = text.replace(
        "cp.async.cg", "@%p2 mbarrier.init.shared::cta.b64 [bar], 32; bar.warp.sync -1; cp.async.cg"
    ).replace("setp.lt", "setp.eq.u32 %p2, %r1, 0; setp.lt")
    text = text.replace(
        "bar.warp.sync -1; xor",
        "bar.warp.sync -1; mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 trap; xor",
    ).replace(".b8 tile[512];", ".b8 tile[512]; .shared .align 8 .b8 bar[8];")
    sim = Sim(text, mode)
    source, out = sim.buffer(np.arange(1, 129, dtype=np.uint32)), sim.buffer(np.zeros(128, np.uint32))
    assert sim.launch("k", out, source) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert (out[:120].reshape(30, 4) == source[:120].reshape(30, 4)[np.arange(30) ^ 1]).all()


def test_cp_async_without_its_wait():
    sim = Sim(CP_ASYNC.replace("cp.async.wait_group 0;", ""), "late")
    source, out = sim.buffer(np.arange(1, 129, dtype=np.uint32)), sim.buffer(np.zeros(128, np.uint32))
    sim.launch("k", out, source)
    assert "read-before-completion" in sim.kinds


def test_bounds_of_global_memory():
    sim = Sim(load_text(2))
    array = tensor((16, 64), np.uint16)
    sim.register(array)
    out = sim.buffer(np.zeros(BYTES // 4, np.uint32))
    tensor_map = sim.tensor_map(array, 6, [64, 8], sizes=[64, 32], strides=[128])
    assert sim.launch("k", out, tensor_map, 1024, 0, 12) == 5
    assert sim.kinds == {"out-of-bounds"}
    assert "'buffer'" in sim.findings[0]["message"]


PAIRS = body(
    "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, %tid.x;"
    " ld.param.u64 %rd1, [out];",
    "setp.eq.u32 %p1, %r4, 0; @%p1 mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
    "and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 0; and.pred %p3, %p1, %p2;",
    "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setp.eq.u32 %p4, %r1, 0; and.pred %p4, %p4, %p1;",
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r6, 0; mov.u16 %rs1, 15;",
    "@%p4 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    ".cta_group::2"
    " [%r2], [%rd2, {%r6, %r6}], [%r3], %rs1;",
    "@!%p2 bra MEET;",
    "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r3], 0; @!%p5 bra TRY;",
    "MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; shl.b32 %r7, %r4, 2; add.u32 %r8, %r7, %r2;",
    "ld.shared.u32 %r9, [%r8]; shl.b32 %r10, %r1, 7; add.u32 %r10, %r10, %r7; cvt.u64.u32 %rd3, %r10;",
    "add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r9;",
    params=".param .u64 out, .param .align 64 .b8 map[128]",
    registers=".shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8];",
)


@pytest.mark.parametrize("mode", MODES)
def test_a_multicast_to_pairs_completes_on_the_named_ctas_barrier(mode):
    """.cta_group::2: bytes complete on the barrier of the CTA of the pair that has the address's parity."""
    sim = Sim(PAIRS, mode)
    array, out = tensor((4, 8), np.uint32), sim.buffer(np.zeros((4, 32), np.uint32))
    sim.register(array)
    assert sim.launch("k", out, sim.tensor_map(array, 2, [8, 4]), grid=4, cluster=4) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert (out == array.ravel()).all()


def test_counters_have_a_loads_bytes_without_swizzle_padding():
    array = tensor((16, 64), np.uint16)
    sim = Sim(load_text(2))
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    tensor_map = sim.tensor_map(array, 1, [16, 4], 3)
    assert sim.launch("k", out, tensor_map, 4 * 32, 0, 0) == 0, sim.findings
    assert sim.counters.tma_load_bytes == 4 * 32
