"""Instructions of a kernel's main loop, in PTX and in the machine code that ptxas makes of it.

    python -m simulator.calibration.h200.measured.main_loops            # the rounds in KERNELS, to data/main_loops
    python -m simulator.calibration.h200.measured.main_loops 11 61      # some of them; the others stay

A clock that counts PTX instructions sees other loops than the ones that run; the H200's counts machine code.
Needs nvcc and cuobjdump.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scripts.common.markdown import table
from scripts.evidence.compare_sass import _by_function, _dump
from simulator.calibration import packed
from simulator.calibration.h200.measured.rounds import round_document, unpack

MAIN_LOOPS = "main_loops"
# The kernels of a round's base and candidate at the simulated shapes: a part of their symbols.
KERNELS = {
    11: ("tileILi3ELi1ELi128ELi2ELi4E", "tileILi3ELi1ELi128ELi2ELi4ELi1ELi2E"),
    12: ("tileILi2ELi1ELi128ELi2ELi5ELi1ELi2E", "tileILi2ELi1ELi128ELi2ELi5ELi2ELi1E"),
    22: ("tileILi2ELi1ELi128ELi5E", "tileILi2ELi1ELi128ELi5E"),
    31: ("tileILi3ELi1ELi128ELi4ELi2E", "tileILi3ELi1ELi128ELi4ELi2E"),
    58: ("tileILi2ELi1ELi64ELi6ELi2E", "tileILi2ELi1ELi64ELi8ELi2ELi2E"),
    59: ("tileILi2ELi2ELi64ELi6ELi1E", "tileILi4ELi1ELi64ELi6ELi1ELi1E"),
    61: ("tileILi2ELi1ELi64ELi6ELi2ELi1E", "tileILi2ELi1ELi64ELi6ELi2ELi1E"),
    77: ("narrow_tileILi32ELi2ELi2ELi1E", "narrow_tileILi32ELi2ELi2ELi2ELi1ELi1E"),
    79: ("narrow_tileILi16ELi2ELi4ELi2ELi1ELi1E", "narrow_tileILi16ELi2ELi4ELi1ELi4ELi1E"),
}
MMA = re.compile(r"wgmma\.mma_async|\bmma\.sync|\bH?GMMA|\bHMMA")
SASS_LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);")
SASS_BRANCH = re.compile(r"\bBRA\S*\s+(?:\S+,\s*)?0x([0-9a-f]+)")
PTX_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)")
PTX_CODE = re.compile(r"(?:@!?%?\w+\s+)?[a-z]")
UNIFORM = re.compile(r"(?:@!?U?P\w+ )?(?:U[A-Z]|R2UR|S2UR)")

Loop = list[str]


def busiest(loops: Iterable[Loop]) -> Loop:
    """The loop with most MMAs; of several the shortest."""
    return max(loops, key=lambda body: (sum(bool(MMA.search(line)) for line in body), -len(body)), default=[])


def sass_loops(lines: Iterable[str]) -> Iterable[Loop]:
    """The instructions between a backward branch and its target, in cuobjdump's lines."""
    code = [(int(found[1], 16), found[2].strip()) for found in map(SASS_LINE.match, lines) if found]
    for at, text in code:
        found = SASS_BRANCH.search(text)
        if found and int(found[1], 16) < at:
            yield [line for place, line in code if int(found[1], 16) <= place <= at]


def ptx_loops(lines: Iterable[str]) -> Iterable[Loop]:
    """The loops of a function's PTX: instructions only, each once."""
    labels: dict[str, int] = {}
    code: Loop = []
    for line in (line.strip() for line in lines):
        if found := re.match(r"(\$\w+):", line):
            labels[found[1]] = len(code)
        elif not line.startswith(("//", ".")):
            code += [part for part in (part.strip(" {}\t") for part in line.split(";")) if PTX_CODE.match(part)]
            if (found := PTX_BRANCH.search(line)) and found[1] in labels:
                yield code[labels[found[1]] :]


def ptx_functions(text: str) -> dict[str, list[str]]:
    """Each kernel's lines, by symbol."""
    parts = re.split(r"^.*\.entry (\w+)", text, flags=re.MULTILINE)
    return {name: body.splitlines() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def counts(ptx: Loop, sass: Loop) -> dict[str, int]:
    """Instruction counts of a loop; MMAs are those of the machine code."""
    return {
        "mmas": sum(bool(MMA.search(line)) for line in sass),
        "ptx": len(ptx),
        "machine_code": len(sass),
        "uniform": sum(bool(UNIFORM.match(line)) for line in sass),
    }


def main_loop(commit: str, symbol: str) -> dict[str, int]:
    """Counts of the commit's Hopper kernel whose symbol contains `symbol`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(commit, folder, "submission")
        target = ["-gencode=arch=compute_90a,code=sm_90a", "-cubin"]
        flags = ["-std=c++17", "-O3", "-DNVFP4_WITHOUT_GROUPED", *target, "--keep"]
        (source,) = (folder / "submission/hopper").glob("*kernels.cu")  # commits differ in the prefix
        cubin = folder / "kernels.cubin"
        command = ["nvcc", *flags, "--keep-dir", name, "-o", str(cubin), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        (ptx,) = (
            lines
            for found, lines in ptx_functions((folder / f"{source.stem}.ptx").read_text()).items()
            if symbol in found
        )
        (sass,) = (lines for _, found, lines in _by_function(_dump("-sass", cubin)) if symbol in found)
        return counts(busiest(ptx_loops(ptx)), busiest(sass_loops(sass)))


def of_round(number: int) -> dict[str, dict[str, int]]:
    """Counts of both sides of a round."""
    document = round_document(number)
    sides = zip(("base", "candidate"), KERNELS[number], strict=True)
    return {side: main_loop(document[side]["commit"], symbol) for side, symbol in sides}


def load() -> dict[str, dict[str, dict[str, int]]]:
    """The committed counts, by round and side."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in packed.read(MAIN_LOOPS)[1]:
        kept = {name: int(value) for name, value in row.items() if name not in ("round", "side")}
        found.setdefault(row["round"], {})[row["side"]] = kept
    return found


def text(found: dict[str, dict[str, dict[str, int]]] | None = None) -> str:
    """A table: the instructions of each side of a round, and how many more the candidate has for each MMA."""
    rows = []
    for number, sides in (load() if found is None else found).items():
        per = {side: {key: sides[side][key] / sides[side]["mmas"] * sides["base"]["mmas"] for key in sides[side]}
               for side in sides}  # fmt: skip
        more = {
            key: f"{(per['candidate'][key] / per['base'][key] - 1) * 100:+.0f} %" for key in ("ptx", "machine_code")
        }
        cells = [
            f"{sides['base'][key]}, {sides['candidate'][key]}" for key in ("mmas", "ptx", "machine_code", "uniform")
        ]
        rows.append([f"{int(number):04d}", *cells[:2], more["ptx"], cells[2], more["machine_code"], cells[3]])
    head = ["round", "MMAs, base and candidate", "PTX", "for each MMA", "machine code", "for each MMA", "uniform"]
    return table(head, rows)


def main(arguments: list[str]) -> int:
    """Counts and keeps the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="*", metavar="ROUND", help=f"default: {' '.join(map(str, KERNELS))}")
    wanted = parser.parse_args(arguments).rounds or list(KERNELS)
    for number in set(wanted) - set(KERNELS):
        parser.error(f"round {number} is none of {', '.join(map(str, KERNELS))}")
    head, _ = packed.read(MAIN_LOOPS)
    rounds = load()
    for number in wanted:
        rounds[str(number)] = of_round(number)
    rows = [
        {"round": number, "side": side, **counted}
        for number in sorted(rounds, key=int)
        for side, counted in rounds[number].items()
    ]
    packed.write(MAIN_LOOPS, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
