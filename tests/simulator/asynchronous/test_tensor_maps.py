"""Tensor maps that a kernel changes: tensormap.replace, and what has to come between a change and a copy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.sim_kit import MODES, PtxError, Sim, body

ROWS, COLUMNS = 8, 16
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r4], 128;"
# Four lanes' worth of stores in the place of the instruction that copies and fences.
STORES = (
    "shl.b32 %r20, %r1, 2; add.u32 %r20, %r20, %r4; ld.shared.u32 %r21, [%r20]; shl.b32 %r20, %r1, 2;"
    "cvt.u64.u32 %rd20, %r20; add.u64 %rd20, %rd20, %rd2; st.global.u32 [%rd20], %r21;"
    "fence.proxy.tensormap::generic.release.gpu; bar.warp.sync -1;"
)
FENCE = "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;"
WAIT = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r11; @!%p2 bra TRY;"
REPLACE = "tensormap.replace.tile.{}.shared::cta.b1024.{} [%r4], {};"


def kernel(replacements: str = "", copy: str = COPY) -> str:
    """Loads the same box of two tensors, one after another, through one map in global memory that it changes."""
    return body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, room;",
        "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [maps]; ld.param.u64 %rd4, [source]; mov.b64 %rd3, map;",
        "shl.b32 %r5, %r1, 2; cvt.u64.u32 %rd5, %r5; cvta.param.u64 %rd3, %rd3; add.u64 %rd6, %rd3, %rd5;",
        "ld.u32 %r6, [%rd6]; add.u32 %r7, %r4, %r5; st.shared.u32 [%r7], %r6;",
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;",
        "mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
        "READY: bar.warp.sync -1; mov.u32 %r10, 0;",
        f"ROUND: and.b32 %r11, %r10, 1; mul.lo.u32 %r12, %r10, {4 * ROWS * COLUMNS}; cvt.u64.u32 %rd7, %r12;",
        "add.u64 %rd7, %rd7, %rd4; @%p1 bra CHANGED;",
        REPLACE.format("global_address", "b64", "%rd7"),
        replacements,
        "CHANGED: bar.warp.sync -1;",
        copy,
        "@%p1 bra ISSUED;",
        FENCE,
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {4 * ROWS * COLUMNS};",
        "mov.u32 %r13, 0; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%r2], [%rd2, {%r13, %r13}], [%r3];",
        "ISSUED: bar.warp.sync -1;",
        WAIT,
        "mov.u32 %r14, %r1;",
        "OUT: shl.b32 %r15, %r14, 2; add.u32 %r16, %r15, %r2; ld.shared.u32 %r17, [%r16]; add.u32 %r15, %r15, %r12;",
        "cvt.u64.u32 %rd8, %r15; add.u64 %rd8, %rd8, %rd1; st.global.u32 [%rd8], %r17; add.u32 %r14, %r14, 32;",
        f"setp.lt.u32 %p3, %r14, {ROWS * COLUMNS}; @%p3 bra OUT;",
        "bar.warp.sync -1; add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 2; @%p3 bra ROUND;",
        params=".param .u64 out, .param .align 64 .b8 map[128], .param .u64 maps, .param .u64 source",
        registers=f".shared .align 128 .b8 tile[{4 * ROWS * COLUMNS}]; .shared .align 8 .b8 bar[8];"
        " .shared .align 128 .b8 room[128];",
    )


def run(text: str, mode: str = "eager"):
    """The simulator, and whether both tensors came out."""
    sim = Sim(text, mode, 3)
    source = sim.buffer(np.arange(2 * ROWS * COLUMNS, dtype=np.uint32).reshape(2, ROWS, COLUMNS) + 7)
    encoded = sim.tensor_map(source[0], 2, (COLUMNS, ROWS))
    out, maps = sim.buffer(np.zeros_like(source)), sim.buffer(np.zeros(32, np.uint32))
    sim.launch("k", out, encoded, maps, source)
    return sim, source, out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", [COPY, STORES], ids=["cp_fenceproxy", "stores"])
def test_a_map_whose_address_the_kernel_replaces(mode, copy):
    sim, source, out = run(kernel(copy=copy), mode)
    assert sim.verdict == "clean", sim.findings
    assert (out == source).all()


def test_replaced_sizes_and_boxes_count():
    fields = (
        REPLACE.format("global_dim", "b32", "1, 5")  # rows from the sixth on lie outside
        + REPLACE.format("fill_mode", "b32", "0")
        + REPLACE.format("elemtype", "b32", "2")
        + REPLACE.format("rank", "b32", "1")
        + REPLACE.format("box_dim", "b32", f"0, {COLUMNS}")
        + REPLACE.format("element_stride", "b32", "0, 1")
        + REPLACE.format("swizzle_mode", "b32", "0")
        + "mov.u64 %rd9, 64;"
        + REPLACE.format("global_stride", "b64", "0, %rd9")
    )
    sim, source, out = run(kernel(fields))
    assert sim.verdict == "clean", sim.findings
    assert (out[:, :5] == source[:, :5]).all()
    assert (out[:, 5:] == 0).all()


MUTANTS = {
    "no fence of the map": (FENCE, "", "missing-tensormap-fence"),
    "fence of another map": ("[%rd2], 128;\nmbarrier", "[%rd4], 128;\nmbarrier", "missing-tensormap-fence"),
    "changed while a copy reads it": (
        WAIT,
        "add.u32 %r18, %r10, 1; setp.lt.u32 %p4, %r18, 2; @%p4 bra LATER;" + WAIT + "LATER:",
        "tensor-map-in-use",
    ),
}


@pytest.mark.parametrize("copy", [COPY, STORES], ids=["cp_fenceproxy", "stores"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_change_out_of_order_is_found_in_every_mode(name, copy):
    before, after, kind = MUTANTS[name]
    text = kernel(copy=copy)
    assert text.count(before) == 1
    for mode in MODES:
        sim, _, _ = run(text.replace(before, after), mode)
        assert kind in sim.kinds, (mode, sim.findings)
        assert sim.verdict == "error"


def test_an_illegal_map_is_refused_when_it_is_used():
    sim, _, _ = run(kernel(REPLACE.format("box_dim", "b32", "0, 3")))
    finding = next(f for f in sim.findings if f["kind"] == "tensor-map")
    assert "the tensor map that the kernel made: the box's rows have 12 bytes" in finding["message"]


def test_a_field_that_is_not_modelled_is_incomplete():
    sim, _, _ = run(kernel(REPLACE.format("interleave_layout", "b32", "1")))
    assert sim.verdict == "incomplete"
    assert "interleave_layout" in sim.findings[0]["message"]


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%r1], [%rd1, {%r2,%r2,%r2}], [%r3], {%rs1};",
            "no im2col",
        ),
        ("tensormap.replace.tile.rank.global.b1024.b64 [%rd1], %rd2;", "not with this field or type"),
        ("multimem.st.global.u32 [%rd1], %r1;", "unknown instruction"),
        ("multimem.ld_reduce.global.add.u32 %r1, [%rd1];", "unknown instruction"),
        (
            "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},"
            "{%r1,%r2,%r3,%r4},{%f1,%f2,%f3,%f4},%r1,0x0;",
            "sparse matrices are not supported",
        ),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd1,"
            " %r1, 0, 1, 1, 1, 0, 0;",
            "sparse matrices are not supported",
        ),
        (
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
            " [%r1],[%r2],16,[%r3];",
            "reductions into shared memory are not supported",
        ),
        ("st.bulk.shared::cta [%r1], 64, 0;", "not supported"),
    ],
)
def test_what_is_not_modelled_is_an_error_with_its_name_and_line(instruction, says):
    with pytest.raises(PtxError) as refusal:
        Sim(body("mov.u32 %r1, 0;", instruction))
    name = instruction.split(" ")[0]
    assert str(refusal.value).startswith("line 10: "), refusal.value
    assert name in str(refusal.value)
    assert says in str(refusal.value)


@pytest.mark.parametrize(("offset", "kinds"), [(0, {"tensor-map-in-use"}), (124, {"tensor-map-in-use"}), (128, set())])
def test_a_store_to_any_word_of_a_map_changes_it(offset, kinds):
    """A word of the map is stored as it was while a copy may still read it; the word after the map is another's."""
    touch = f"@!%p1 ld.global.u32 %r22, [%rd2+{offset}]; @!%p1 st.global.u32 [%rd2+{offset}], %r22;"
    text = kernel().replace(WAIT, f"add.u32 %r18, %r10, 0; {touch}" + WAIT)
    for mode in MODES:
        sim = Sim(text, mode, 3)
        source = sim.buffer(np.arange(2 * ROWS * COLUMNS, dtype=np.uint32).reshape(2, ROWS, COLUMNS) + 7)
        out, maps = sim.buffer(np.zeros_like(source)), sim.buffer(np.zeros(64, np.uint32))
        sim.launch("k", out, sim.tensor_map(source[0], 2, (COLUMNS, ROWS)), maps, source)
        assert sim.kinds == kinds, (mode, sim.findings)


# PTX ISA, tensormap.replace: .elemtype's values and the bytes of an element
ELEMENTS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}


@pytest.mark.parametrize("code", ELEMENTS)
def test_element_types_by_their_code(code):
    """The same rows of 64 bytes as elements of each type: other bytes than expected would leave the barrier open."""
    count = 4 * COLUMNS // ELEMENTS[code]
    fields = REPLACE.format("elemtype", "b32", str(code))
    for field in ("box_dim", "global_dim"):
        fields += REPLACE.format(field, "b32", f"0, {count}")
    sim, source, out = run(kernel(fields))
    assert sim.verdict == "clean", sim.findings
    assert code in (11, 12) or (out == source).all()
