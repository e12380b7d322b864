"""Compares the machine code of two builds, kernel by kernel and instruction by instruction; names may differ.

    ./nvfp4 bench compare_sass A B [--json FILE]

A and B are each an object file, a cubin, a library, a build folder, which stands for the objects of all GPU backends in
it, or a git commit, whose kernels are built in a temporary worktree.  Kernels of one chip are matched by the integers
among their template arguments, and by their instructions if none or several have the same integers.  Instructions are
compared by their encoding, which holds registers, predicates, stalls and barriers, but no names of kernels, types or
files.  Exit status: 0 if every kernel is the same, 1 if one differs, 2 if nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from scripts.common.gpu_backends import GPU_BACKENDS
from scripts.common.options import output_file
from simulator.python.toolchain import NoCompiler, nvcc

ROOT = Path(__file__).resolve().parents[2]
# Patterns of the kernels' object files in a build folder: commits differ in the prefix.
OBJECTS = tuple(f"submission/{name}/**/*kernels.o" for name in GPU_BACKENDS)
TEMPLATE_INTEGER = re.compile(r"L[a-z](n?\d+)E")  # in a mangled name (Itanium C++ ABI, 5.1.6.1)
CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;\s*/\* (0x[0-9a-f]{16}) \*/")
SECOND_WORD = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/\s*$")
LEAST_LIKENESS = 0.5
ADDRESS = re.compile(r"0x[0-9a-f]+")


class SassError(Exception):
    """The reason why nothing can be compared."""


@dataclass(frozen=True)
class Instruction:
    text: str
    encoding: str


@dataclass(frozen=True)
class Kernel:
    """A kernel's machine code for one chip."""

    chip: str  # sm_90a
    symbol: str  # mangled
    registers: int
    code: tuple[Instruction, ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """The integers among its template arguments."""
        return tuple(int(value.replace("n", "-")) for value in TEMPLATE_INTEGER.findall(self.symbol))

    @property
    def name(self) -> str:
        """The kernel's last identifier and its template's integers."""
        found = re.findall(r"(?<!\d)(\d+)(?=[A-Za-z_])", self.symbol)
        identifiers = [
            word for length in found for word in re.findall(rf"(?<!\d){length}(\w{{{length}}})", self.symbol)
        ]
        kernels = [word for word in identifiers if word.endswith("kernel")] or [self.symbol]
        return kernels[0] + (f"<{', '.join(map(str, self.arguments))}>" if self.arguments else "")


@dataclass(frozen=True)
class Row:
    """One kernel on both sides; None stands for a side without it."""

    chip: str
    kernel: str
    instructions: tuple[int | None, int | None]
    registers: tuple[int | None, int | None]
    differing: int
    first: str

    @property
    def same(self) -> bool:
        return self.differing == 0 and None not in self.instructions


@cache
def tool(name: str) -> str:
    """The path of a program of the CUDA toolkit, from PATH or from its wheel."""
    wheels = [Path(folder) for folder in sys.path if folder]
    found = [shutil.which(name), *(str(path) for folder in wheels for path in folder.glob(f"nvidia/*/bin/{name}"))]
    path = next((path for path in found if path and os.access(path, os.X_OK)), None)
    if path is None:
        raise SassError(f"no {name} in PATH or the nvidia-cuda-{name} wheel")
    return path


def _dump(option: str, path: Path) -> str:
    """cuobjdump's output for a file; PATH has nvdisasm, which cuobjdump calls."""
    folder = Path(tool("nvdisasm")).parent
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [tool("cuobjdump"), option, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SassError(f"cuobjdump {option} {path}: {done.stderr.strip()}")
    return done.stdout


def _by_function(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Chip, function and lines of each part of cuobjdump's output."""
    chip, function, lines = "", "", []
    for line in text.splitlines():
        if found := re.match(r"arch = (\S+)|\s*Function\s*:?\s*(\w+)", line):
            if function:
                yield chip, function, lines
            chip, function, lines = found[1] or chip, found[2] or "", []
        lines.append(line)
    if function:
        yield chip, function, lines


def read_code(lines: list[str]) -> tuple[Instruction, ...]:
    """The instructions of cuobjdump -sass's lines: two lines each, a word of the encoding at the end of either."""
    code = []
    for line in lines:
        if found := CODE.match(line):
            code.append((found[1], found[2]))
        elif (found := SECOND_WORD.match(line)) and code:
            code[-1] = (code[-1][0], code[-1][1] + found[1][2:])
    return tuple(Instruction(text, encoding) for text, encoding in code)


def kernels(path: Path) -> list[Kernel]:
    """Every kernel of an object file, a cubin or a library."""
    registers = {}
    for chip, function, lines in _by_function(_dump("-res-usage", path)):
        if found := re.search(r"REG:(\d+)", " ".join(lines)):
            registers[chip, function] = int(found[1])
    found = []
    for chip, function, lines in _by_function(_dump("-sass", path)):
        found.append(Kernel(chip, function, registers.get((chip, function), 0), read_code(lines)))
    return found


def likeness(one: Kernel, other: Kernel) -> float:
    """The share of instructions, by opcode, that two kernels have in common; an equal name adds a half."""
    opcodes = [Counter(step.text.split()[0] for step in kernel.code) for kernel in (one, other)]
    common = sum((opcodes[0] & opcodes[1]).values()) / max(1, len(one.code), len(other.code))
    return common + (0.5 if one.name == other.name else 0)


def _match(left: list[Kernel], right: list[Kernel]) -> Iterator[tuple[Kernel, Kernel]]:
    """Takes pairs out of both lists, the most alike first, as long as a pair shares half of its opcodes."""
    while left and right:
        one, other = max(((a, b) for a in left for b in right), key=lambda pair: likeness(*pair))
        if likeness(one, other) < LEAST_LIKENESS:
            return
        left.remove(one)
        right.remove(other)
        yield one, other


def pairs(before: list[Kernel], after: list[Kernel]) -> Iterator[tuple[Kernel | None, Kernel | None]]:
    """The kernels of two builds side by side."""
    for chip in sorted({kernel.chip for kernel in (*before, *after)}):
        rest: tuple[list[Kernel], list[Kernel]] = ([], [])
        groups: dict[tuple[int, ...], tuple[list[Kernel], list[Kernel]]] = defaultdict(lambda: ([], []))
        for side, found in enumerate((before, after)):
            for kernel in found:
                if kernel.chip == chip:
                    groups[kernel.arguments][side].append(kernel)
        for _, (left, right) in sorted(groups.items()):
            yield from _match(left, right)
            rest[0].extend(left)
            rest[1].extend(right)
        yield from _match(*rest)
        yield from ((kernel, None) for kernel in rest[0])
        yield from ((None, kernel) for kernel in rest[1])


def _shown(step: Instruction | None) -> str:
    return "nothing" if step is None else step.text


def difference(before: tuple[Instruction, ...], after: tuple[Instruction, ...]) -> tuple[int, str]:
    """The number of instructions that differ, and the first of them.

    Code of equal length is compared place by place; else it is aligned, and targets of branches do not count.
    """
    if before == after:
        return 0, ""
    if len(before) == len(after):
        places = [i for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
        first = places[0]
        same_text = " (other scheduling)" if before[first].text == after[first].text else ""
        return len(places), f"{first}: {_shown(before[first])} -> {_shown(after[first])}{same_text}"
    texts = [[ADDRESS.sub("", s.text) if "BRA" in s.text else s.text for s in code] for code in (before, after)]
    count, first = 0, ""
    for what, a, a_end, b, b_end in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if what != "equal":
            count += max(a_end - a, b_end - b)
            one, other = before[a] if a < a_end else None, after[b] if b < b_end else None
            first = first or f"{a}: {_shown(one)} -> {_shown(other)}"
    return max(count, 1), first


def compare(before: list[Kernel], after: list[Kernel]) -> list[Row]:
    """A row for each kernel of either build."""
    rows = []
    for one, other in pairs(before, after):
        shown = other or one
        count, first = difference(one.code if one else (), other.code if other else ())
        if one is not None and other is not None and one.registers != other.registers:
            count, first = max(count, 1), first or f"{one.registers} registers -> {other.registers}"
        rows.append(
            Row(
                shown.chip,
                shown.name,
                (len(one.code) if one else None, len(other.code) if other else None),
                (one.registers if one else None, other.registers if other else None),
                count,
                first,
            )
        )
    return rows


def build(commit: str) -> list[Kernel]:
    """Builds the kernels of a commit with its own Makefile."""
    try:
        nvcc()
    except NoCompiler as error:
        raise SassError(f"cannot build {commit}: {error}") from None
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", tree, commit], check=True, capture_output=True)
        try:
            sources = [path for pattern in OBJECTS for path in tree.glob(pattern.replace(".o", ".cu"))]
            targets = [f"build/{path.relative_to(tree).with_suffix('.o')}" for path in sources]
            command = ["make", "-C", str(tree), f"PYTHON={sys.executable}", "BUILD=build", *targets]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SassError(f"{commit} does not build: {done.stderr.strip()[-1000:]}")
            return [kernel for target in targets for kernel in kernels(tree / target)]
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=False, capture_output=True)


def read(what: str) -> list[Kernel]:
    """The kernels of a command-line argument."""
    path = Path(what)
    if path.is_dir():
        objects = [found for pattern in OBJECTS for found in sorted(path.glob(pattern))]
        if not objects:
            raise SassError(f"{what} holds none of {', '.join(OBJECTS)}")
        return [kernel for name in objects for kernel in kernels(name)]
    if path.is_file():
        return kernels(path)
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{what}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SassError(f"{what} is neither a file nor a commit")
    return build(done.stdout.strip())


def _change(values: tuple[int | None, int | None]) -> str:
    return " -> ".join("none" if value is None else str(value) for value in dict.fromkeys(values))


def render(rows: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| chip | kernel | instructions | registers | differing | the first |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        differing = "identical" if row.same else str(row.differing)
        first = row.first.replace("|", "\\|")
        lines.append(
            f"| {row.chip} | `{row.kernel}` | {_change(row.instructions)} | {_change(row.registers)} "
            f"| {differing} | {f'`{first}`' if first else ''} |"
        )
    same = sum(row.same for row in rows)
    return "\n".join([*lines, "", f"{same} of {len(rows)} kernels are identical."])


def main(arguments: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench compare_sass", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the rows there too")
    words = parser.parse_args(arguments)
    try:
        rows = compare(read(words.before), read(words.after))
        if not rows:
            raise SassError("neither side holds a kernel")
    except (SassError, subprocess.CalledProcessError) as error:
        print(f"compare_sass: {error}", file=sys.stderr)
        return 2
    if words.json:
        words.json.write_text(json.dumps([asdict(row) | {"same": row.same} for row in rows], indent=1) + "\n")
    print(render(rows))
    return 0 if all(row.same for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
