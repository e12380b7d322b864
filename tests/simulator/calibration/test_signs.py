"""Explanations of rounds whose sign the clock predicts wrong, and counts of main loops."""

from __future__ import annotations

from simulator.calibration.h200.measured import main_loops, ratios, signs, stamps
from simulator.calibration.rows import load

PTX = """
.visible .entry far(
.param .u64 p
)
{
mov.u32 %r1, 0;
$L__BB0_1:
add.u32 %r1, %r1, 1;
@%p1 bra $L__BB0_1;
}
.visible .entry near(
)
{
$L__BB1_1:
.loc 1 2 3
// a remark
{ .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd5, %rd6, p; }
$L__BB1_2:
mov.u32 %r2, 0;
@%p2 bra $L__BB1_2;
@!%p1 bra.uni $L__BB1_1;
ret;
}
"""
SASS = """
        /*0000*/                   MOV R1, R2 ;                     /* 0x00 */
        /*0010*/                   R2UR UR4, R1 ;                   /* 0x00 */
        /*0020*/                   HGMMA.64x8x16.F32 R24, R8, gdesc[UR4], R24 ; /* 0x00 */
        /*0030*/               @P0 BRA 0x10 ;                       /* 0x00 */
        /*0040*/                   IADD3 R1, R1, 0x1, RZ ;          /* 0x00 */
        /*0050*/               @P1 BRA 0x40 ;                       /* 0x00 */
        /*0060*/                   BRA 0x80 ;                       /* 0x00 */
"""


def test_a_main_loop_is_the_one_with_most_mmas():
    loop = main_loops.busiest(main_loops.ptx_loops(main_loops.ptx_functions(PTX)["near"]))
    mma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    assert [line.split()[0] for line in loop] == ["setp.ne.b32", mma, "mov.u32", "@%p2", "@!%p1"]
    code = main_loops.busiest(main_loops.sass_loops(SASS.splitlines()))
    assert [line.split()[0] for line in code] == ["R2UR", "HGMMA.64x8x16.F32", "@P0"]
    assert main_loops.counts(loop, code) == {"mmas": 1, "ptx": 5, "machine_code": 3, "uniform": 1}
    assert main_loops.busiest(main_loops.ptx_loops(main_loops.ptx_functions(PTX)["far"]))[0].startswith("add")
    assert main_loops.busiest([]) == []


def test_more_instructions_per_mma_are_reported():
    side = {"mmas": 16, "ptx": 400, "machine_code": 300, "uniform": 50}
    half = {"mmas": 8, "ptx": 220, "machine_code": 150, "uniform": 30}
    text = main_loops.text({"9": {"base": side, "candidate": half}})
    assert text.splitlines()[-1] == "| 0009 | 16, 8 | 400, 220 | +10 % | 300, 150 | +0 % | 50, 30 |"


def test_every_wrong_sign_is_explained():
    found = ratios.ratios(row for row in load("h200").values() if row.group == "rounds")
    wrong = [ratio for ratio in found if ratio.moved and not ratio.right]
    assert wrong
    text = signs.text(wrong)
    assert "not known" not in text
    assert len(text.splitlines()) == 2 + len(wrong)
    other = signs.text([ratios.Ratio("0999", ("1x1x1",), 0.9, 1.1)])
    assert other.splitlines()[-1] == "| 0999 | 1.100 | 0.900 |  | not known |"


def test_the_committed_loops_are_those_of_the_rounds_named():
    rounds = main_loops.load()
    assert [int(number) for number in rounds] == sorted(main_loops.KERNELS)
    for sides in rounds.values():
        for side in sides.values():
            assert side["mmas"] > 0
            assert side["uniform"] < side["machine_code"] <= side["ptx"]


def test_stamps_tell_what_lies_between_them():
    names = {"a": "first", "b": "second", "c": "third"}
    assert stamps.parts({"a": [5, 0, 9], "c": [12, 0, 20]}, names) == {"first": 5, "third": 7}
    row = {"shape": "1x2x3", "tile": "t", "card": {"a": [5], "c": [12]}, "simulated": {"a": [4], "c": [8]}}
    other = {"shape": "9x9x9", "tile": "u", "card": {"d": [1]}, "simulated": {"d": [1]}}
    assert stamps.of([row, other], names).splitlines()[2:] == ["| 1x2x3 t | 5, 4 |  | 7, 4 | +4 |"]
