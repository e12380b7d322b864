"""Matching machine code with PTX for the clock: each instruction's origin and charge."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from simulator.python.machine_code import match, ptx, sass
from simulator.python.machine_code.assemble import assemble_left, assembled, by_machine_code, nvdisasm
from simulator.tests.sim_kit import nvcc

PTX = """
.version 8.0 // a comment; with a semicolon
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p<4>; .reg .b32 %r<8>;
    .loc 1 5 3
    mov.u32 %r1, 0;
LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9;
    { .reg .b32 t; mov.u32 t, %r1; }
    @%p1 bra LOOP;
    ret;
}
"""


def instruction(statement: int, text: str, stall: int = 1, reads: int = 7, waits: int = 0, writes: int = 7, label=""):
    """A machine instruction."""
    return sass.Instruction(0, statement, text, stall, reads, writes, waits, [label] if label else [])


def charged(*code: sass.Instruction) -> dict[int, match.Charge]:
    """The charges of PTX above: 0 mov, 1 add, 2 setp, 3 mov, 4 bra, 5 ret."""
    for place, item in enumerate(code):
        item.address = 16 * place
    module = ptx.marked(PTX)
    return match.charges(module, module.functions[0], list(code))


def test_each_ptx_instruction_gets_a_line_of_its_own():
    module = ptx.marked(PTX)
    assert [(s.line, s.nth, s.name) for s in module.statements] == [
        (9, 1, "mov.u32"), (10, 1, "add.u32"), (10, 2, "setp.lt.u32"), (11, 1, "mov.u32"),
        (12, 1, "bra"), (13, 1, "ret"),
    ]  # fmt: skip
    assert module.functions[0].labels == {"LOOP": 1} and module.functions[0].name == "k"
    marks = [line for line in module.text.splitlines() if line.startswith(".loc")]
    assert marks == [f".loc 1 {number} 0" for number in range(1, 7)]
    assert '.file 1 "ptx"' in module.text and ".loc 1 5 3" not in module.text


def test_nvdisasms_output_gives_stalls_barriers_and_ptx_lines():
    word = (5 | 3 << 5 | 2 << 8 | 0b100001 << 11) << 41
    shown = f"""
.text.k:
\t//## File "ptx", line 2
.L_x_1:
        /*0000*/                   IADD3 R1, R1, 0x1, RZ ;      /* 0x0000000101017810 */
                                                               /* 0x{word:016x} */
        /*0010*/              @P0 BRA `(.L_x_1) ;               /* 0x0000000000000947 */
                                                               /* 0x{1 << 41:016x} */
.L_x_2:
        /*0020*/                   BRA `(.L_x_2);               /* 0x0000000000007947 */
                                                               /* 0x{0:016x} */
        /*0030*/                   NOP;                         /* 0x0000000000007918 */
                                                               /* 0x{0:016x} */
"""
    (code,) = sass.functions(shown.splitlines()).values()
    assert [(item.name, item.statement, item.stall, item.target) for item in code] == [
        ("IADD3", 1, 5, None), ("BRA", 1, 1, ".L_x_1"),
    ]  # fmt: skip
    assert (code[0].writes, code[0].reads, code[0].waits, code[0].labels) == (3, 2, 0b100001, [".L_x_1"])


def test_instructions_between_are_charged_to_the_next_ptx_instruction():
    found = charged(
        instruction(0, "MOV R1, RZ", stall=2),
        instruction(-1, "UMOV UR4, URZ", stall=3),
        instruction(1, "IADD3 R1, R1, 0x1, RZ", stall=4, label=".L_x_1"),
        instruction(2, "ISETP.LT P0, R1, 0x9", stall=13, waits=1),
        instruction(4, "@P0 BRA `(.L_x_1)", stall=5),
        instruction(5, "EXIT"),
    )
    assert sorted(found) == [0, 1, 2, 4, 5], "the second mov has no machine code"
    assert (found[0].slots, found[0].before, found[0].after) == (2, 0, 5), "what ends a block is its last one's"
    assert (found[2].slots, found[2].before, found[2].waits) == (1, 4, 1) and found[2].pipes["alu"] == 1
    assert (found[4].before, found[4].after) == (13, 5)


def test_copies_of_a_loop_share_what_they_take():
    found = charged(
        instruction(0, "MOV R1, RZ"),
        *[
            item
            for copy in range(2)
            for item in (
                instruction(1, f"IADD3 R{copy}, R1, 0x1, RZ", stall=4, label="" if copy else ".L_x_1"),
                instruction(2, "ISETP.LT P0, R1, 0x9", stall=6),
            )
        ],
        instruction(4, "@P0 BRA `(.L_x_1)"),
        instruction(5, "EXIT"),
    )
    assert (found[1].slots, found[2].before) == (1, 4) and found[1].before == 3, (
        "none before the first, six before the other"
    )


COPY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<8>; .reg .b64 %rd<4>;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], %r2, [%r1];
    ret;
}
"""


def test_a_bulk_copy_is_charged_where_it_is_issued():
    module = ptx.marked(COPY)
    arrival, copied, end = 0, 1, 2
    code = [
        instruction(copied, "UMOV UR6, 0x200", 2),
        instruction(arrival, "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R10", 3),
        instruction(copied, "@P0 ELECT P2, URZ, PT", 4, label=".L_x_1"),
        instruction(copied, "UBLKCP.S.G [UR8], [UR4], UR6", 5),
        instruction(copied, "@P0 BRA.U.ANY `(.L_x_1)", 6),
        instruction(end, "EXIT", 7),
    ]
    code[:0] = [instruction(arrival, "IADD3 R1, R2, R3, RZ") for _ in range(4)]
    for place, item in enumerate(code):
        item.address = 16 * place
    found = match.charges(module, module.functions[0], code)
    assert found[arrival].order < found[copied].order
    assert (found[arrival].slots, found[arrival].before) == (6, 6), "what prepares the copy is before the arrival"
    assert sum(charge.slots for charge in found.values()) == len(code)


def test_cycles_since_a_slow_read_are_counted_by_kind():
    found = charged(
        instruction(0, "S2UR UR5, SR_CgaCtaId", stall=2, writes=0),
        instruction(0, "LDC R1, c[0x0][0x210]", stall=3, writes=1),
        instruction(1, "IADD3 R1, R1, UR5, RZ", stall=4, label=".L_x_1"),
        instruction(2, "ISETP.LT P0, R1, R2"),
        instruction(4, "@P0 BRA `(.L_x_1)"),
        instruction(5, "EXIT"),
    )
    assert found[1].asked == [match.NEVER] * 3, "who asks in another block is not seen"
    found = charged(
        instruction(-1, "S2R R7, SR_TID.X", stall=1, writes=3),
        instruction(-1, "S2UR UR5, SR_CgaCtaId", stall=2, writes=0),
        instruction(-1, "LDC R2, c[0x0][0x210]", stall=3, writes=1),
        instruction(0, "IADD3 R1, R2, UR5, RZ", waits=0b11),
        instruction(1, "IADD3 R1, R1, 0x1, RZ", label=".L_x_1"),
        instruction(2, "ISETP.LT P0, R1, R2"),
        instruction(4, "@P0 BRA `(.L_x_1)"),
        instruction(5, "EXIT"),
    )
    assert found[0].asked == [match.NEVER, 5, 3]


def test_parameter_lines_depend_on_address_and_reader():
    found = charged(
        instruction(-1, "LDC R1, c[0x0][0x28]"),  # not a launch parameter
        instruction(0, "ULDC.64 UR4, c[0x0][0x210]"),
        instruction(0, "IADD3 R1, R2, c[0x0][0x23c], RZ"),
        instruction(1, "LDC.64 R2, c[0x0][0x280]", label=".L_x_1"),
        instruction(1, "IADD3 R1, R1, c[0x0][0x7fc], R2"),
        instruction(2, "ISETP.LT P0, R1, c[0x0][0x1200]"),
        instruction(4, "@P0 BRA `(.L_x_1)"),
        instruction(5, "EXIT"),
    )
    assert found[0].parameters == 0b1
    assert found[1].parameters == 1 << 32 + 5 | 1 << 23, "of 32 bytes for LDC, behind that of the grid's sizes"
    assert found[2].parameters == 1 << 31, "the last bit has all that lie further"


def test_the_grids_sizes_are_a_line_that_ldc_fetches():
    found = charged(
        instruction(0, "LDC R0, c[0x0][0xc]"),
        instruction(1, "IADD3 R1, R2, c[0x0][0xc], RZ"),
        instruction(2, "EXIT"),
    )
    assert found[0].parameters == 1 << 32
    assert found[1].parameters == 0


ANOTHER = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd2], %r2, [%r1];"
TWO_COPIES = COPY.replace("    ret;", f"    {ANOTHER}\n    ret;")


def turns(number: int, statement: int) -> list[sass.Instruction]:
    """A loop in which lanes issue a copy in turn."""
    label = f".L_x_{number}"
    return [
        instruction(statement, "@P0 ELECT P2, URZ, PT", 4, label=label),
        instruction(statement, "UBLKCP.S.G [UR8], [UR4], UR6", 5),
        instruction(statement, f"@P0 BRA.U.ANY `({label})", 6),
    ]


def charged_copies(*between: sass.Instruction, text: str = TWO_COPIES) -> dict[int, match.Charge]:
    """The charges of an arrival, a copy, code between, a copy, and the end: 0 to 3."""
    module = ptx.marked(text)
    code = [instruction(0, "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R10"), *turns(1, 1), *between, *turns(2, 2)]
    code.append(instruction(3, "EXIT"))
    for place, item in enumerate(code):
        item.address = 16 * place
    return match.charges(module, module.functions[0], code)


def test_a_block_without_ptx_is_charged_to_the_next_block():
    found = charged_copies(instruction(2, "UIADD3 UR8, UR8, 0x400, URZ", 11), instruction(2, "UMOV UR14, 0x40", 12))
    assert (found[2].before, found[2].slots) == (11 + 12 + 4, 5), "with the election before it and the branch behind"
    assert (found[1].before, found[1].after) == (4, 5 + 6)


def test_but_not_if_another_branch_enters_the_next_block():
    found = charged_copies(
        instruction(-1, "@P3 BRA `(.L_x_2)", 1),
        instruction(2, "UIADD3 UR8, UR8, 0x400, URZ", 11),
        instruction(2, "UMOV UR14, 0x40", 12),
    )
    assert found[2].before == 4, "who comes by the branch has not run it"


def test_a_loop_of_all_lanes_is_charged_to_the_copy():
    assert charged_copies()[1].after == 11
    assert charged_copies(instruction(-1, "BRA `(.L_x_2)", 7))[1].after == 11 + 7


def test_a_scattered_block_is_at_home_where_it_ends():
    def elsewhere(statement: int) -> list[sass.Instruction]:
        return [instruction(5, "NOP"), instruction(statement, "MOV R2, R1"), instruction(5, "@P1 EXIT")]

    found = charged(
        instruction(0, "MOV R1, RZ"),
        *[item for statement in (1, 2, 3) for item in elsewhere(statement)],
        instruction(5, "NOP", label=".L_x_1"),
        instruction(4, "@P0 BRA `(.L_x_1)", 5),
        instruction(5, "EXIT"),
    )
    assert 4 in found and found[4].after == 5


def test_a_kernels_charges_add_up_to_its_machine_code(tmp_path: Path):
    """A loop that ptxas unrolls."""
    if nvdisasm() is None:
        pytest.skip("no nvdisasm")
    source = (
        "__global__ void k(float *x, int n) { float y = x[0]; for (int i = 0; i < n; i++) y = y * y + 1; x[0] = y; }"
    )
    (tmp_path / "k.cu").write_text(source)
    subprocess.run([nvcc(), "-arch=compute_90a", "-ptx", "-o", tmp_path / "k.ptx", tmp_path / "k.cu"], check=True)
    text = (tmp_path / "k.ptx").read_text()
    lines = assembled(text)
    assert lines[0] == "machine-code 4" and re.fullmatch(r"function _Z1kPfi [1-9]\d*", lines[1])
    products = [number for number in ours_of(lines, text) if number]
    assert len(products) > 1, "nvcc unrolls it as well"
    assert sum(products) == 100 * len(products), "one a PTX instruction, however often ptxas wrote it"


def ours_of(lines: list[str], text: str) -> list[int]:
    """The charge of a text's multiplications on their pipe, in hundredths."""
    rows = {tuple(map(int, line.split()[:2])): int(line.split()[7]) for line in lines[2:]}
    wanted = [statement for statement in ptx.marked(text).statements if statement.name.startswith("fma")]
    return [rows.get((statement.line, statement.nth), 0) for statement in wanted]


def test_a_run_repeats_until_all_modules_have_machine_code(tmp_path: Path):
    if nvdisasm() is None or shutil.which("nvcc") is None:
        pytest.skip("nothing to assemble with")
    runs = []

    def run(own: Path) -> int:
        runs.append(own)
        name = ("a", "b", "b")[len(runs) - 1]
        if not (own / f"{name}.machine").exists():
            (own / f"{name}.ptx").write_text(PTX)
        return len(runs)

    assert by_machine_code(run, tmp_path) == 3 and len(set(runs)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.machine", "a.ptx", "b.machine", "b.ptx"]
    assert (tmp_path / "a.machine").read_text().startswith("machine-code 4\nfunction k ")
    assert assemble_left(tmp_path) == 0


TENSOR_PTX = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<8>;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];
    barrier.cluster.arrive.relaxed;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
    ret;
}
"""


def test_blackwells_instructions_are_where_machine_code_carries_them_out():
    """Not where what prepares them is, which ptxas spreads over a block: 0 load, 1 arrival, 2 dealloc, 3 ret."""
    code = [
        instruction(1, "BSSY B0, `(.L_x_1)"), instruction(0, "R2UR UR4, R2"), instruction(0, "LDTM R1, tmem[UR4]"),
        instruction(2, "LDS R4, [R5]"), instruction(1, "UCGABAR_ARV"), instruction(1, "BSYNC B0"),
        instruction(2, "UTCATOMSWS.AND URZ, UR4"), instruction(2, "ATOMS.AND RZ, [R5], R4"), instruction(3, "EXIT"),
    ]  # fmt: skip
    for place, item in enumerate(code):
        item.address = 16 * place
    module = ptx.marked(TENSOR_PTX)
    found = match.charges(module, module.functions[0], code)
    assert {at: charge.order // 16 for at, charge in found.items()} == {0: 2, 1: 4, 2: 6, 3: 8}
