"""Instructions that the simulator does not model: refused by the parser, or ending the run when they are reached."""

from __future__ import annotations

import pytest

from simulator.tests.sim_kit import PtxError, Sim, body


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (
            "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes"
            " [%r1], [%rd1, {%r2,%r2,%r2}], [%r3], {%rs1,%rs1};",
            ".im2col::w::128 is not supported",
        ),
        ("tensormap.replace.tile.rank.global.b1024.b64 [%rd1], %rd2;", "this field and type"),
        ("multimem.ld.global.u32 [%rd1], %r1;", "multimem has .ld_reduce, .st, .red"),
        (
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
            " [%r1],[%r2],16,[%r3];",
            "reductions into shared memory are not supported",
        ),
        ("st.bulk.shared::cta [%r1], 64, 0;", "sm_100"),
        ("vmad.s32.s32.s32 %r1, %r1, %r1, %r1;", "unknown instruction"),
        # The rest of what simulator/README.md lists.
        ("tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r2], %r3, %p1;", ".ws with a sparse A"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r1, %r2}, %r3, [%r2];", "expected .b32"),
        ("tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3, %f4}];", "only 1d, 2d, 3d"),
        ("sust.p.2d.b32.clamp [%rd1, {%r1, %r2}], {%r3};", "only .b is supported"),
        ("sured.b.add.2d.u32.clamp [%rd1, {%r1, %r2}], %r3;", "unknown instruction"),
        ("vadd.s32.s32.s32 %r1, %r1, %r1;", "unknown instruction"),
        ("vadd4.s32.s32.s32 %r1.b0, %r1, %r1, %r1;", "destination"),
        ("alloca.u64 %rd1, 16;", "unknown instruction"),
    ],
)
def test_the_parser_refuses_an_instruction_by_name_and_line(instruction, says):
    with pytest.raises(PtxError) as refusal:
        Sim(body("mov.u32 %r1, 0;", instruction))
    name = instruction.split(" ")[0]
    assert str(refusal.value).startswith("line 10: "), refusal.value
    assert name in str(refusal.value)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "instruction",
    [
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%r1, %r2, %r3, %r4}, [%rd1];",
        "multimem.st.weak.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};",
        "multimem.red.release.gpu.global.add.u32 [%rd1], %r1;",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;",
    ],
)
def test_multimem_ends_the_run_only_where_it_is_reached(instruction):
    text = body(f"ld.param.u64 %rd1, [p]; setp.ne.u64 %p1, %rd1, 0; @%p1 bra END; {instruction} END:")
    # The kernel skips the instruction unless its parameter is 0.
    for address, kinds, verdict in ((1, set(), "clean"), (0, {"multimem"}, "incomplete")):
        sim = Sim(text)
        sim.launch("k", address, block=32)
        assert sim.kinds == kinds and sim.verdict == verdict
        assert not kinds or "cuMulticastCreate" in sim.findings[0]["message"]
