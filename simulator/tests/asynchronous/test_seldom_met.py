"""Rare cases of asynchronous operations: invalid barriers, what arrivals release, ignored sources, groups."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

ROOM = ".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[16];"
BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [p]; setp.eq.u32 %p2, %r1, 0;"
    " setp.eq.u32 %p3, %r1, 32; mov.u32 %r4, 0;"
)
INIT = "@%p2 mbarrier.init.shared.b64 [%r3], {}; @%p2 fence.mbarrier_init.release.cluster; bar.sync 0;"
COPY = "@%p2 cp.async.ca.shared.global [%r2], [%rd1], 16;"
ARRIVE = "@%p2 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3];"
BULK = "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 16, [%r3];"
EXPECT = "@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;"
TRY = "TRY: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0; @!%p4 bra TRY;"


def run(*lines: str, mode: str = "eager", threads: int = 64, **launch) -> tuple[Sim, np.ndarray]:
    sim = Sim(body(BEGIN, *lines, registers=ROOM), mode, limit=2_000_000)
    out = sim.buffer(np.arange(100, 164, dtype=np.uint32))
    sim.launch("k", out, block=threads, **launch)
    return sim, out


def kinds_and_messages(sim: Sim) -> list[tuple[str, str]]:
    return [(finding["kind"], finding["message"]) for finding in sim.findings]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("orders", [True, False])
def test_cp_async_mbarrier_arrive_releases_earlier_writes(mode, orders):
    """Warp 1's wait acquires warp 0's stores before its arrival, but not those after it."""
    store = "@%p2 st.shared.u32 [%r2+64], %r1;"
    before, after = (store, "") if orders else ("", store)
    sim, _ = run(
        INIT.format(1),
        COPY,
        before,
        ARRIVE,
        after,
        "@!%p3 bra END;",
        TRY,
        "ld.shared.u32 %r5, [%r2+64]; END:",
        mode=mode,
    )
    if orders:
        assert sim.verdict == "clean", sim.findings
    else:
        assert sim.kinds & {"read-after-write-race", "write-after-read-race"}, sim.findings


@pytest.mark.parametrize("mode", ["eager", "late"])
def test_too_many_arrivals_of_copies_are_an_error(mode):
    lines = (INIT.format(2), COPY, ARRIVE * 3, "@%p2 cp.async.wait_all; bar.sync 0;")
    sim, _ = run(*lines, mode=mode)
    assert not [m for kind, m in kinds_and_messages(sim) if kind == "mbarrier-arrivals" and "0x500" in m]  # a new phase
    invalid = "@%p2 mbarrier.inval.shared.b64 [%r3];"
    sim, _ = run(INIT.format(1), COPY, ARRIVE, invalid, "@%p2 cp.async.wait_all; bar.sync 0;", mode=mode)
    kinds = [finding["kind"] for finding in sim.findings]
    if mode == "late":
        assert "mbarrier-arrivals" in kinds, sim.findings
        assert [m for kind, m in kinds_and_messages(sim) if kind == "mbarrier-arrivals" and "0x500" in m]


def test_bytes_for_an_invalidated_mbarrier_are_an_error():
    invalid = "@%p2 mbarrier.inval.shared.b64 [%r3]; mov.u32 %r9, 7; bar.sync 0;"
    sim, _ = run(INIT.format(1), EXPECT, BULK, invalid, mode="late")
    found = [f for f in sim.findings if f["message"] == "completes on an mbarrier that is no longer valid"]
    assert [f["kind"] for f in found] == ["no-mbarrier"] and found[0]["verdict"] == "error", sim.findings


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        ("TRY: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0; @!%p4 bra TRY;",
         "mbarrier 0x500 of CTA rank 0, parity 0: in phase 0, 1 of 3 arrivals pending, tx -16"),
        ("TRY: mbarrier.try_wait.shared.b64 %p4, [%r3], %rd5; @!%p4 bra TRY;",
         "mbarrier 0x500 of CTA rank 0, phase 0: in phase 0, 1 of 3 arrivals pending, tx -16"),
    ],
)  # fmt: skip
def test_a_deadlock_report_has_the_barriers_missing_arrivals(wait, said):
    lines = "mbarrier.arrive.shared.b64 %rd5, [%r3]; mbarrier.arrive.shared.b64 _, [%r3];"
    complete = "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r3], 16;"
    sim, _ = run(INIT.format(3), complete, lines, wait, threads=1)
    assert [f["kind"] for f in sim.findings if "deadlock" in f["kind"]] == ["deadlock"], sim.findings
    assert any(said in message for kind, message in kinds_and_messages(sim) if kind == "deadlock"), sim.findings


def test_a_copy_whose_predicate_ignores_the_source_writes_zeros():
    lines = (
        "shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r2; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3;",
        "and.b32 %r7, %r1, 3; setp.eq.u32 %p5, %r7, 1;",
        "cp.async.ca.shared.global [%r6], [%rd3], 4, %p5; cp.async.wait_all; ld.shared.u32 %r8, [%r6];",
        "st.global.u32 [%rd3+128], %r8;",
    )
    for mode in MODES:
        sim, out = run(*lines, mode=mode, threads=32)
        assert sim.verdict == "clean", (mode, sim.findings)
        assert out[32:].tolist() == [0 if i % 4 == 1 else 100 + i for i in range(32)], mode


def test_a_source_size_may_equal_but_not_exceed_the_copy():
    for size, kinds in ((16, []), (17, ["copy-size"])):
        sim, _ = run(f"mov.u32 %r5, {size}; @%p2 cp.async.ca.shared.global [%r2], [%rd1], 16, %r5; cp.async.wait_all;")
        assert [f["kind"] for f in sim.findings] == kinds, sim.findings


def test_a_store_to_another_cta_than_its_barriers_is_refused():
    lines = (
        INIT.format(1) + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 %r5,"
        " %r2, 1; mapa.shared::cluster.u32 %r6, %r3, RANK; @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 4;",
        "mov.u32 %r7, %cluster_ctarank; setp.eq.and.u32 %p5, %r7, 0, %p2;",
        "@%p5 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r1, [%r6];",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    )
    text = "the store goes to CTA rank 1 and its mbarrier is in rank 0"
    sim, _ = run(*(line.replace("RANK", "0") for line in lines), grid=2, cluster=2)
    assert ("barrier-rank", text) in kinds_and_messages(sim), sim.findings
    sim, _ = run(*(line.replace("RANK", "1") for line in lines), grid=2, cluster=2)
    assert "barrier-rank" not in sim.kinds, sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_groups_are_waited_for_one_by_one(mode):
    """After waiting for some of four groups, only their sources may be overwritten."""
    group = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+{0}], [%r2+{0}], 16; cp.async.bulk.commit_group;"
    fill = "".join(f"st.shared.u32 [%r2+{4 * i}], {i};" for i in range(16)) + "fence.proxy.async;"
    groups = "".join(group.format(16 * i) for i in range(4))
    for left in range(5):
        for at in range(4):
            for read in (".read", ""):
                lines = f"{groups} cp.async.bulk.wait_group{read} {left}; st.shared.u32 [%r2+{16 * at}], %r1;"
                sim, _ = run(fill, lines, "cp.async.bulk.wait_group 0;", mode=mode, threads=1)
                over = at < 4 - left
                assert sim.kinds == (set() if over else {"overwrite-while-read"}), (left, at, read, sim.findings)
