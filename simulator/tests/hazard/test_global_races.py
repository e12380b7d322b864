"""Races on global memory inside a launch: each is found in every mode, and the corrected kernel is clean."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [flag];"
    "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;"
    "mov.u32 %r9, 1; mov.u32 %r10, tile; mov.u32 %r11, bar; @%p1 mbarrier.init.shared.b64 [%r11], 1;"
    "fence.mbarrier_init.release.cluster; bar.sync 0;"
)
SPACE = ".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8];"
STORE, LOAD = "st.global.u32 [%rd4], %r1;", "ld.global.u32 %r5, [%rd4];"
FIRST, OTHERS = "@!%p2 bra OTHERS;", "bra END; OTHERS:"
SET = "@%p1 st.release.gpu.global.u32 [%rd2], %r9;"
POLL = "POLL{0}: ld.{1}.gpu.global.u32 %r6, [%rd2]; setp.lt.u32 %p3, %r6, {2}; @%p3 bra POLL{0};"
WAIT = "@!%p1 bra SEEN; " + POLL.format("", "acquire", 1) + " SEEN:"
ASK = "ASK: atom.{}.gpu.global.or.b32 %r6, [%rd2], 0; setp.lt.u32 %p3, %r6, 1; @%p3 bra ASK;"
NEXT = "@%p1 st.shared.u32 [%r10], %r1; bar.sync 0; ld.shared.u32 %r7, [%r10];"  # so that no warp is ahead
BULK_LOAD = (
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 256, [%r11];"
    "BULK: mbarrier.try_wait.parity.shared.b64 %p3, [%r11], 0; @!%p3 bra BULK;"
)
BULK_STORE = (
    "add.u32 %r12, %r10, 0; mad.lo.u32 %r12, %r1, 4, %r12; st.shared.u32 [%r12], %r1; fence.proxy.async; bar.sync 0;"
    "@!%p1 bra STORED; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r10], 256; cp.async.bulk.commit_group;"
)
COUNT = "@%p1 {}.global.add.u32 [%rd2], 1;"
# The lines of a kernel with FIX, the text for FIX in the correct and in the faulty kernel, and the finding.
FAULTS = {
    "no flag": ((FIRST, STORE, "bar.sync 0;", SET, OTHERS, "FIX", LOAD), WAIT + "bar.sync 0;", "", "global-race"),
    "the flag is set before all have stored": (
        (FIRST, STORE, "FIX", SET, OTHERS, WAIT, "bar.sync 0;", LOAD),
        "bar.sync 0;",
        "",
        "global-race",
    ),
    "a lane reads its own bulk store": (
        (BULK_STORE, "FIX ld.global.u32 %r5, [%rd1]; STORED:"),
        "cp.async.bulk.wait_group 0;",
        "cp.async.bulk.wait_group.read 0;",
        "global-race",
    ),
    "a lane copies its own bulk store": (
        (BULK_STORE, "FIX STORED:", BULK_LOAD),
        "cp.async.bulk.wait_group 0;",
        "cp.async.bulk.wait_group.read 0;",
        "global-race",
    ),
    "a lane copies its own ordinary store": (
        ("@%p1 st.global.u32 [%rd1], %r9; FIX", BULK_LOAD),
        "fence.proxy.async;",
        "",
        "missing-proxy-fence",
    ),
    "only the thread that polls comes after": (
        (FIRST, STORE, "bar.sync 0;", SET, OTHERS, WAIT, "FIX", LOAD),
        "bar.sync 0;",
        "",
        "global-race",
    ),
    "a relaxed atomic without a fence before it": (
        (FIRST, STORE, "bar.sync 0; FIX", COUNT.format("red.relaxed.gpu"), OTHERS, WAIT, "bar.sync 0;", LOAD),
        "fence.acq_rel.gpu;",
        "",
        "global-race",
    ),
    "an atomic whose value nobody looks at": (
        (FIRST, STORE, "bar.sync 0;", SET, OTHERS, "@!%p1 bra SEEN; FIX SEEN: bar.sync 0;", LOAD),
        ASK.format("acquire"),
        "atom.relaxed.gpu.global.or.b32 %r6, [%rd2], 0;",
        "global-race",
    ),
    "two warps of a CTA": ((STORE, "FIX", "ld.global.u32 %r5, [%rd1];"), "bar.sync 0;", "", "global-race"),
    "a barrier before the last store, none after it": (
        (STORE, "bar.sync 0;", STORE, "FIX", "ld.global.u32 %r5, [%rd1];"),
        "bar.sync 0;",
        "",
        "global-race",
    ),
    "written after it is read": (
        (FIRST, "ld.global.u32 %r5, [%rd4]; FIX", OTHERS, WAIT, "bar.sync 0;", STORE),
        f"bar.sync 0; {SET}",
        SET,
        "global-race",
    ),
    "two CTAs of a cluster": (
        (FIRST, STORE, "bra JOIN;", "OTHERS:", "JOIN: FIX", LOAD, "@%p2 bra END;"),
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;",
        "global-race",
    ),
    "ordinary stores, then a bulk copy": (
        (STORE, "FIX bar.sync 0;", BULK_LOAD),
        "fence.proxy.async;",
        "",
        "missing-proxy-fence",
    ),
    "another CTA's stores, then a bulk copy": (
        (FIRST, STORE, "bar.sync 0;", SET, OTHERS, WAIT, "FIX bar.sync 0;", BULK_LOAD),
        "fence.proxy.async;",
        "",
        "missing-proxy-fence",
    ),
    "another CTA's stores without a fence before the flag, then a bulk copy": (
        (FIRST, STORE, "FIX bar.sync 0;", SET, OTHERS, WAIT, "bar.sync 0;", BULK_LOAD),
        "fence.proxy.async;",
        "",
        "missing-proxy-fence",
    ),
    "a flag before the bulk store is complete": (
        (FIRST, BULK_STORE, "FIX", SET, "STORED:", OTHERS, WAIT, "bar.sync 0;", LOAD),
        "cp.async.bulk.wait_group 0;",
        "cp.async.bulk.wait_group.read 0;",
        "global-race",
    ),
    "the last of all adds up, but nothing orders the others' parts": (
        (
            "mul.wide.u32 %rd5, %r2, 256; add.s64 %rd5, %rd5, %rd4; st.global.u32 [%rd5], %r1; bar.sync 0; FIX",
            "@%p1 atom.relaxed.gpu.global.add.u32 %r6, [%rd2], 1; @%p1 st.shared.u32 [%r10], %r6; FIX bar.sync 0;",
            "ld.shared.u32 %r6, [%r10]; setp.ne.u32 %p3, %r6, 3; @%p3 bra END;",
            *(f"ld.global.u32 %r5, [%rd4+{256 * i}];" for i in range(4)),
        ),
        "fence.acq_rel.gpu;",
        "",
        "global-race",
    ),
    "two rounds of a grid's barrier": (
        (
            "mul.wide.u32 %rd5, %r2, 256; add.s64 %rd5, %rd5, %rd4; st.global.u32 [%rd5], %r1; bar.sync 0;",
            COUNT.format("red.release.gpu"),
            f"@!%p1 bra ONE; {POLL.format(1, 'acquire', 4)} ONE: bar.sync 0;",
            "add.u32 %r8, %r2, 1; and.b32 %r8, %r8, 3; mul.wide.u32 %rd6, %r8, 256; add.s64 %rd6, %rd6, %rd4;",
            "ld.global.u32 %r5, [%rd6]; bar.sync 0; FIX",
            "st.global.u32 [%rd5], %r5;",
        ),
        COUNT.format("red.release.gpu") + f"@!%p1 bra TWO; {POLL.format(2, 'acquire', 8)} TWO: bar.sync 0;",
        "",
        "global-race",
    ),
}
LAUNCH = {
    "two warps of a CTA": {"grid": 1},
    "a barrier before the last store, none after it": {"grid": 1},
    **{
        f"a lane {what} store": {"grid": 1}
        for what in ("reads its own bulk", "copies its own bulk", "copies its own ordinary")
    },
    "two CTAs of a cluster": {"cluster": 2},
    "ordinary stores, then a bulk copy": {"grid": 1},
    "the last of all adds up, but nothing orders the others' parts": {"grid": 4},
    "two rounds of a grid's barrier": {"grid": 4},
}


def run(lines: tuple[str, ...], mode: str = "eager", **launch: int) -> tuple[str, set[str]]:
    params = ".param .u64 data, .param .u64 flag"
    sim = Sim(body(BEGIN, *lines, "END:", params=params, registers=SPACE), mode, limit=1_000_000)
    launch = {"grid": 2, "block": 64} | launch
    sim.launch("k", sim.buffer(np.zeros(1024, np.uint32)), sim.buffer(np.zeros(8, np.uint32)), **launch)
    return sim.verdict, set(sim.kinds)


@pytest.mark.parametrize("name", FAULTS)
def test_a_race_is_found_in_every_mode_and_its_absence_is_clean(name):
    lines, fixed, faulty, kind = FAULTS[name]
    launch = LAUNCH.get(name, {})
    for mode in MODES:
        assert run(tuple(line.replace("FIX", fixed) for line in lines), mode, **launch) == ("clean", set()), mode
        verdict, kinds = run(tuple(line.replace("FIX", faulty) for line in lines), mode, **launch)
        assert verdict == "error" and kind in kinds and kinds <= {kind, "overwrite-while-read"}, (mode, kinds)


def test_races_without_an_effect_on_chips_are_reviews():
    """Equal values stored twice; one access strong, the other not.  Atomics alone do not race."""
    assert run(("st.global.u32 [%rd4], %r1;",)) == ("review", {"global-race"})
    assert run(("st.global.u32 [%rd4], %r2;",))[0] == "error"
    assert run(("red.relaxed.gpu.global.add.u32 [%rd4], 1;",)) == ("clean", set())
    assert run(("red.relaxed.gpu.global.add.u32 [%rd4], 1; ld.global.u32 %r5, [%rd4];",)) == ("review", {"global-race"})
    assert run(("ld.global.u32 %r5, [%rd4];",)) == ("clean", set())


@pytest.mark.parametrize("mode", MODES)
def test_an_atomic_does_not_hide_what_its_own_thread_did_before(mode):
    """One thread sets a word and adds to it; another adds at any time."""
    late = "@%p1 bra NOW; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 3000; @%p3 bra L; NOW:"
    add = late + " @!{1} bra END; red.relaxed.{0}.add.u32 [{2}], 1;"
    lanes = "and.b32 %r8, %r1, 31; setp.eq.u32 %p6, %r8, 0; setp.eq.and.u32 %p5, %r1, 0, %p2; mov.u32 %r6, 0;"
    over = add.format("gpu.global", "%p1", "%rd1"), add.format("cta.shared", "%p6", "%r10")
    for lines, found in (
        ("@%p5 st.global.u32 [%rd1], %r9;" + over[0], ("review", {"global-race"})),
        ("@%p5 st.relaxed.gpu.global.u32 [%rd1], %r9;" + over[0], ("clean", set())),
        ("@%p1 st.shared.u32 [%r10], %r9;" + over[1], ("review", {"write-race"})),
        ("@%p1 st.shared.u32 [%r10], %r9; bar.sync 0;" + over[1], ("clean", set())),
    ):
        assert run((lanes, lines), mode) == found, lines


ALONE = "setp.ne.u32 %p4, %r1, 0; @%p4 bra END;"  # one thread of each CTA


def test_a_write_does_not_hide_a_write_to_other_bytes_of_the_line():
    """CTA 0 writes the third word of a line, CTA 1 the fourth; CTA 2 reads the third."""
    lines = (
        *(ALONE, "setp.eq.u32 %p3, %r2, 0; @%p3 st.global.u32 [%rd1+8], %r9;"),
        *("setp.eq.u32 %p3, %r2, 1; @%p3 st.global.u32 [%rd1+12], %r9;", "setp.eq.u32 %p3, %r2, 2;"),
    )
    assert run((*lines, "@%p3 ld.global.u32 %r5, [%rd1+16];"), grid=3) == ("clean", set())
    params = ".param .u64 data, .param .u64 flag"
    sim = Sim(body(BEGIN, *lines, "@%p3 ld.global.u32 %r5, [%rd1+8];", "END:", params=params, registers=SPACE))
    sim.launch("k", sim.buffer(np.zeros(1024, np.uint32)), sim.buffer(np.zeros(8, np.uint32)), grid=3, block=64)
    assert [(found["kind"], found["offset"]) for found in sim.findings] == [("global-race", 8)]


@pytest.mark.parametrize(("word", "verdict"), [(0, "clean"), (4, "error")])
def test_a_release_covers_earlier_stores_only(word, verdict):
    lines = (
        *(ALONE, FIRST, "st.global.u32 [%rd1], %r9;", SET, "st.global.u32 [%rd1+4], %r9;", OTHERS, WAIT),
        f"ld.global.u32 %r5, [%rd1+{word}];",
    )
    assert run(lines)[0] == verdict


SECOND = "st.release.gpu.global.u32 [%rd2+4], %r9;"
WAIT_SECOND = POLL.format(2, "acquire", 1).replace("[%rd2]", "[%rd2+4]")


@pytest.mark.parametrize("readers", [16, 17, 33, 49])
def test_the_only_reader_of_many_without_a_signal_is_found(readers):
    """A line lists sixteen readers; further ones are in a table that grows with the 17th and the 33rd."""
    for silent in (None, 0, readers // 2, readers - 1):
        count = "" if silent is None else f"setp.ne.u32 %p5, %r2, {silent}; @%p5 "
        lines = (
            *(ALONE, f"setp.eq.u32 %p3, %r2, {readers}; @%p3 bra WRITE;", "ld.global.u32 %r5, [%rd1];"),
            *(f"{count}red.release.gpu.global.add.u32 [%rd2], 1;", "bra END; WRITE:"),
            *(POLL.format("", "acquire", readers if silent is None else readers - 1), "st.global.u32 [%rd1], %r9;"),
        )
        verdict = run(lines, grid=readers + 1)
        assert verdict == (("clean", set()) if silent is None else ("error", {"global-race"})), silent


def test_a_write_drops_only_the_readers_of_its_own_bytes():
    """48 warps read one of two words.  A write of the first drops its readers; those of the second did not signal."""
    lines = (
        *(ALONE, "and.b32 %r8, %r2, 1; mul.wide.u32 %rd5, %r8, 4; add.s64 %rd5, %rd5, %rd1;"),
        *("setp.ge.u32 %p3, %r2, 48; @%p3 bra WRITE; ld.global.u32 %r5, [%rd5]; setp.ne.u32 %p5, %r2, SILENT;"),
        "@%p5 red.release.gpu.global.add.u32 [%rd2], 1; bra END;",
        *("WRITE: setp.ne.u32 %p6, %r2, 48;", POLL.format("", "acquire", 47), "@%p6 bra SECOND;"),
        *("st.global.u32 [%rd1], %r9; st.release.gpu.global.u32 [%rd2+4], %r9; bra END;", "SECOND:", WAIT_SECOND),
        "st.global.u32 [%rd1+4], %r9;",
    )
    for silent in (1, 23, 47):
        text = "".join(lines).replace("SILENT", str(silent))
        assert run((text,), grid=50) == ("error", {"global-race"}), silent
    signalled_by_all = "".join(lines).replace("SILENT", "99").replace("%r6, 47;", "%r6, 48;")
    assert run((signalled_by_all,), grid=50) == ("clean", set())


def test_readers_beyond_the_limit_leave_only_their_writes_unjudged():
    """17 CTAs read a byte of many lines; the table for the 17th takes 1280 bytes a line, of 64 MB for a launch."""
    rounds = (64 << 20) // 1280 // 32 + 10
    lines = (
        "setp.eq.u32 %p3, %r2, 17; @%p3 bra WRITE; mul.wide.u32 %rd3, %r1, 128; add.s64 %rd4, %rd1, %rd3;",
        *("mov.u32 %r8, 0;", f"READ: ld.global.u8 %r5, [%rd4]; add.s64 %rd4, %rd4, {32 * 128}; add.u32 %r8, %r8, 1;"),
        f"setp.lt.u32 %p3, %r8, {rounds}; @%p3 bra READ; bar.warp.sync -1; @!%p1 bra END;",
        *("red.release.gpu.global.add.u32 [%rd2], 1; bra END; WRITE: @!%p1 bra END;", POLL.format("", "acquire", 17)),
        f"st.global.u8 [%rd1], %r9; st.global.u8 [%rd1+{128 * (32 * rounds - 1)}], %r9;",
    )
    params = ".param .u64 data, .param .u64 flag"
    sim = Sim(body(BEGIN, *lines, "END:", params=params, registers=SPACE))
    data = sim.register(np.zeros(rounds * 32 * 128, np.uint8))
    sim.launch("k", data, sim.buffer(np.zeros(8, np.uint32)), grid=18, block=32)
    assert [(found["kind"], found["times"]) for found in sim.findings] == [("global-race", 1)]
    assert (sim.verdict, sim.findings[0]["offset"]) == ("incomplete", 128 * (32 * rounds - 1))
    assert "not judged" in sim.findings[0]["message"]


def test_order_between_ctas_is_transitive():
    """CTA 0 stores and sets a flag, CTA 1 sees it and sets another, CTA 2 sees that one and reads."""
    lines = (
        *(ALONE, FIRST, "st.global.u32 [%rd1], %r9;", SET, OTHERS, "setp.eq.u32 %p3, %r2, 2; @%p3 bra LAST;"),
        *(WAIT, SECOND, "bra END; LAST:", WAIT_SECOND, "ld.global.u32 %r5, [%rd1];"),
    )
    assert run(lines, grid=3) == ("clean", set())


def test_two_warps_of_a_cta_set_a_flag_each_and_both_count():
    lines = (
        "and.b32 %r8, %r1, 31; setp.ne.u32 %p4, %r8, 0; @%p4 bra END;",
        *(FIRST, "st.global.u32 [%rd4], %r9; @!%p1 bra SECOND;", SET, "bra END; SECOND:", SECOND, "bra END; OTHERS:"),
        *("@!%p1 bra END;", POLL.format("", "acquire", 1), WAIT_SECOND),
        "ld.global.u32 %r5, [%rd1]; ld.global.u32 %r5, [%rd1+128];",
    )
    assert run(lines) == ("clean", set())


def test_releases_beyond_the_limit_leave_the_launch_unjudged():
    """Clusters of eight CTAs with 32 warps have clocks of kilobytes: some ten thousand releases fill 64 MB."""
    lines = (
        "setp.ne.u32 %p4, %r1, 0; @%p4 bra DONE; and.b32 %r8, %r2, 7; setp.ne.u32 %p4, %r8, 0; @%p4 bra DONE;",
        "setp.ne.u32 %p3, %r2, 0; @%p3 bra OTHERS; mov.u32 %r8, 0; mov.u32 %r7, 0;",
        "MORE: st.release.gpu.global.u32 [%rd2+4], %r7; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 30000;",
        "@%p3 bra MORE;",
        "st.global.u32 [%rd1], %r9;",
        *(SET, "bra DONE; OTHERS:", WAIT, "ld.global.u32 %r5, [%rd1];"),
        "DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    )
    assert run(lines, grid=16, cluster=8, block=1024)[0] == "incomplete"


def test_ctas_of_successive_launches_do_not_race():
    """CTA 0 of the first launch and CTA 1 of the second store the same word."""
    lines = ("ld.global.u32 %r5, [%rd2]; setp.eq.u32 %p3, %r2, %r5; @%p3 st.global.u32 [%rd4], %r1;",)
    sim = Sim(body(BEGIN, *lines, params=".param .u64 data, .param .u64 flag", registers=SPACE))
    data = sim.buffer(np.zeros(1024, np.uint32))
    for cta in (0, 1):
        assert sim.launch("k", data, sim.buffer(np.full(8, cta, np.uint32)), grid=2, block=64) == 0
    assert sim.findings == []


SC, ACQ_REL = "membar.gl;", "fence.acq_rel.gpu;"
# Fences of every thread before the writers' barrier, of the thread that sets the flag, of the thread that saw it, of
# every reader; and the verdict.
FENCES = {
    ("", "", "", ""): "error",
    (SC, "", SC, ""): "clean",
    ("fence.sc.gpu;", "", "", SC): "clean",
    ("", SC, SC, ""): "clean",
    (ACQ_REL, "", ACQ_REL, ""): "error",
    ("", ACQ_REL, ACQ_REL, ""): "clean",
    ("membar.cta;", "", SC, ""): "error",
    (SC, "", "", ""): "review",
    (SC + " //", "", SC, ""): "error",  # and no barrier
    ("", "", "", SC): "error",
}


@pytest.mark.parametrize("mode", MODES)
def test_fences_of_all_threads_beside_one_threads_flag(mode):
    """__threadfence() is fence.sc: two of them are ordered whatever threads pass the flag on."""
    for (before, setter, seer, after), verdict in FENCES.items():
        lines = (
            "xor.b32 %r3, %r1, 63; mul.wide.u32 %rd5, %r3, 4; add.s64 %rd6, %rd1, %rd5; setp.ne.u32 %p4, %r2, 0;",
            f"@%p4 bra READ; st.global.u32 [%rd4], %r1; {before} bar.sync 0; {setter}",
            "@%p1 st.volatile.global.u32 [%rd2], %r9; bra END; READ: @!%p1 bra MEET;",
            "L: ld.volatile.global.u32 %r5, [%rd2];",
            f"setp.eq.u32 %p3, %r5, 0; @%p3 bra L; {seer} MEET: bar.sync 0; {after} ld.global.u32 %r5, [%rd6]; END:",
        )
        sim = Sim(body(BEGIN, *lines, params=".param .u64 data, .param .u64 flag", registers=SPACE), mode)
        sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), sim.buffer(np.zeros(4, np.uint32)), grid=2, block=64)
        assert sim.verdict == verdict, (before, setter, seer, after, sim.findings)
