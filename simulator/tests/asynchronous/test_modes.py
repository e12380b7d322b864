"""How modes affect values: when an operation's result is visible, in which order, and what is read before."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

ROOM = ".shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8];"
OLD, NEW, NEWER = 0x11111111, 0x22222222, 0x33333333
BEGIN = (
    "mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.b64 %rd4, map;"
    f"cvta.param.u64 %rd4, %rd4; mov.u32 %r4, {OLD}; mov.u32 %r6, 0; st.shared.v4.u32 [%r2], {{%r4, %r4, %r4, %r4}};"
    "mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;"
    "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], BYTES;"
)
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 16, [%r3];"
KINDS = {  # the operation and its bytes on the barrier
    "bulk": (BULK, 16),
    "tensor": (
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd4, {%r6}], [%r3];",
        16,
    ),
    "st.async": (
        f"mov.u32 %r5, {NEW}; st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %r5, [%r3];",
        4,
    ),
    "cp.async": ("cp.async.ca.shared.global [%r2], [%rd2], 4;", 0),
}
WAIT = "TRY: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra TRY;"


def run(lines: str, size: int, mode: str, seed: int = 1) -> list[int]:
    text = body(
        BEGIN.replace("BYTES", str(size)),
        lines,
        params=".param .u64 out, .param .u64 in, .param .align 64 .b8 map[128]",
        registers=ROOM,
    )
    sim = Sim(text, mode, seed)
    out, source = sim.buffer(np.zeros(4, np.uint32)), sim.buffer(np.full(8, NEW, np.uint32))
    source[4:] = NEWER
    sim.launch("k", out, source, sim.tensor_map(source, 2, [4]), block=1, cluster=1)
    return out.tolist()


def test_st_async_is_for_launches_with_clusters():
    """Without clusters it is an illegal instruction on an H200; one CTA per cluster, by launch or kernel, is enough."""
    text = body(
        "mov.u32 %r2, cell; mov.u32 %r3, bar; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 4; mov.pred %p3, %is_explicit_cluster;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %r2, [%r3];",
        WAIT,
        "selp.u32 %r4, 1, 2, %p3; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r4;",
        registers=".shared .align 8 .b8 cell[8]; .shared .align 8 .b8 bar[8];",
    )
    of_kernel = text.replace(")\n{", ") .reqnctapercluster 1, 1, 1\n{")
    for kernel, cluster, kinds, explicit in (
        (text, 0, {"no-cluster"}, 0),
        (text, 1, set(), 1),
        (of_kernel, 0, set(), 1),
        (text.replace("st.async", "red.async").replace("bytes.u32", "bytes.add.u32"), 0, {"uninitialised-read"}, 2),
    ):
        sim = Sim(kernel)
        out = sim.buffer(np.zeros(4, np.uint32))
        sim.launch("k", out, block=1, cluster=cluster)
        assert sim.kinds - {"uninitialised-read"} == kinds - {"uninitialised-read"}, sim.findings
        assert out[0] == explicit


@pytest.mark.parametrize("name", KINDS)
def test_a_read_without_waiting_depends_on_the_mode(name):
    """In mode eager the result, in late the old value, in poison neither."""
    operation, size = KINDS[name]
    read = f"{operation} ld.shared.u32 %r7, [%r2]; st.global.u32 [%rd1], %r7; cp.async.wait_all; {WAIT}"
    assert run(read, size, "eager")[0] == NEW
    assert run(read, size, "late")[0] == OLD
    assert run(read, size, "reverse")[0] == OLD
    assert run(read, size, "poison")[0] not in (OLD, NEW)
    assert {run(read, size, "random", seed)[0] for seed in range(12)} <= {OLD, NEW}
    waited = f"{operation} cp.async.wait_all; {WAIT} ld.shared.u32 %r7, [%r2]; st.global.u32 [%rd1], %r7;"
    for mode in MODES:
        assert run(waited, size, mode)[0] == NEW


def test_the_order_of_two_operations():
    """Two copies to the same bytes: late ends with the second, reverse with the first, random with either."""
    second = BULK.replace("[%rd2]", "[%rd2+16]")
    lines = f"{BULK} {second} {WAIT} ld.shared.u32 %r7, [%r2]; st.global.u32 [%rd1], %r7;"
    last = {mode: run(lines, 32, mode)[0] for mode in MODES if mode != "random"}
    assert last == {"eager": NEWER, "late": NEWER, "reverse": NEW, "poison": NEWER}
    drawn = [run(lines, 32, "random", seed)[0] for seed in range(24)]
    assert set(drawn) == {NEW, NEWER}
    assert drawn == [run(lines, 32, "random", seed)[0] for seed in range(24)]


def test_a_source_is_read_when_the_operation_reads_it():
    """The source is overwritten after a bulk store's issue: eager stores the old value, late the new one."""
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16; cp.async.bulk.commit_group;"
    lines = f"{store} mov.u32 %r5, {NEW}; st.shared.u32 [%r2], %r5; cp.async.bulk.wait_group 0;"
    lines += "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r3], 16;"
    assert run(lines, 16, "eager") == [OLD] * 4
    assert run(lines, 16, "late") == [NEW, OLD, OLD, OLD]
    after = lines.replace("commit_group;", "commit_group; cp.async.bulk.wait_group.read 0;")
    for mode in MODES:
        assert run(after, 16, mode) == [OLD] * 4


def test_waiting_for_reads_does_not_wait_for_writes():
    """wait_group.read ends when the source has been read; a following wait_group still waits for the writes."""
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16; cp.async.bulk.commit_group;"
    lines = f"{store} cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0; ld.global.u32 %r7, [%rd2];"
    lines += "st.global.u32 [%rd1], %r7; mbarrier.complete_tx.relaxed.cta.shared.b64 [%r3], 16;"
    for mode in MODES:
        for seed in range(30 if mode == "random" else 1):
            assert run(lines, 16, mode, seed)[0] == OLD, (mode, seed)
    only_read = lines.replace("cp.async.bulk.wait_group 0;", "")
    assert NEW in {run(only_read, 16, "random", seed)[0] for seed in range(30)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", ["st.async", "red.async"])
def test_asynchronous_stores_are_in_the_generic_proxy(operation, mode):
    """PTX ISA, st.async: needs no proxy fence after ordinary stores; a bulk copy that reads its data does."""
    form = "bytes.v4.u32 [%r2], {%r4, %r4, %r4, %r4}" if operation == "st.async" else "bytes.add.u32 [%r2], %r4"
    size = 16 if operation == "st.async" else 4
    begin = BEGIN.replace("fence.proxy.async;", "").replace("BYTES", str(size))
    store = f"{operation}.shared::cluster.mbarrier::complete_tx::{form}, [%r3]; {WAIT}"
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;"
    copy += "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    fence = "fence.proxy.async;"
    for lines, kinds in (
        ((store,), set()),
        ((store, fence, copy), set()),
        ((fence, store, copy), {"missing-proxy-fence"}),
    ):
        params = ".param .u64 out, .param .u64 in, .param .align 64 .b8 map[128]"
        sim = Sim(body(begin, *lines, params=params, registers=ROOM), mode)
        out, source = sim.buffer(np.zeros(4, np.uint32)), sim.buffer(np.zeros(8, np.uint32))
        sim.launch("k", out, source, sim.tensor_map(source, 2, [4]), block=1, cluster=1)
        assert sim.kinds == kinds, sim.findings
