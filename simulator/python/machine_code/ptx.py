"""Gives each PTX instruction a line number of its own, so that machine code can be traced to it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
SOURCE = re.compile(r"\.(file|loc)\b[^\n]*")
HEADER = re.compile(r"\.(version|target|address_size)\b[^\n]*")
ENTRY = re.compile(r"\.(?:entry|func)\b[^{;]*?([\w$]+)\s*\(|\.(?:entry|func)\s+([\w$]+)")
BRANCH = re.compile(r"(?:@!?[\w$%]+\s+)?bra(?:\.uni)?\s+([\w$]+)\s*;")
ENDS = re.compile(r"(?:@!?[\w$%]+\s+)?(?:bra|brx|ret|exit|trap|call)\b")


@dataclass(frozen=True)
class Statement:
    """An instruction: its line, its number on that line (both from 1) and its text."""

    line: int
    nth: int
    text: str

    @property
    def name(self) -> str:
        """The mnemonic with its modifiers."""
        return re.sub(r"^@!?[\w$%]+\s+", "", self.text).split()[0].rstrip(";")


@dataclass
class Function:
    """A function: the module's statements from `first` to before `end`, and the labels' places."""

    name: str
    first: int
    end: int = 0
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class Module:
    """The marked text, in which line N of the file "ptx" is statements[N - 1]."""

    text: str
    statements: list[Statement]
    functions: list[Function]

    @cached_property
    def has_tcgen05(self) -> bool:
        """Whether any instruction is one of Blackwell's."""
        return any(statement.name.startswith("tcgen05.") for statement in self.statements)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = COMMENT.sub(lambda found: "\n" * found[0].count("\n") or " ", text)
        self.at, self.line, self.depth = 0, 1, 0
        self.out: list[str] = []
        self.module = Module("", [], [])
        self.on_line: Counter[int] = Counter()

    def take(self, end: int, keep: bool = True) -> str:
        """Consumes the text up to `end`; copies it to the output if `keep`."""
        taken = self.text[self.at : end]
        self.out.append(taken if keep else "\n" * taken.count("\n"))
        self.line += taken.count("\n")
        self.at = end
        return taken

    def until(self, character: str) -> int:
        """The place after the next such character."""
        return self.text.index(character, self.at) + 1

    def directive(self) -> None:
        """A directive; line numbers and debug sections are dropped."""
        if found := SOURCE.match(self.text, self.at):
            self.take(found.end(), keep=False)
        elif self.text.startswith(".section", self.at):
            self.take(self.until("}"), keep=False)
        elif self.depth > 0:
            self.take(self.until(";"))
        elif found := HEADER.match(self.text, self.at):
            line = self.take(found.end())
            if line.startswith(".address_size"):
                self.out.append('\n.file 1 "ptx"')
        else:
            self.outside()

    def outside(self) -> None:
        """A module-level declaration, or a function's head."""
        end = re.compile(r"[;{]").search(self.text, self.at)
        assert end is not None
        head = self.text[self.at : end.start()]
        if end[0] == "{" and "=" in head:
            self.take(self.until(";"))
        elif end[0] == ";":
            self.take(end.end())
        else:
            self.take(end.start())
            found = ENTRY.search(head)
            self.module.functions.append(Function(found[1] or found[2] if found else "", len(self.module.statements)))

    def instruction(self) -> None:
        """An instruction of a body; a .loc line goes before it."""
        line = self.line
        self.on_line[line] += 1
        self.out.append(f"\n.loc 1 {len(self.module.statements) + 1} 0\n")
        text = " ".join(self.take(self.until(";")).split())
        self.module.statements.append(Statement(line, self.on_line[line], text))

    def read(self) -> Module:
        """Reads the whole module."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character.isspace():
                self.take(self.at + 1)
            elif character in "{}":
                self.depth += 1 if character == "{" else -1
                self.take(self.at + 1)
                if self.depth == 0:
                    self.module.functions[-1].end = len(self.module.statements)
            elif self.depth > 0 and (found := LABEL.match(self.text, self.at)):
                self.module.functions[-1].labels[found[1]] = len(self.module.statements)
                self.take(found.end())
            elif character == ".":
                self.directive()
            elif self.depth == 0:  # a NUL at the end
                self.take(self.at + 1, keep=False)
            else:
                self.instruction()
        self.module.text = "".join(self.out)
        return self.module


def marked(text: str) -> Module:
    """Adds a `.loc` before each instruction."""
    return _Reader(text).read()
