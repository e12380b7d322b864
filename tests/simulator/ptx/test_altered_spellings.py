"""What the parser says of each instruction when a modifier or an operand of it is lost or another: a record.

After a change that is meant: `pytest -n 0 --record-commands tests/simulator/ptx/test_altered_spellings.py`.  Where an
opcode differs, told_of() gives its sentences: compare them before and after.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.isa.test_spellings import HEADER as BLACKWELL
from tests.simulator.isa.test_spellings import legal
from tests.simulator.sim_kit import PTX, PtxError, Sim

RECORD = Path(__file__).with_name("altered_spellings.json")
STATEMENT = re.compile(r"^(?P<guard>\s*(?:@!?%p\d+\s+)?)(?P<name>[a-z][\w.:]+)(?P<operands>[^;{}]*(?:\{[^;]*)?);", re.M)
MOST_FORMS = 6  # of one mnemonic's legal() spellings: the rest differ in numbers alone


# Of what vocabulary.ptx has no statement; in place of its first one.
MORE = """
sub.u32 %r1, %r2, %r3; subc.cc.u32 %r1, %r2, %r3; madc.lo.u32 %r1, %r2, %r3, %r4; mul24.lo.u32 %r1, %r2, %r3;
mad24.lo.s32 %r1, %r2, %r3, %r4; vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4; or.b32 %r1, %r2, %r3;
cos.approx.f32 %f1, %f2; getctarank.shared::cluster.u32 %r1, %r2; isspacep.shared %p1, %rd1;
ldu.global.u32 %r1, [%rd1]; prefetch.global.L2 [%rd1]; discard.global.L2 [%rd1], 128; trap; exit; griddepcontrol.wait;
createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0; griddepcontrol.launch_dependents; wgmma.fence.sync.aligned;
multimem.ld_reduce.relaxed.gpu.global.add.u32 %r1, [%rd1]; wgmma.commit_group.sync.aligned; brkpt; pmevent 3;
wgmma.wait_group.sync.aligned 1; shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, -1; elect.sync %r1|%p1, -1;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;
tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 2; applypriority.global.L2::evict_normal [%rd1], 128;
"""


def altered(name: str, operands: str) -> Iterator[str]:
    """A statement without each of its modifiers, with it twice, and with other or fewer operands."""
    parts = re.split(r"\.(?=[a-zA-Z0-9])", name)
    for at in range(1, len(parts)):
        yield ".".join([*parts[:at], *parts[at + 1 :]]) + operands
        yield ".".join([*parts[:at], parts[at], *parts[at:]]) + operands
    yield f"{name}.none{operands}"
    each = [word for word in re.split(r",\s*(?![^{\[(]*[}\])])", operands.strip()) if word]
    for at in range(len(each)):
        for other in ([], ["%rs1"], ["%p1"], ["5"], ["[%r1]"], ["{%r1, %r2, %r3}"]):
            yield f"{name} " + ", ".join([*each[:at], *other, *each[at + 1 :]])
    yield f"{name} " + ", ".join([*each, "%r1"])


def said(text: str) -> str:
    """The parser's words, without the line's number; empty where it takes the text."""
    try:
        Sim(text)
    except PtxError as error:
        return re.sub(r"line \d+", "line", str(error))
    return ""


def texts() -> Iterator[tuple[str, str]]:
    """A base name, and a module with one altered statement of it."""
    whole = (PTX / "vocabulary.ptx").read_text()
    start = whole.index("visible .entry")
    first = STATEMENT.search(whole, whole.index("ld.param", start))
    assert first is not None
    for line in re.findall(r"[a-z][^;]*;", MORE):
        name, _, operands = line.rstrip(";").partition(" ")
        for text in (f"{name} {operands}", *altered(name, f" {operands}")):
            yield name.split(".")[0], f"{whole[: first.start()]}{text};{whole[first.end() :]}"
    for found in STATEMENT.finditer(whole, whole.index("ld.param", start)):
        for text in altered(found["name"], found["operands"]):
            yield found["name"].split(".")[0], f"{whole[: found.start('name')]}{text}{whole[found.end('operands') :]}"
    seen: dict[str, int] = {}
    for line in legal():
        name, _, operands = line.rstrip(";").partition(" ")
        kind = re.sub(r"\d+", "", name)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= MOST_FORMS:
            for text in altered(name, f" {operands}"):
                yield ".".join(name.split(".")[:2]), f"{BLACKWELL}  {text};\n  ret;\n}}\n"


def told_of(wanted: str = "") -> dict[str, list[str]]:
    """Base name -> what was said of each altered statement."""
    told: dict[str, list[str]] = {}
    for name, text in texts():
        if not wanted or name == wanted:
            told.setdefault(name, []).append(said(text))
    return told


def test_what_is_no_instruction_is_refused_in_the_words_that_were_recorded(request: pytest.FixtureRequest):
    found = {
        name: f"{sum(not one for one in words)} of {len(words)} taken, "
        + hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
        for name, words in sorted(told_of().items())
    }
    if request.config.getoption("record_commands"):
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    assert len(found) > 105 and found == json.loads(RECORD.read_text()), "other words than were recorded; see the top"
