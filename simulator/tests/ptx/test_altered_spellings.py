"""Instructions with a modifier or an operand lost, doubled or replaced: refused with their line, or taken.

The statements are those of vocabulary.ptx, of test_spellings.py and a few more, so that every mnemonic is among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulator.tests.isa.test_spellings import HEADER as BLACKWELL
from simulator.tests.isa.test_spellings import legal
from simulator.tests.sim_kit import PTX, PtxError, Sim

STATEMENT = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?P<name>[a-z][\w.:]+)(?P<operands>[^;{}]*(?:\{[^;]*)?);", re.M)
MOST_FORMS = 6  # most spellings of one mnemonic in legal(): the others differ in numbers only
# Modifiers of these only advise caches or tools, or the instruction ends the run, so any modifier is taken.
ADVICE = {"prefetch", "prefetchu", "discard", "applypriority", "createpolicy", "multimem", "pmevent"}
ANY_OPERANDS = {*ADVICE, "brkpt"}

# Mnemonics that vocabulary.ptx does not have.
MORE = """
sub.u32 %r1, %r2, %r3; subc.cc.u32 %r1, %r2, %r3; madc.lo.u32 %r1, %r2, %r3, %r4; mul24.lo.u32 %r1, %r2, %r3;
mad24.lo.s32 %r1, %r2, %r3, %r4; vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4; or.b32 %r1, %r2, %r3;
cos.approx.f32 %f1, %f2; getctarank.shared::cluster.u32 %r1, %r2; isspacep.shared %p1, %rd1;
ldu.global.u32 %r1, [%rd1]; prefetch.global.L2 [%rd1]; discard.global.L2 [%rd1], 128; trap; exit; griddepcontrol.wait;
createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0; griddepcontrol.launch_dependents; wgmma.fence.sync.aligned;
multimem.ld_reduce.relaxed.gpu.global.add.u32 %r1, [%rd1]; wgmma.commit_group.sync.aligned; brkpt; pmevent 3;
wgmma.wait_group.sync.aligned 1; shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, -1; elect.sync %r1|%p1, -1;
tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 2; applypriority.global.L2::evict_normal [%rd1], 128;
"""


def modules() -> Iterator[tuple[str, str, str]]:
    """The text before a statement, the statement without its semicolon, and the text after it."""
    whole = (PTX / "vocabulary.ptx").read_text()
    start = whole.index("ld.param", whole.index("visible .entry"))
    first = STATEMENT.search(whole, start)
    assert first is not None
    for line in re.findall(r"[a-z][^;]*(?=;)", MORE):
        yield whole[: first.start()], line, whole[first.end("operands") :]
    for found in STATEMENT.finditer(whole, start):
        yield whole[: found.start("name")], found["name"] + found["operands"], whole[found.end("operands") :]
    seen: dict[str, int] = {}
    for line in legal():
        name = re.sub(r"\d+", "", line.partition(" ")[0])
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= MOST_FORMS:
            yield f"{BLACKWELL}  ", line.rstrip(";"), ";\n  ret;\n}\n"


def altered(statement: str) -> Iterator[str]:
    """The statement without each of its modifiers, with it twice, and with other or fewer operands."""
    name, _, operands = statement.partition(" ")
    parts = re.split(r"\.(?=[a-zA-Z0-9])", name)
    for at in range(1, len(parts)):
        yield ".".join([*parts[:at], *parts[at + 1 :]]) + " " + operands
        yield ".".join([*parts[:at], parts[at], *parts[at:]]) + " " + operands
    each = [word for word in re.split(r",\s*(?![^{\[(]*[}\])])", operands.strip()) if word]
    for at in range(len(each)):
        for other in ([], ["%rs1"], ["%p1"], ["5"], ["[%r1]"], ["{%r1, %r2, %r3}"]):
            yield f"{name} " + ", ".join([*each[:at], *other, *each[at + 1 :]])


def refusal(before: str, statement: str, after: str) -> str:
    """The error's text; empty if the module is taken."""
    try:
        Sim(before + statement + after)
    except PtxError as error:
        return str(error)
    return ""


def test_each_refusal_of_an_altered_statement_names_its_line():
    taken = refused = 0
    for before, statement, after in modules():
        assert not refusal(before, statement, after), statement
        for one in altered(statement):
            error = refusal(before, one, after)
            taken, refused = taken + (not error), refused + bool(error)
            line = before.count("\n") + 1
            assert not error or re.match(rf"line {line}(?!\d): .+", error), (one, error)
    assert taken > 1000 and refused > 5000, (taken, refused)


def test_unknown_modifiers_and_operands_too_many_are_refused():
    for before, statement, after in modules():
        name, _, operands = statement.partition(" ")
        base = name.partition(".")[0]
        if base not in ADVICE:
            assert "none" in refusal(before, f"{name}.none {operands}", after), statement
        if base not in ANY_OPERANDS:
            more = ", ".join([operands, *["%r1"] * 5]) if operands.strip() else "%r1"
            assert refusal(before, f"{name} {more}", after), statement
