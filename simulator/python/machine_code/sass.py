"""Reads nvdisasm's output: each machine instruction's control bits and the PTX instruction it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

SECTION = re.compile(r"\.text\.([\w$.]+):")
LINE = re.compile(r'\s*//## File "ptx", line (\d+)')
LABEL = re.compile(r"(\.L_\w+):")
FIRST_WORD = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
REGISTERS = re.compile(r"\s*//-+ nvinfo : EIATTR_REGCOUNT")
ATTRIBUTE_OF = re.compile(r"\s+/\*[0-9a-f]+\*/\s+\.word\s+index@\(([\w$.]+)\)")
ATTRIBUTE = re.compile(r"\s+/\*[0-9a-f]+\*/\s+\.word\s+0x([0-9a-f]{8})")
SECOND_WORD = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
TARGET = re.compile(r"`\((\.L_\w+)\)")
NO_BARRIER = 7
CONSTANT = re.compile(r"c\[0x0\]\[0x([0-9a-f]+)\]")
# HW: constants are fetched in lines of 64 bytes, by LDC in lines of 32 (measured: h200_launch_parameters,
# h200_launch_ends).  A launch's parameters start at 0x210 on sm_90 and at 0x380 on sm_100 (nvdisasm).  The launch
# configuration below them needs no fetch, except the grid's sizes in the first 32 bytes.
FIRST_PARAMETER, CONSTANT_LINE, LDC_LINE, LINES = 0x200, 64, 32, 32
# HW: on sm_70 and later, bits 41 to 62 of an instruction's second word are the cycles until the warp's next issue, the
# yield flag, the barriers that its result and its operand reads release, and the barriers that it waits for (published:
# CuAssembler's notes on control codes).
CONTROL_AT = 41


@dataclass
class Instruction:
    """A machine instruction."""

    address: int
    statement: int  # index of its PTX statement in the module; -1: none
    text: str
    stall: int = 0  # cycles until the warp's next instruction
    reads: int = NO_BARRIER  # barrier released when its operands have been read
    writes: int = NO_BARRIER  # barrier released when its result is ready
    waits: int = 0  # barriers it waits for, a bit each
    labels: list[str] = field(default_factory=list)  # the labels before it

    @property
    def bare(self) -> str:
        """The text without its predicate."""
        return re.sub(r"^@!?U?P[\dT]+\s+", "", self.text)

    @property
    def name(self) -> str:
        """The mnemonic, without predicate and modifiers."""
        return self.bare.split()[0].split(".")[0]

    @property
    def target(self) -> str | None:
        """The label it branches to."""
        found = TARGET.search(self.text)
        return found[1] if found and self.name in ("BRA", "BRX", "BRXU", "JMP", "CALL") else None

    @property
    def parameters(self) -> int:
        """The lines of launch parameters that it reads, a bit each; LDC's lines are in the upper half.

        LDC has shorter lines on a path of its own; its first line holds the grid's sizes. The last bit of a half stands
        for all further lines.
        """
        found = {int(at, 16) for at in CONSTANT.findall(self.text)}
        ldc = self.name == "LDC"
        line = LDC_LINE if ldc else CONSTANT_LINE
        lines = {(at - FIRST_PARAMETER) // line + ldc for at in found if at >= FIRST_PARAMETER}
        sizes = {0 for at in found if ldc and at < LDC_LINE}
        mask = sum(1 << line for line in {min(line, LINES - 1) for line in lines | sizes})
        return mask << LINES if ldc else mask

    @property
    def ends_block(self) -> bool:
        """True if the instruction can transfer control."""
        return self.name in ("BRA", "BRX", "BRXU", "JMP", "EXIT", "RET", "CALL", "BREAK", "BSYNC", "KILL", "BPT")


def _control(instruction: Instruction, word: int) -> None:
    bits = word >> CONTROL_AT
    instruction.stall = bits & 15
    instruction.writes = bits >> 5 & 7
    instruction.reads = bits >> 8 & 7
    instruction.waits = bits >> 11 & 63


def functions(lines: Iterable[str]) -> dict[str, list[Instruction]]:
    """Each function's instructions, without the padding at its end."""
    found: dict[str, list[Instruction]] = {}
    code: list[Instruction] = []
    statement, labels, half = -1, [], False
    for line in lines:
        if section := SECTION.match(line):
            code = found.setdefault(section[1], [])
            statement, labels = -1, []
        elif marked := LINE.match(line):
            statement = int(marked[1]) - 1
        elif label := LABEL.match(line):
            labels.append(label[1])
        elif first := FIRST_WORD.match(line):
            code.append(Instruction(int(first[1], 16), statement, first[2], labels=labels))
            labels, half = [], True
        elif half and (second := SECOND_WORD.match(line)):
            _control(code[-1], int(second[1], 16))
            half = False
    return {name: _without_padding(code) for name, code in found.items()}


def registers(lines: Iterable[str]) -> dict[str, int]:
    """Registers per thread, by function."""
    found: dict[str, int] = {}
    expected, name = False, ""
    for line in lines:
        if REGISTERS.match(line):
            expected, name = True, ""
        elif expected and (function := ATTRIBUTE_OF.match(line)):
            name = function[1]
        elif expected and name and (value := ATTRIBUTE.match(line)):
            found[name], expected = int(value[1], 16), False
    return found


def _without_padding(code: list[Instruction]) -> list[Instruction]:
    end = len(code)
    while end > 0 and (code[end - 1].name == "NOP" or code[end - 1].target in code[end - 1].labels):
        end -= 1
    return code[:end]
