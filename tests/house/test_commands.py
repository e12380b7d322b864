"""What make would run, and what from: compared with a record, so that a change of a makefile shows all that it moves.

The compilers, nvcc and what a makefile asks the machine are scripts here, so that the record is the same everywhere.
After a change that is meant: `pytest -n 0 --record-commands tests/house/test_commands.py`, and read the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("commands.txt")
# What stands in for the machine: a compiler for any processor named, a toolkit, four processors with AVX2.
TOOLS = {
    "gcc": 'case "$*" in *-dumpmachine*) echo ${MACHINE:-x86_64}-linux-gnu ;; *syntax-only*)'
    ' for flag in $REFUSED; do case " $* " in *" $flag "*) exit 1 ;; esac; done ;; esac',
    "nvcc": 'case "$*" in *--list-gpu-arch*) for arch in ${ARCHS:-90 100 103 120 121}; do echo compute_$arch; done ;;'
    ' *--dryrun*) echo "#\\$ TOP=${TOOLKIT:-$(dirname "$0")/../toolkit}" >&2 ;; esac',
    "nproc": "echo 4",
    "git": 'echo "files of $*"',
    "grep": 'case "$*" in *cpuinfo*) echo ${HAS_AVX2:-1} ;; *) exec /bin/grep "$@" ;; esac',
}
BUILT = ("build", "library", "simulator", "test-programs", "tensor-test-library", "install")
MICRO = ("build/micro", "build/micro_timed", "build/simulator/kernels/hopper/kernels.ptx")
# Configuration -> what differs from the plain one: make's variables, and the tools'.
CONFIGURATIONS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "no GPU": (("GPU=0",), {}),
    "an older nvcc": ((), {"ARCHS": "90"}),
    "an nvcc that knows no second kind": ((), {"ARCHS": "90 100 120"}),
    "a toolkit without its runtime": ((), {"TOOLKIT": "/none"}),
    "a compiler without AMX": ((), {"REFUSED": "-mamx-tile"}),
    "a compiler without AVX-512": ((), {"REFUSED": "-mavx512f"}),
    "a compiler and a processor without AVX2": ((), {"REFUSED": "-mavx2", "HAS_AVX2": "0"}),
    "an Arm": ((), {"MACHINE": "aarch64", "REFUSED": "-mavx2"}),
    "flags and a compiler of one's own": (("CFLAGS=-O1", "CC=cc -m64"), {}),
    "sanitizers, every command shown, another place": (
        ("SANITIZE=address,undefined", "V=1", "PREFIX=usr", "DESTDIR=stage"),
        {},
    ),
}


class Tree:
    """The checkout's folders, and its makefile without the marks by which make runs a line under -n too."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.package = folder, folder / "package"
        self.package.mkdir()
        for entry in root.iterdir():
            if entry.name not in ("Makefile", "build", ".git", ".venv"):
                (self.package / entry.name).symlink_to(entry)
        text = (root / "Makefile").read_text()
        (self.package / "Makefile").write_text(text.replace("\t+@", "\t@"))
        for name, script in TOOLS.items():
            tool = folder / "bin" / name
            tool.parent.mkdir(exist_ok=True)
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
        runtime = folder / "toolkit" / "lib64" / "libcudart_static.a"
        runtime.parent.mkdir(parents=True)
        runtime.touch()

    def make(self, *arguments: str, **tools: str) -> str:
        """What make says that it would do, a command a line."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["make", "--no-print-directory", "-n", "-j1", "CXX=c++", "PYTHON=python3", *arguments],
            cwd=self.package,
            env={"PATH": path, "LC_ALL": "C"} | tools,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout + "".join(f"stderr: {line}\n" for line in done.stderr.splitlines())
        for found, text in (
            (str(self.folder / "bin") + "/", ""),
            (str(self.package) + "/", ""),
            (str(self.folder), ""),
        ):
            said = said.replace(found, text)
        return re.sub(r"\s*\\\n\s*", " ", said)


# Folders whose files are all taken, by a wildcard: one more file there is no change.
ALL_TAKEN = r"((?:build/)?(?:simulator|build/cuda|cuda|submission/core|submission/cpu|submission/tile_table|eval|tests)"
ALL_TAKEN = re.compile(ALL_TAKEN + r"(?:/[\w.-]+)*/)[\w-]+?((?:_avx2|_avx512|_amx|_neon)?\.(?:[cod]|json|error))\b")


FLAGS = ("CPPFLAGS", "CFLAGS", "LDFLAGS")


def flags_of(database: str) -> dict[str, str]:
    """What the flags that every command shares stand for."""
    values = dict(re.findall(r"^(?:override )?(\w+) :?= (.*)$", database, re.MULTILINE))
    values["CFLAGS"] = values["CFLAGS"].replace("$(SANITIZE)", values.get("SANITIZE", ""))
    values["LDFLAGS"] = values["LDFLAGS"].replace("$(SANITIZE)", values.get("SANITIZE", ""))
    return {f"$({name})": values[name] for name in FLAGS}


def lines_of(text: str, flags: dict[str, str] | None = None) -> dict[str, None]:
    """The lines in their order, each once, with `*` for the names of files that a wildcard takes."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        line = re.sub(r"\s+", " ", line).strip()
        for name, value in (flags or {}).items():
            line = line.replace(f" {value} ", f" {name} ") if "flags.txt" not in line else line
        words = ALL_TAKEN.sub(r"\1*\2", line).split(" ")
        kept = [
            word for at, word in enumerate(words) if word not in words[:at] or not word.endswith((".o", ".c", ".d"))
        ]
        found[" ".join(kept)] = None
    return found


def told(text: str) -> dict[str, None]:
    """The lines of what `make -n -p` says that it would run."""
    commands, _, database = text.partition("\n# Make data base")
    return lines_of(commands, flags_of(database))


NAMED = re.compile(r" -o (\S+)|^(?:mkdir -p|rm -f) (\S+)|^echo ' (?:CC|NVCC|LINK|AR) (\S+)'")


def by_command(lines: Iterable[str]) -> dict[str, str]:
    """A line -> the same with make's names for what it makes and for that file's own source."""
    found = {}
    for line in lines:
        named = NAMED.search(line)
        file = next(filter(None, named.groups())) if named else ""
        general = line
        if file:
            stem = re.sub(r"\.\w+$", "", file)
            general = re.sub(rf"(?<![\w/.-]){re.escape(file)}(?![\w/.*-])", "$@", line)
            general = re.sub(rf"(?<![\w/.-]){re.escape(stem)}(?=\.(?:d|ptxas)\b)", "$*", general)
            source = re.escape(stem.removeprefix("build/").replace("micro_objects/card/", "").replace("cuda/", ""))
            general = re.sub(rf"(?<= ){source}(?=\.cu?\b)", "$<", general)
        found[line] = f"{general}\t{file}"
    return found


def grouped(lines: Iterable[str]) -> list[str]:
    """The commands, each once, and behind a command that makes files which they are."""
    files: dict[str, list[str]] = {}
    for general in by_command(lines).values():
        command, _, file = general.partition("\t")
        files.setdefault(command, []).extend([file] if file else [])
    return [text for command, made in files.items() for text in ([command] + ["    " + " ".join(made)] * bool(made))]


def differences(usual: Iterable[str], other: Iterable[str]) -> list[str]:
    """Words that go and come, and of which files' commands; whole commands that only one side has."""
    sides = [{}, {}]
    for side, lines in zip(sides, (usual, other), strict=True):
        for general in by_command(lines).values():
            command, _, file = general.partition("\t")
            side.setdefault(
                (" -o " in command, command[:5] == "mkdir", file) if file else (command, "", ""), []
            ).append(command)
    changes: dict[str, list[str]] = {}
    for key in sides[0] | sides[1]:
        before, after = (" ; ".join(side.get(key, [])) for side in sides)
        if before and after:
            words = [[f"- {w}" for w in before.split() if w not in after.split()]]
            words += [[f"+ {w}" for w in after.split() if w not in before.split()]]
            change = "  ".join(words[0] + words[1])
        else:
            change = "these are not made" if before and key[2] else f"- {before}" if before else f"+ {after}"
        if before != after:
            changes.setdefault(change or f"+ {after}", []).extend([key[2]] * bool(key[2]))
    return [text for change, made in changes.items() for text in ([change] + ["    " + " ".join(made)] * bool(made))]


def rules_of(text: str) -> str:
    """The part of make's database that says what is made from what, without what only names a file."""
    rules = text.partition("\n# Files\n")[2]
    kept = [line for line in rules.splitlines() if re.match(r"[^#\t\s][^=]*:(?: |$)", line) and ":=" not in line]
    return "\n".join(sorted(line for line in kept if not line.endswith(":")))


def dependencies_read(tree: Tree, commands: str) -> list[str]:
    """Which of the compilers' lists of included files make reads, where they lie beside what they are of."""
    for name in re.findall(r"build/[\w/.-]+\.o\b", commands):
        path = (tree.package / name).with_suffix(".d")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    read = re.search(r"^MAKEFILE_LIST := (.*)$", tree.make("-p", "help"), re.MULTILINE)
    assert read is not None
    return list(lines_of("\n".join(read[1].split())))


@pytest.fixture(scope="module")
def sections(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Title -> lines, as the record has them."""
    tree = Tree(root, tmp_path_factory.mktemp("make"))
    text = tree.make("-p", *BUILT, *MICRO)
    plain = told(text)
    made = {"what a build runs": grouped(plain), "what is made from what": list(lines_of(rules_of(text)))}
    usual = told(tree.make("-p", *BUILT))
    for name, (arguments, tools) in CONFIGURATIONS.items():
        other = told(tree.make("-p", *BUILT, *arguments, **tools))
        made[name] = differences(usual, other)
    helps = subprocess.run(["make", "-C", root, "help"], capture_output=True, text=True, check=True)
    others = [target for target in re.findall(r"^  make (\S+)", helps.stdout, re.MULTILINE) if target not in BUILT]
    others.remove("fuzz")  # a part of the tests, which runs a make of its own
    made["what the other targets run"] = grouped(
        line for line in told(tree.make("-p", *others, "R=7")) if line not in plain
    )
    made["a round without its number"] = tree.make("rerun").splitlines()
    made["lists of included files that are read"] = dependencies_read(tree, text)
    return made


def test_make_runs_what_was_recorded(sections: dict[str, list[str]], request: pytest.FixtureRequest):
    text = "".join(f"== {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in sections.items())
    if request.config.getoption("record_commands"):
        RECORD.write_text(text)
    assert text.splitlines() == RECORD.read_text().splitlines(), (
        "other commands than were recorded; see this file's top"
    )
