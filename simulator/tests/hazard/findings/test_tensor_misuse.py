"""Misuse of tensor memory and of matrix descriptors: the kind of finding, and the numbers that it names."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.hazard.findings.test_pipe_order import COLUMNS, COMMIT, OLD, OPERATIONS, TENSOR
from simulator.tests.hazard.test_wgmma import BEGIN, FENCE, MMA, ROOM, WAIT
from simulator.tests.hazard.test_wgmma import COMMIT as GROUP
from simulator.tests.sim_kit import HEADER, MODES, Sim, body

ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {};"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {};"
KERNEL = (
    HEADER.replace("sm_90a", "sm_100a")
    + ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<9>;\n"
    ".shared .align 8 .b32 slot[2]; mov.u32 %r1, %tid.x; shr.u32 %r3, %r1, 5; setp.eq.u32 %p1, %r3, 0;"
    " setp.eq.u32 %p2, %r1, 0; ld.param.u64 %rd1, [p]; mov.u32 %r9, 7; mov.u32 %r8, 0;\n"
)
GET = "ld.shared.u32 %r5, [slot];"
LD, ST = "tcgen05.ld.sync.aligned.32x32b.x1.b32", "tcgen05.st.sync.aligned.32x32b.x1.b32"
WAITS = "tcgen05.wait::ld.sync.aligned; tcgen05.wait::st.sync.aligned;"


def run(*lines: str, block: int = 32, mode: str = "eager", **launch) -> tuple[Sim, np.ndarray]:
    sim = Sim(KERNEL + "\n".join(lines) + "\nret;\n}\n", mode, limit=2_000_000)
    out = sim.buffer(np.zeros(256, np.uint32))
    sim.launch("k", out, block=block, **launch)
    return sim, out


CASES = {  # the kind, and parts of the message
    ALLOC.format(48): ("tensor-memory", ("tcgen05.alloc", "48 columns", "32 to 512")),
    ALLOC.format(16): ("tensor-memory", ("tcgen05.alloc", "16 columns", "32 to 512")),
    ALLOC.format(1024): ("tensor-memory", ("tcgen05.alloc", "1024 columns", "32 to 512")),
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + ALLOC.format(32): (
        "tensor-memory",
        ("tcgen05.alloc", "tcgen05.relinquish_alloc_permit"),
    ),
    ALLOC.format(64) + GET + FREE.format(32): ("tensor-memory", ("tcgen05.dealloc", "32 columns", "column 0", "64")),
    ALLOC.format(64) + GET + FREE.format(48): ("tensor-memory", ("tcgen05.dealloc", "48 columns", "32 to 512")),
    ALLOC.format(32) + GET + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;": (
        "cta-group",
        (".cta_group::2", ".cta_group::1"),
    ),
    ALLOC.format(32) + GET + LD + " {%r6}, [%r5+512];": ("tensor-memory", (".32x32b.x1", "column 512", "has 512")),
    ALLOC.format(32) + GET + "@%p2 " + LD + " {%r6}, [%r5];": ("divergent-aligned", ()),
    ALLOC.format(32): ("tensor-memory-leak", ("32 columns", "column 0")),
}


@pytest.mark.parametrize("lines", CASES)
def test_a_broken_rule_is_reported(lines):
    kind, parts = CASES[lines]
    sim, _ = run(lines)
    found = [f for f in sim.findings if f["kind"] == kind]
    assert len(found) == 1 and found[0]["verdict"] == "error", sim.findings
    assert all(part in found[0]["message"] for part in parts), found


@pytest.mark.parametrize("columns", [32, 64, 128, 256, 512])
def test_every_size_can_be_allocated_and_freed(columns):
    sim, _ = run(ALLOC.format(columns) + GET + "bar.warp.sync -1;" + FREE.format(columns))
    assert sim.verdict == "clean", sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_an_allocation_waits_for_columns(mode):
    second = "@%p1 bra A; " + ALLOC.format(256).replace("[slot]", "[slot+4]") + GET.replace("[slot]", "[slot+4]")
    lines = (
        "@!%p1 bra M; " + ALLOC.format(512) + GET + " M: bar.sync 0;",
        second + FREE.format(256) + "bra E;",
        "A: add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 300; @%p3 bra A;",
        FREE.format(512) + " E:",
    )
    sim, _ = run(*lines, block=64, mode=mode)
    assert sim.verdict == "clean", (mode, sim.findings)
    sim, _ = run(*lines[:3], " E:", block=64, mode=mode)
    messages = [f["message"] for f in sim.findings if f["kind"] == "deadlock"]
    assert len(messages) == 1 and "tcgen05.alloc" in messages[0], (mode, sim.findings)


@pytest.mark.parametrize(
    ("where", "warp", "words"),
    [
        (0, 0, None),
        (32, 1, None),
        (128, 0, ("lane 128", "has 128 lanes")),
        (160, 1, ("lane 160", "has 128 lanes")),
        (0, 1, ("lane 0", "32 to 63")),
        (0, 3, ("lane 0", "96 to 127")),
    ],
)
def test_the_lanes_that_a_warp_can_access(where, warp, words):
    own = f"shl.b32 %r6, %r3, 21; add.u32 %r6, %r6, %r5; {ST} [%r6], {{%r1}}; {WAITS}"
    read = f"setp.eq.u32 %p3, %r3, {warp}; @!%p3 bra S; {LD} {{%r7}}, [%r5+{where << 16}]; {WAITS}"
    lines = ("@!%p1 bra M; " + ALLOC.format(32) + " M: bar.sync 0;" + GET + own, read)
    end = "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r7;"
    end += " S: tcgen05.fence::before_thread_sync; bar.sync 0;"
    end += " tcgen05.fence::after_thread_sync; @!%p1 bra E;"
    sim, out = run(*lines, end + FREE.format(32) + " E:", block=128)
    assert out[32 * warp : 32 * warp + 32].tolist() == list(range(32 * warp, 32 * warp + 32))
    assert [f["kind"] for f in sim.findings] == ([] if words is None else ["tensor-memory-lane"])
    assert all(word in sim.findings[0]["message"] for word in words or ())


def pipe(operation: str, mode: str = "eager") -> tuple[Sim, np.ndarray]:
    text = TENSOR.replace("OPERATION", operation).replace("ACCUMULATE", "0")
    sim = Sim(text.replace("COMMIT", COMMIT).replace("LAST", ""), mode, limit=2_000_000)
    out = sim.buffer(np.zeros((128, COLUMNS), np.uint32))
    sim.launch("k", out, block=128)
    return sim, out


def test_disabled_lanes_of_an_mma_keep_their_sums():
    mma = OPERATIONS["mma"][0].replace("%p6", "{%r21, %r22, %r9, %r23}, %p6")
    setup = "mov.u32 %r21, 0x5; mov.u32 %r22, 0xffffffff; mov.u32 %r23, 0x80000000;\n@%p1 "
    text = TENSOR.replace("@%p1 OPERATION", setup + mma).replace("ACCUMULATE", "0")
    sim = Sim(text.replace("COMMIT", COMMIT).replace("LAST", ""))
    out = sim.buffer(np.zeros((128, COLUMNS), np.uint32))
    sim.launch("k", out, block=128)
    assert not sim.kinds & {"tensor-operand", "instruction-descriptor"}, sim.findings
    left = [lane for lane in range(128) if (out[lane, 32:96] == OLD).all()]
    assert left == [0, 2, *range(32, 64), 127]
    assert (np.delete(out[:, 32:96], left, 0) == 0).all()


MMA_OF = "tcgen05.mma.cta_group::1.kind::f16 [{}], {}, {}, {}, %p6;"
SOUND = ("%r5+32", "%rd3", "%rd3", "0x08100010")
WRONG = {  # which operand, its value, code before, the kind, and a part of the message
    "an undefined swizzle mode": (1, "%rd6", "or.b64 %rd6, %rd3, 0xe000000000000000;",
                                  "matrix-descriptor", "swizzle mode 7"),
    "a descriptor without its version": (2, "%rd6", "and.b64 %rd6, %rd3, 0xffff8fffffffffff;",
                                         "matrix-descriptor", "bits 46-48"),
    "an undefined N": (3, "0x08020010", "", "instruction-descriptor", "N = "),
    "an undefined type of sum": (3, "0x08100030", "", "instruction-descriptor", None),
    "sparsity in a dense instruction": (3, "0x08100014", "", "instruction-descriptor", "sparsity (bit 2"),
    "columns past the end": (0, "%r5+480", "", "tensor-operand", "reaches column 543 of tensor memory, which has 512"),
    "a lane outside D": (0, "%r6", "add.u32 %r6, %r5, 1048576;", "tensor-operand", "the lane of"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_mma_with_a_wrong_operand_is_refused(name):
    at, operand, setup, kind, words = WRONG[name]
    operands = [operand if i == at else sound for i, sound in enumerate(SOUND)]
    text = TENSOR.replace("@%p1 OPERATION", f"{setup}\n@%p1 {MMA_OF.format(*operands)}").replace("ACCUMULATE", "0")
    sim = Sim(text.replace("COMMIT", COMMIT).replace("LAST", ""), limit=2_000_000)
    sim.launch("k", sim.buffer(np.zeros((128, COLUMNS), np.uint32)), block=128)
    errors = [f for f in sim.findings if f["verdict"] in ("error", "incomplete")]
    assert errors and errors[0]["kind"] == kind, sim.findings
    assert words is None or words in errors[0]["message"], errors


def test_a_commit_only_signals_ctas_of_the_cluster():
    for mask, good in ((1, True), (0, False), (2, False), (3, False)):
        multicast = f"mov.b16 %h, {mask}; @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
        commit = COMMIT.replace(
            "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7]",
            f"{multicast}.multicast::cluster.b64 [%r7], %h",
        )
        text = TENSOR.replace("OPERATION", OPERATIONS["cp"][0]).replace("ACCUMULATE", "0").replace("LAST", "")
        sim = Sim(text.replace("COMMIT", commit).replace("{\n.reg", "{\n.reg .b16 %h; .reg", 1), limit=2_000_000)
        sim.launch("k", sim.buffer(np.zeros((128, COLUMNS), np.uint32)), block=128)
        words = [f["message"] for f in sim.findings if f["kind"] == "multicast-mask"]
        assert len(words) == (not good)
        assert good or f"{mask:#x} ".replace("0x0", "0") in words[0], words


GROUPS = {  # a change of the descriptors: the kind of finding
    "or.b64 %rd5, %rd5, 0x4000;": "matrix-descriptor",  # a bit that has no meaning
    "or.b64 %rd6, %rd6, 0x3fff;": "matrix-descriptor",  # past the CTA's memory
    "": None,
}


@pytest.mark.parametrize("change", GROUPS)
def test_a_wgmma_with_a_wrong_descriptor_is_refused(change):
    sim = Sim(body(BEGIN, change, FENCE, MMA, GROUP + WAIT, registers=ROOM))
    sim.launch("k", 0, block=128)
    assert sim.kinds == ({GROUPS[change]} if GROUPS[change] else set()), sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_of_a_pending_sum_waits_for_it(mode):
    """ptxas drops the copy or waits; the simulator waits and reports it."""
    store = "mul.wide.u32 %rd8, %r1, 4; ld.param.u64 %rd7, [p]; add.u64 %rd7, %rd7, %rd8; st.global.f32 [%rd7], %f9;"
    for commit in (GROUP, ""):
        lines = ("mov.f32 %f2, 0f3F800000;", FENCE, MMA, commit, "mov.f32 %f9, %f2;", "" if commit else GROUP, WAIT)
        sim = Sim(body(BEGIN, *lines, store, registers=ROOM), mode, limit=2_000_000)
        out = sim.buffer(np.ones(128, np.float32))
        sim.launch("k", out, block=128)
        assert sim.kinds == {"wgmma-register"} and sim.verdict == "review", (mode, sim.findings)
        assert not out.any(), mode
