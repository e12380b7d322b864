"""Runs the GeForce kernels of both problems in every mode, and with each synchronisation out of their PTX in turn, and
writes what the simulator says of it to simulator/results/GEFORCE_MUTANTS.md.

usage: python -m simulator.validation.mutants.backends.geforce_table (with torch and an nvcc; minutes)
"""

from __future__ import annotations

import sys
from collections import defaultdict
from types import ModuleType

from scripts.common.ptxsim import MODES, ROOT
from simulator.validation.mutants.backends import geforce_dual as kernels
from simulator.validation.mutants.backends import geforce_grouped as grouped

PAGE = ROOT / "simulator/results/GEFORCE_MUTANTS.md"
PROBLEMS = {"dual": kernels, "grouped": grouped}
MUTANT_MODES = ("eager", "late", "random")
HEAD = f"""# The GeForce kernels in every mode, and their mutants

Written by `simulator/validation/mutants/backends/geforce_table.py`. The kernels as they are run twice, the second time
as dependent launches, in the modes {", ".join(MODES)}; then one synchronisation is taken out
of the compiled PTX, or altered, at one place after the other, in {", ".join(MUTANT_MODES)}. A mutant counts as found
where the verdict is the expected one or error, with a finding of the expected kind, in each of these modes.
`test_geforce_kernels.py` runs a part of it.

"""
MUTANT_HEAD = """
| problem | kernel | mutant | places | found in every mode | findings |
| --- | --- | --- | ---: | ---: | --- |
"""


def as_it_is(problem: ModuleType, name: str, mode: str) -> bool:
    """Whether a kernel's outputs are right and nothing is found, in both kinds of launch."""
    kernel = problem.Kernel(name, problem.entries()[name], mode)
    outputs = kernel.outputs if problem is grouped else [kernel.output]
    for dependent in range(2):
        for output in outputs:
            output[:] = 0xFFFF
        if kernel.run(dependent) != 0 or kernel.verdict != "clean" or not kernel.is_right():
            return False
    return True


def is_found(
    problem: ModuleType, name: str, mode: str, mutant: tuple[str, str, str, set[str]]
) -> tuple[bool, set[str]]:
    """Whether a mutant is found in a mode, and the kinds of all findings."""
    what, text, verdict, kinds = mutant
    kernel = problem.Kernel(name, text, mode)
    kernel.run()
    if what == "no griddepcontrol.wait":
        kernel.run(dependent=1)
    return kernel.verdict in (verdict, "error") and bool(kinds & kernel.kinds), kernel.kinds


def main() -> int:
    right, runs, lines, total, found = 0, 0, [], 0, 0
    for title, problem in PROBLEMS.items():
        for name in problem.CONFIGS:
            for mode in MODES:
                runs += 1
                right += (good := as_it_is(problem, name, mode))
                print(title, name, mode, "right and clean" if good else "WRONG", flush=True)
            places, seen, kinds = defaultdict(int), defaultdict(int), defaultdict(set)
            for mutant in kernels.mutants(problem.entries()[name]):
                answers = [is_found(problem, name, mode, mutant) for mode in MUTANT_MODES]
                places[mutant[0]] += 1
                seen[mutant[0]] += all(answer for answer, _ in answers)
                kinds[mutant[0]] |= set().union(*(each for _, each in answers))
            for what, count in places.items():
                cells = (title, f"`{name}`", what, count, seen[what], ", ".join(sorted(kinds[what])))
                lines.append(f"| {' | '.join(map(str, cells))} |")
                print(*cells, flush=True)
            total, found = total + sum(places.values()), found + sum(seen.values())
    text = HEAD + f"{right} of {runs} runs of the kernels as they are give right results and no finding.\n"
    text += MUTANT_HEAD + "\n".join(lines) + f"\n\n{found} of {total} mutants are found in every mode.\n"
    PAGE.write_text(text)
    return int(found < total or right < runs)


if __name__ == "__main__":
    sys.exit(main())
