"""Divergence, calls, barriers and clusters."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simulator.tests.sim_kit import HEADER, MODES, Sim, body

STORE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;"


def run(text, threads=32, words=None, **launch):
    sim = Sim(text, limit=5_000_000)
    out = sim.buffer(np.zeros(words or threads, np.uint32))
    sim.launch("k", out, block=threads, **launch)
    return sim, out


def test_loops_of_different_length_meet_again():
    text = body(
        STORE,
        "mov.u32 %r2, 0; mov.u32 %r3, 0;",
        "LOOP: add.u32 %r3, %r3, %r2; add.u32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %r1; @%p1 bra LOOP;",
        "shfl.sync.idx.b32 %r4, %r3, 31, 31, -1; add.u32 %r3, %r3, %r4; st.global.u32 [%rd1], %r3;",
    )
    sim, out = run(text)
    assert sim.verdict == "clean", sim.findings
    assert (out == np.array([i * (i + 1) // 2 + 496 for i in range(32)])).all()


def test_an_elected_lane_works_while_its_siblings_wait():
    text = body(
        STORE,
        "setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0; @%p1 bra JOIN;",
        "LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 1000; @%p2 bra LOOP;",
        "JOIN: bar.sync 0; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; st.global.u32 [%rd1], %r3;",
    )
    sim, out = run(text, 64)
    assert sim.verdict == "clean", sim.findings
    assert (out[:32] == 1000).all()
    assert (out[32:] == 0).all()


def test_a_lane_that_spins_for_its_sibling():
    text = body(
        STORE,
        "mov.u32 %r5, flag; setp.eq.u32 %p1, %r1, 31; @%p1 bra SET;",
        "SPIN: ld.acquire.cta.shared.u32 %r2, [%r5]; setp.ne.u32 %p2, %r2, 77; @%p2 bra SPIN; bra END;",
        "SET: mov.u32 %r3, 77; st.release.cta.shared.u32 [%r5], %r3;",
        "END: st.global.u32 [%rd1], %r1;",
        registers=".shared .align 4 .b32 flag;",
    )
    sim, out = run(text)
    assert sim.verdict in ("clean", "review"), sim.findings
    assert (out == np.arange(32)).all()


def test_indexed_branches():
    text = body(
        STORE,
        "and.b32 %r2, %r1, 3; mov.u32 %r3, 0;",
        "TABLE: .branchtargets A, B, C, A;",
        "brx.idx %r2, TABLE;",
        "A: mov.u32 %r3, 10; bra END;",
        "B: mov.u32 %r3, 20; bra END;",
        "C: mov.u32 %r3, 30;",
        "END: st.global.u32 [%rd1], %r3;",
    )
    sim, out = run(text)
    assert sim.verdict == "clean", sim.findings
    assert (out == np.array([10, 20, 30, 10] * 8)).all()


FUNCTION = """
.func (.param .b32 result) square_plus(.param .b32 x, .param .b32 y)
{
    .reg .b32 %r<9>; .reg .pred %p<2>;
    ld.param.u32 %r1, [x];
    ld.param.u32 %r2, [y];
    setp.gt.u32 %p1, %r1, 20;
    @%p1 bra BIG;
    mad.lo.u32 %r3, %r1, %r1, %r2;
    st.param.b32 [result], %r3;
    ret;
BIG:
    st.param.b32 [result], %r2;
    ret;
}
"""


def test_calls_with_parameters_and_divergent_returns():
    call = (
        "{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], %r4;"
        " call.uni (c), square_plus, (a, b); ld.param.b32 %r5, [c]; }"
    )
    text = body(STORE, "mov.u32 %r4, 1000;", call, "st.global.u32 [%rd1], %r5;", before=FUNCTION)
    sim, out = run(text)
    assert sim.verdict == "clean", sim.findings
    assert (out == np.array([i * i + 1000 if i <= 20 else 1000 for i in range(32)])).all()


def test_labels_of_inner_scopes_may_repeat():
    block = "{ .reg .pred q; AGAIN: add.u32 %r2, %r2, 1; setp.lt.u32 q, %r2, %LIMIT; @q bra AGAIN; }"
    text = body(
        STORE,
        "mov.u32 %r2, 0;",
        block.replace("%LIMIT", "5"),
        block.replace("%LIMIT", "9"),
        "st.global.u32 [%rd1], %r2;",
    )
    sim, out = run(text)
    assert (out == 9).all(), sim.findings


def test_named_barriers_between_producers_and_consumers():
    text = body(
        STORE,
        "mov.u32 %r5, cell; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; shl.b32 %r4, %r3, 2; add.u32 %r4, %r4, %r5;",
        "setp.eq.u32 %p1, %r2, 0; @!%p1 bra CONSUME;",
        "mul.lo.u32 %r6, %r3, 3; st.shared.u32 [%r4], %r6; bar.arrive 1, 64; bra END;",
        "CONSUME: bar.sync 1, 64; ld.shared.u32 %r7, [%r4]; st.global.u32 [%rd1], %r7;",
        "END:",
        registers=".shared .align 4 .b8 cell[128];",
    )
    sim, out = run(text, 64)
    assert sim.verdict == "clean", sim.findings
    assert (out[32:] == 3 * np.arange(32)).all()
    racy = text.replace("bar.sync 1, 64;", "").replace("bar.arrive 1, 64;", "")
    sim, _ = run(racy, 64)
    assert sim.kinds & {"read-after-write-race", "write-after-read-race", "uninitialised-read"}


def test_barrier_reductions():
    text = body(
        STORE,
        "setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p2, 0, %p1;"
        " bar.red.or.pred %p3, 0, %p1; selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 2000, 0, %p3;",
        "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%rd1], %r2;",
    )
    sim, out = run(text, 96)
    assert (out == 40 + 2000).all(), sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_distributed_shared_memory(mode):
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank;",
        "mov.u32 %r4, cell; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5; shl.b32 %r6, %r2, 8; add.u32 %r6, %r6, %r1;",
        "st.shared.u32 [%r4], %r6; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "add.u32 %r7, %r2, 1; rem.u32 %r7, %r7, %r3; mapa.shared::cluster.u32 %r8, %r4, %r7;",
        "ld.shared::cluster.u32 %r9, [%r8]; shl.b32 %r10, %r2, 5; add.u32 %r10, %r10, %r1;",
        "mul.wide.u32 %rd2, %r10, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r9;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        registers=".shared .align 4 .b8 cell[128];",
    )
    sim = Sim(text, mode)
    out = sim.buffer(np.zeros(128, np.uint32))
    assert sim.launch("k", out, grid=4, cluster=4) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert (out.reshape(4, 32) == np.arange(32) + 256 * ((np.arange(4)[:, None] + 1) % 4)).all()


def test_aligned_instructions_of_a_part_of_a_warp():
    text = body(
        STORE,
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra SKIP; barrier.sync.aligned 0; bra END; SKIP: barrier.sync 1;",
        "END: st.global.u32 [%rd1], %r1;",
    )
    sim, _ = run(text)
    assert sim.kinds == {"divergent-aligned"}, sim.findings


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("trap;", "trap"),
        ("mov.u32 %r2, 5; shl.b32 %r2, %r2, 20; ld.shared.u32 %r3, [%r2];", "out-of-bounds"),
        ("mov.u64 %rd5, 0; ld.global.u32 %r3, [%rd5];", "out-of-bounds"),
        ("ld.global.u32 %r3, [%rd1+2];", "misaligned"),
        ("st.global.u32 [%rd1+4096], %r1;", "out-of-bounds"),
        ("mov.u32 %r2, cell; mbarrier.arrive.shared::cta.b64 _, [%r2];", "no-mbarrier"),
        ("bar.sync 3, 64;", "deadlock"),
        ("LOOP: bra LOOP;", "runaway"),
        ("shfl.sync.idx.b32 %r2, %r1, 0, 31, 1;", "member-mask"),
    ],
)
def test_run_time_errors_name_their_place(statement, kind):
    text = body(STORE, statement, registers=".shared .align 8 .b8 cell[64];")
    sim, _ = run(text)
    assert kind in sim.kinds, sim.findings
    finding = sim.findings[0]
    assert finding["verdict"] == "error"
    assert finding["ptx_line"] > 5


def test_an_atomic_at_a_wrong_address_changes_nothing():
    for address in ("%rd1+2", "%rd1+400000"):
        sim, out = run(body(STORE, f"atom.global.add.u32 %r2, [{address}], 7; red.global.add.u32 [{address}], 7;"))
        assert sim.kinds <= {"misaligned", "out-of-bounds"} and sim.verdict == "error"
        assert out.tolist() == run(body(STORE))[1].tolist()


def test_printing(capfd):
    text = body(
        "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 3; @%p1 bra END; mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;",
        "st.local.u32 [%rd1], %r1; mov.f64 %fd1, 0d4004000000000000; st.local.f64 [%rd1+8], %fd1; mov.u64 %rd3, text;",
        "cvta.global.u64 %rd3, %rd3; { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd3;"
        " st.param.b64 [b], %rd2; call.uni (c), vprintf, (a, b); ld.param.b32 %r5, [c]; }",
        "END:",
        registers=".local .align 8 .b8 depot[16];",
        before=".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
        ".global .align 1 .b8 text[16] = {108, 97, 110, 101, 32, 37, 100, 58, 32, 37, 46, 49, 102, 10};",
    )
    sim = Sim(text)
    assert sim.launch("k", np.zeros(1)) == 0, sim.findings
    import ctypes

    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "lane 3: 2.5\n"


def test_globals_constants_and_addresses_in_initialisers():
    before = (
        ".global .align 8 .u64 pointer = generic(values);\n.global .align 4 .u32 values[4] = {11, 22, 33, 44};\n"
        ".const .align 4 .f32 scale = 0f40000000;\n"
    )
    text = body(
        STORE,
        "ld.global.u64 %rd3, [pointer]; ld.u32 %r2, [%rd3+8]; ld.const.f32 %f1, [scale];",
        "cvt.rzi.u32.f32 %r3, %f1; mad.lo.u32 %r2, %r2, %r3, %r1; st.global.u32 [%rd1], %r2;",
        before=before,
    )
    sim, out = run(text)
    assert (out == 66 + np.arange(32)).all(), sim.findings


def test_static_shared_memory_is_that_of_the_kernel_and_its_callees():
    shared = "".join(f".shared .align 16 .b8 v{i}[{120 << 10}];\n" for i in range(4))
    function = ".func touch()\n{ .reg .b32 %r<3>; mov.u32 %r1, v2; mov.u32 %r2, 7; st.shared.u32 [%r1], %r2; ret; }\n"
    kernel = ".visible .entry {}(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>;\n{} ret; }}\n"
    size = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %total_smem_size; st.global.u32 [%rd1], %r1;"
    text = (
        HEADER
        + shared
        + function
        + kernel.format("none", size)
        + kernel.format("own", "mov.u32 %r2, v3; st.shared.u32 [%r2+8], %r2;" + size)
        + kernel.format("called", "call touch, ();" + size)
        + kernel.format("both", "mov.u32 %r2, v0; st.shared.u32 [%r2], %r2; call touch, ();" + size)
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(1, np.uint32))
    for name, variables in {"none": 0, "own": 1, "called": 1}.items():
        assert sim.launch(name, out) == 0, sim.message()
        assert out[0] == variables * (120 << 10)
    assert sim.launch("both", out) == 1
    assert sim.message().startswith("more than 227 KB of shared memory"), sim.message()
    assert sim.kinds == {"launch-refused"}, sim.findings


@pytest.mark.parametrize("add", ["atom.global.add.u32 %r2,", "red.global.add.u32"])
def test_ctas_of_one_warp_with_an_atomic_end_in_mode_reverse(add):
    """Each gives way to later ones, and then takes the place of one that did the same at the same instruction."""
    sim = Sim(body("ld.param.u64 %rd1, [p];", f"{add} [%rd1], 1;"), "reverse")
    out = sim.buffer(np.zeros(1, np.uint32))
    assert sim.launch("k", out, grid=40, block=32) == 0, sim.findings
    assert out[0] == 40 * 32


@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "poison"])
def test_setmaxnreg_waits_until_another_warpgroup_releases_registers(mode):
    """Triton's warp-specialised kernels do this. If no warpgroup releases registers, it is a deadlock."""
    begin = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7; setp.ne.u32 %p1, %r2, 0; @%p1 bra OTHERS;"
    first = "setmaxnreg.inc.sync.aligned.u32 256; bar.sync 1, 384; GIVE bra END;"
    rest = "OTHERS: setmaxnreg.dec.sync.aligned.u32 120; bar.sync 1, 384; setmaxnreg.inc.sync.aligned.u32 232; END:"
    for give, ending in (("setmaxnreg.dec.sync.aligned.u32 40;", ""), ("", "bar.sync 0;")):
        sim = Sim(body(begin, first.replace("GIVE", give), rest, ending), mode)
        sim.launch("k", 0, block=384)
        assert sim.kinds == ({"deadlock", "setmaxnreg"} if ending else set()), sim.findings
    table = next(finding["message"] for finding in sim.findings if finding["kind"] == "deadlock")
    assert "registers that other warpgroups have" in table


# Registers that ptxas 13.0 (-v, sm_90a) gives a kernel with setmaxnreg, by threads and CTAs per SM; the other
# numbers, from 232 on, are limited by the largest register count of its setmaxnreg.
AT_LAUNCH = {
    (384, 1): 168, (416, 1): 128, (288, 1): 168, (100, 3): 168, (96, 4): 168, (512, 1): 128, (32, 16): 128,
    (640, 1): 96, (1024, 1): 64, (544, 1): 96, (160, 3): 128, (224, 2): 128, (768, 1): 80, (160, 5): 72,
    (96, 7): 80, (128, 4): 128, (384, 2): 80,
}  # fmt: skip


def registers(lines: str, directives: str, block: int) -> Sim:
    text = body("mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 128;", lines).replace("\n{", f"\n{directives}\n{{", 1)
    sim = Sim(text)
    sim.launch("k", 0, block=block)
    return sim


def test_registers_at_launch_are_those_that_ptxas_chooses():
    """A single warpgroup can get all registers of the launch; asking for one step more waits for ever."""
    for (threads, ctas), count in AT_LAUNCH.items():
        for more in (0, 8):
            sim = registers(
                f"setmaxnreg.inc.sync.aligned.u32 {count + more};", f".maxntid {threads} .minnctapersm {ctas}", 32
            )
            assert sim.kinds == ({"setmaxnreg"} if more else set()), (threads, ctas, more)
        message = sim.findings[0]["message"]
        assert f" the {count * 32} of the launch" in message and f" {count} per thread" in message
    for directives, count in ((".maxnreg 100", 104), (".reqntid 32 .minnctapersm 16 .maxnreg 64", 64)):
        for more in (0, 8):
            sim = registers(f"setmaxnreg.inc.sync.aligned.u32 {count + more};", directives, 32)
            assert sim.verdict == ("error" if more else "clean"), directives


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ("@%p1 bra O; setmaxnreg.inc.sync.aligned.u32 240; bra E; O: setmaxnreg.dec.sync.aligned.u32 88; E:", set()),
        # 45056 is all: 256 and 96 are 45056
        ("@%p1 bra O; setmaxnreg.inc.sync.aligned.u32 256; bra E; O: setmaxnreg.dec.sync.aligned.u32 96; E:", set()),
        (
            "@%p1 bra O; setmaxnreg.inc.sync.aligned.u32 256; bar.sync 0; bra E;"
            "O: setmaxnreg.dec.sync.aligned.u32 104; bar.sync 0; E:",
            {"setmaxnreg", "deadlock"},
        ),
        ("@%p1 bra E; setmaxnreg.inc.sync.aligned.u32 184; E:", None),
    ],
)
def test_a_ctas_pool_is_the_registers_of_its_launch(lines, kinds):
    sim = registers(lines, ".maxntid 256 .minnctapersm 1 .maxnreg 176", 256)
    if kinds is None:  # the other warpgroup has exited without releasing any
        assert (sim.kinds, sim.verdict) == ({"setmaxnreg"}, "review"), sim.findings
    else:
        assert sim.kinds == kinds, sim.findings


def test_setmaxnreg_is_not_judged_if_ptx_lacks_the_registers_at_launch(tmp_path):
    for directives in ("", ".maxntid 32", ".minnctapersm 2"):
        sim = registers("setmaxnreg.inc.sync.aligned.u32 256;", directives, 32)
        assert sim.verdict == "clean"
        summary = sim.report(tmp_path / "summary", "sim_print_summary")
        assert re.search("^not checked: .*setmaxnreg", summary, re.MULTILINE)
    sim = registers("setmaxnreg.inc.sync.aligned.u32 64;", ".maxnreg 64", 32)
    assert "setmaxnreg" not in sim.report(tmp_path / "summary", "sim_print_summary")


# Each eighth of a warp has its own member mask in %r3, as tiles of cooperative_groups do.
EIGHTHS = "shr.u32 %r2, %r1, 3; shl.b32 %r2, %r2, 3; mov.u32 %r3, 255; shl.b32 %r3, %r3, %r2; mov.u32 %r9, 0;"
ODD = "and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 1;"
LANE = np.arange(32, dtype=np.uint32)
FIRST = LANE // 8 * 8
PARTIES = {
    "shfl": ("shfl.sync.bfly.b32 %r9, %r1, 7, 31, %r3;", LANE ^ 7),
    "ballot": (f"{ODD} vote.sync.ballot.b32 %r9, %p1, %r3;", np.uint32(0xAA) << FIRST),
    "redux": ("redux.sync.add.u32 %r9, %r1, %r3;", 8 * FIRST + 28),
    "match": ("and.b32 %r4, %r1, 2; match.any.sync.b32 %r9, %r4, %r3;", np.where(LANE % 4 < 2, 0x33, 0xCC) << FIRST),
    "elect": ("elect.sync %r9|%p1, %r3;", FIRST),
    "apart": (  # half of each eighth arrives later
        "and.b32 %r4, %r1, 4; setp.eq.u32 %p1, %r4, 0; add.u32 %r5, %r1, 1; @%p1 bra A; add.u32 %r5, %r5, 1;"
        " A: shfl.sync.bfly.b32 %r9, %r5, 4, 31, %r3;",
        (LANE ^ 4) + 1 + (LANE % 8 < 4),
    ),
    "from behind": (  # the missing lanes jump back to the exchange
        "mov.u32 %r5, %r1; and.b32 %r4, %r1, 4; setp.ne.u32 %p1, %r4, 0; @%p1 bra B;"
        " A: shfl.sync.bfly.b32 %r9, %r5, 4, 31, %r3; bra C; B: add.u32 %r5, %r5, 32; bra A; C:",
        (LANE ^ 4) + np.where(LANE & 4, 0, 32),
    ),
    "a barrier by two instructions": (
        "setp.lt.u32 %p1, %r1, 16; @%p1 bar.warp.sync -1; @!%p1 bar.warp.sync -1; bar.warp.sync %r3; mov.u32 %r9, %r1;",
        LANE,
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_lanes_with_different_member_masks_synchronise_separately(mode):
    for name, (text, expected) in PARTIES.items():
        sim = Sim(body(STORE, EIGHTHS, text, "st.global.u32 [%rd1], %r9;"), mode, limit=100_000)
        out = sim.buffer(np.zeros(32, np.uint32))
        assert sim.launch("k", out) == 0 and sim.findings == [], (name, sim.findings)
        assert (out == expected).all(), (name, out)


@pytest.mark.parametrize("mode", MODES)
def test_lanes_in_one_function_return_to_their_own_calls(mode):
    """Both halves of a warp wait at the same place inside the function, and return to their own calls."""
    function = ".func both() { bar.warp.sync -1; ret; }\n"
    text = body(
        STORE,
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; call.uni both, (); mov.u32 %r3, 200; bra END;",
        "LOW: call.uni both, (); mov.u32 %r3, 100;",
        "END: st.global.u32 [%rd1], %r3;",
        before=function,
    )
    sim = Sim(text, mode, limit=100_000)
    out = sim.buffer(np.zeros(32, np.uint32))
    assert sim.launch("k", out) == 0 and sim.verdict == "clean", sim.findings
    assert out.tolist() == [100] * 16 + [200] * 16


def test_lanes_with_the_same_return_address_merge():
    """Lanes with the same return address merge, so that they pass an .aligned barrier in a function together."""
    function = (
        ".func (.param .b32 r) meets(.param .b32 x) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [x];"
        " setp.lt.u32 %p1, %r1, 7; @%p1 bra LESS; add.u32 %r1, %r1, 1; LESS: barrier.cta.sync.aligned 0;"
        " st.param.b32 [r], %r1; ret; }\n"
    )
    call = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), meets, (a); ld.param.b32 %r3, [b]; }"
    sim, out = run(body(STORE, call, "st.global.u32 [%rd1], %r3;", before=function))
    assert sim.verdict == "clean", sim.findings
    assert out.tolist() == [i + (i >= 7) for i in range(32)]


RECURSION = """
.func (.param .b32 result) sum(.param .b64 list, .param .b32 n)
{
    .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .local .align 8 .b8 own[8]; .param .b64 q; .param .b32 m;
    .param .b32 c;
    ld.param.b64 %rd1, [list]; ld.param.b32 %r1, [n]; ld.b32 %r2, [%rd1];
    setp.eq.u32 %p1, %r1, 0; @%p1 bra LAST;
    mov.u64 %rd2, own; cvta.local.u64 %rd3, %rd2; st.local.b32 [own], %r1; sub.u32 %r3, %r1, 1;
    st.param.b64 [q], %rd3; st.param.b32 [m], %r3; call.uni (c), sum, (q, m); ld.param.b32 %r4, [c];
    ld.local.b32 %r5, [own+4]; mad.lo.u32 %r6, %r5, 100, %r2; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r1;
    st.b32 [%rd1+4], %r1; st.param.b32 [result], %r4; ret;
LAST: st.b32 [%rd1+4], 1; st.param.b32 [result], %r2; ret;
}
"""


@pytest.mark.parametrize("mode", MODES)
def test_each_activation_of_a_function_has_registers_and_a_frame(mode):
    """Lane i calls sum i % 5 deep; each activation reads its caller's variable and writes to it."""
    call = (
        ".local .align 8 .b8 list[8]; mov.u64 %rd4, list; cvta.local.u64 %rd5, %rd4; st.local.b32 [list], 7;"
        " rem.u32 %r3, %r1, 5; { .param .b64 a; .param .b32 b; .param .b32 c; st.param.b64 [a], %rd5;"
        " st.param.b32 [b], %r3; call.uni (c), sum, (a, b); ld.param.b32 %r5, [c]; }"
    )
    sim = Sim(body(STORE, call, "st.global.u32 [%rd1], %r5;", before=RECURSION), mode)
    out = sim.buffer(np.zeros(32, np.uint32))
    sim.launch("k", out)
    assert sim.verdict == "clean", sim.findings

    def total(seen: int, n: int) -> tuple[int, int]:
        """The result, and what the activation writes to its caller's variable."""
        if n == 0:
            return seen, 1
        inner, written = total(n, n - 1)
        return inner + 100 * written + seen + n, n

    assert out.tolist() == [total(7, i % 5)[0] for i in range(32)]


@pytest.mark.parametrize("mode", MODES)
def test_lanes_call_through_pointers_and_allocate(mode):
    """A table of functions is initialised in memory; lanes call different ones, some lanes none."""
    functions = "".join(
        f".func (.param .b32 r) f{i}(.param .b32 a) {{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; mad.lo.u32 %r2, %r1,"
        f" {i + 2}, {i}; st.param.b32 [r], %r2; ret; }}\n"
        for i in range(2)
    )
    before = (
        functions + ".global .align 8 .u64 table[2] = {f0, f1};\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".extern .func free(.param .b64 p);\n"
    )
    call = (
        "and.b32 %r3, %r1, 1; mul.wide.u32 %rd2, %r3, 8; mov.u64 %rd3, table; add.s64 %rd3, %rd3, %rd2;"
        " ld.global.u64 %rd4, [%rd3]; setp.lt.u32 %p1, %r1, 20; mov.u32 %r5, 5;"
        " { .param .b64 n; .param .b64 m; .param .b32 a; .param .b32 r; P: .callprototype (.param .b32 _) _"
        " (.param .b32 _); st.param.b32 [a], %r1; st.param.b32 [r], %r5; @%p1 call (r), %rd4, (a), P;"
        " ld.param.b32 %r5, [r]; mul.wide.u32 %rd5, %r1, 4; st.param.b64 [n], %rd5; call (m), malloc, (n);"
        " ld.param.b64 %rd6, [m]; setp.eq.u64 %p2, %rd6, 0; @%p2 bra END; st.b32 [%rd6], %r5; ld.b32 %r5, [%rd6];"
        " add.u32 %r5, %r5, 1000; st.param.b64 [n], %rd6; call free, (n); } END:"
    )
    sim = Sim(body(STORE, call, "st.global.u32 [%rd1], %r5;", before=before), mode)
    out = sim.buffer(np.zeros(32, np.uint32))
    sim.launch("k", out)
    assert sim.verdict == "clean", sim.findings
    assert out.tolist() == [(i * (2 + i % 2) + i % 2 if i < 20 else 5) + (1000 if i else 0) for i in range(32)]
