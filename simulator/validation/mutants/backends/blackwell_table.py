"""Takes each synchronisation out of the Blackwell kernels' PTX in turn and writes what the simulator says of it to
simulator/results/BLACKWELL_MUTANTS.md.

usage: python -m simulator.validation.mutants.backends.blackwell_table (with torch and an nvcc; some minutes)
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from simulator.validation.mutants.backends.blackwell_dual import CONFIGS, PLACES, Kernel, entries, mutant_k, mutants

ROOT = Path(__file__).resolve().parents[4]
MODES = ("eager", "late")
HEAD = """# Mutants of the Blackwell kernels

Written by `simulator/validation/mutants/backends/blackwell_table.py`. One synchronisation is taken out of the
compiled PTX, or altered, at one place after the other; modes {modes}. What one kernel shares with another is
left out there, and so are the fences around the barrier behind tcgen05.alloc and those between a thread and its
own commits: the simulator does not miss them (`test_blackwell_kernels.py` runs the same in mode eager, and the
kernels as they are, which are clean).

| kernel | mutant | places | found in | worst verdicts | findings |
| --- | --- | ---: | ---: | --- | --- |
"""
ORDER = ("clean", "review", "error", "incomplete")


def found_in(name: str) -> tuple[list[str], int, int]:
    """A kernel's lines; how many mutants there are, and how many are found in every mode."""
    verdicts, kinds = defaultdict(list), defaultdict(set)
    for what, text, _, _ in mutants(name, entries()[name]):
        worst = []
        for mode in MODES:
            kernel = Kernel(name, text, mode, n=CONFIGS[name].tile_n, k=mutant_k(name))
            kernel.run()
            if what == "no griddepcontrol.wait":
                kernel.run(dependent=1)
            worst.append(kernel.verdict)
            kinds[what] |= kernel.kinds
        verdicts[what].append(worst)
    lines, found = [], 0
    for what, rows in verdicts.items():
        seen = sum(all(verdict in ("review", "error") for verdict in row) for row in rows)
        worst = sorted({max(row, key=ORDER.index) for row in rows})
        lines.append(
            f"| {name} | {what} | {len(rows)} | {seen} | {', '.join(worst)} | {', '.join(sorted(kinds[what]))} |"
        )
        found += seen
    return lines, sum(len(rows) for rows in verdicts.values()), found


def main() -> int:
    lines, total, found = [], 0, 0
    for name in PLACES:
        more, here, seen = found_in(name)
        lines, total, found = lines + more, total + here, found + seen
        print(name, here, seen, flush=True)
    text = HEAD.format(modes=" and ".join(MODES)) + "\n".join(lines)
    text += f"\n\n{found} of {total} mutants are found in every mode.\n"
    (ROOT / "simulator/results/BLACKWELL_MUTANTS.md").write_text(text)
    return int(found < total)


if __name__ == "__main__":
    sys.exit(main())
