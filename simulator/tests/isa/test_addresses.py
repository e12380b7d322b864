"""State spaces and addresses: cvta both ways, isspacep, mapa, getctarank and what a generic address reaches."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

ROOM = ".shared .align 16 .b8 cell[64]; .local .align 16 .b8 depot[64];"
BEFORE = ".global .align 8 .u64 variable = 77;\n.const .align 8 .u64 fixed = 99;\n"
ADDRESSES = {  # statements that put a generic address into %rd3
    "global": "ld.param.u64 %rd3, [p];",
    "variable": "mov.u64 %rd3, variable; cvta.global.u64 %rd3, %rd3;",
    "const": "mov.u64 %rd3, fixed; cvta.const.u64 %rd3, %rd3;",
    "shared": "mov.u64 %rd3, cell; cvta.shared.u64 %rd3, %rd3;",
    "peer": "mov.u64 %rd3, cell; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, 1;",
    "local": "mov.u64 %rd3, depot; cvta.local.u64 %rd3, %rd3;",
    "param": "mov.b64 %rd3, p; cvta.param.u64 %rd3, %rd3;",
}
SPACES = ("global", "shared::cta", "shared::cluster", "local", "param")
HOLDS = {
    "global": {"global"},
    "variable": {"global"},
    "const": {"global"},
    "shared": {"shared::cta", "shared::cluster"},
    "peer": {"shared::cluster"},
    "local": {"local"},
    "param": {"param"},
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_which_space_an_address_is_in(name):
    lines = [
        "ld.param.u64 %rd1, [p]; mov.u32 %r8, %cluster_ctarank; setp.ne.u32 %p9, %r8, 0; @%p9 bra END;",
        ADDRESSES[name],
    ]
    for i, space in enumerate(SPACES):
        lines.append(f"isspacep.{space} %p1, %rd3; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd1+{4 * i}], %r1;")
    sim = Sim(body(*lines, "END:", registers=ROOM, before=BEFORE))
    out = sim.buffer(np.full(8, 9, np.uint32))
    assert sim.launch("k", out, block=1, grid=2, cluster=2) == 0, sim.findings
    assert {space for space, holds in zip(SPACES, out, strict=False) if holds} == HOLDS[name]


@pytest.mark.parametrize("name", ["global", "variable", "shared", "local"])
def test_a_generic_address_and_back(name):
    """Stores through one address are read through the other."""
    space = {"variable": "global"}.get(name, name)
    back = f"cvta.to.{space}.u64 %rd4, %rd3;"
    text = body(
        ADDRESSES[name],
        "mov.u64 %rd5, 1234567890123; st.u64 [%rd3+8], %rd5;" if name != "variable" else "mov.u64 %rd5, 77;",
        back,
        f"ld.{space}.u64 %rd6, [%rd4+{0 if name == 'variable' else 8}]; xor.b64 %rd6, %rd6, %rd5;"
        f" cvta.{space}.u64 %rd7, %rd4;"
        "xor.b64 %rd7, %rd7, %rd3; or.b64 %rd6, %rd6, %rd7; ld.param.u64 %rd1, [p]; st.global.u64 [%rd1], %rd6;",
        registers=ROOM,
        before=BEFORE,
    )
    sim = Sim(text)
    out = sim.buffer(np.full(8, 9, np.uint64))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert out[0] == 0


def test_cvta_to_shared_gives_an_address_that_fits_32_bits():
    text = body(
        "mov.u64 %rd3, cell; cvta.shared.u64 %rd3, %rd3; cvta.to.shared.u64 %rd4, %rd3;"
        " cvt.u32.u64 %r3, %rd4; mov.u32 %r4, cell;",
        "cvt.u64.u32 %rd5, %r3; xor.b64 %rd5, %rd5, %rd4; sub.u32 %r5, %r3, %r4; ld.param.u64 %rd1, [p];",
        "st.global.u64 [%rd1], %rd5; st.global.u32 [%rd1+8], %r5; setp.ne.u64 %p1, %rd3, %rd4;"
        " selp.u32 %r6, 1, 0, %p1;",
        "st.global.u32 [%rd1+12], %r6;",
        registers=ROOM,
    )
    sim = Sim(text)
    out = sim.buffer(np.full(4, 9, np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert out.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("form", ["shared::cluster.u32", "shared::cluster.u64", "u64"])
def test_addresses_of_every_rank(form):
    """CTA 5 of 16 writes to each CTA of the cluster and reads each address's rank."""
    wide = form.endswith("64")
    register = "%rd" if wide else "%r"
    kind = "u64" if wide else "u32"
    generic = form == "u64"
    dot = "" if generic else ".shared::cluster"
    base = (
        "mov.u64 %rd10, cell;" + ("cvta.shared.u64 %rd10, %rd10;" if generic else "") if wide else "mov.u32 %r10, cell;"
    )
    text = body(
        base,
        "mov.u32 %r1, %cluster_ctarank; ld.param.u64 %rd1, [p]; mov.u32 %r2, 0;"
        " setp.ne.u32 %p1, %r1, 5; @%p1 bra MEET;",
        f"L: mapa.{form} {register}11, {register}10, %r2; add.u32 %r3, %r2, 60; st{dot}.u32 [{register}11], %r3;",
        f"getctarank{dot}.{kind} %r4, {register}11; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd2, %rd1;",
        "st.global.u32 [%rd2+64], %r4; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 16; @%p2 bra L;",
        "MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1; ld.shared.u32 %r5, [cell]; st.global.u32 [%rd2], %r5;",
        registers=ROOM,
    )
    sim = Sim(text)
    out = sim.buffer(np.full(32, 9, np.uint32))
    assert sim.launch("k", out, block=1, grid=16, cluster=16) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert out.tolist() == [*range(60, 76), *range(16)]


@pytest.mark.parametrize("meet", ["bar.sync 0;", ""])
def test_lanes_in_different_spaces_are_checked_by_each_spaces_rules(meet):
    """Even lanes write shared memory, odd lanes global memory of their own: only the even lanes race."""
    sim = Sim(
        body(
            "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;",
            "mov.u64 %rd3, cell; cvta.shared.u64 %rd3, %rd3; mul.wide.u32 %rd4, %r2, 4; add.u64 %rd4, %rd4, %rd3;",
            "ld.param.u64 %rd1, [p]; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd1;",
            "selp.u64 %rd6, %rd4, %rd5, %p1; setp.ge.u32 %p2, %r1, 32;",
            f"@!%p2 st.u32 [%rd6], %r1; {meet} @%p2 ld.u32 %r5, [%rd6];",
            registers=".shared .align 16 .b8 cell[128];",
        )
    )
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), block=64) == 0
    found = [(finding["kind"], finding["lane"], finding["times"]) for finding in sim.findings]
    assert found == ([] if meet else [("read-after-write-race", 0, 16)])


def test_two_reads_of_a_clock_differ():
    reads = ("%clock", "%clock64", "%globaltimer")
    lines = ["ld.param.u64 %rd1, [p];"]
    for i, name in enumerate(reads * 2):
        kind, register = ("u32", "%r5") if name == "%clock" else ("u64", "%rd5")
        lines.append(
            f"mov.{kind} {register}, {name}; "
            + ("cvt.u64.u32 %rd5, %r5; " if kind == "u32" else "")
            + f"st.global.u64 [%rd1+{8 * i}], %rd5;"
        )
    lines.append(
        "mov.u32 %r5, %clock_hi; mov.u32 %r6, %globaltimer_hi; st.global.u32 [%rd1+48], %r5;"
        " st.global.u32 [%rd1+52], %r6;"
    )
    sims = [Sim(body(*lines)) for _ in range(2)]
    times = []
    for sim in sims:
        out = sim.buffer(np.zeros(8, np.uint64))
        assert sim.launch("k", out, block=1) == 0, sim.findings
        times.append(out.tolist())
    assert times[0] == times[1]
    assert times[0][:6] == sorted(set(times[0][:6]))
    assert times[0][6] == 0  # the high halves


def test_an_address_of_32_bits_wraps_around_before_it_is_used():
    """Compilers put a negative part into the register and the rest into the offset."""
    text = body(
        "mov.u32 %r1, cell; sub.u32 %r1, %r1, 65536; mov.u32 %r2, 5; st.shared.u32 [%r1+65536], %r2;",
        "atom.shared.add.u32 %r3, [%r1+65536], %r2; red.shared.add.u32 [%r1+65536], %r2;"
        " ld.shared.u32 %r4, [%r1+65536];",
        "ld.param.u64 %rd1, [p]; st.global.v2.u32 [%rd1], {%r3, %r4};",
        registers=ROOM,
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(2, np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert out.tolist() == [5, 15]


@pytest.mark.parametrize("name", [name for name in ADDRESSES if name not in ("shared", "peer")])
def test_mapa_of_a_generic_address_elsewhere_is_an_error(name):
    text = body(ADDRESSES[name], "mapa.u64 %rd4, %rd3, 1;", registers=ROOM, before=BEFORE)
    sim = Sim(text)
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=2, cluster=2) != 0
    assert sim.verdict == "error" and sim.kinds == {"bad-address"}
    assert sim.findings[0]["message"].startswith("mapa of 0x")
