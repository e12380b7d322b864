"""The problems that the harness knows, by name: every folder here whose module defines PROBLEM."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from reference.problems.interface import Problem

_FOUND = [import_module(f"{__name__}.{found.name}").PROBLEM for found in iter_modules(__path__) if found.ispkg]
PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in _FOUND}
DEFAULT = PROBLEMS["dual_gemm"]
HEAD_BYTES = 4096  # of a submission, which has its directives first


def problem_on(leaderboard: str) -> Problem | None:
    """The problem of a leaderboard, by the leaderboard's name; None for an unknown one."""
    return next((problem for problem in PROBLEMS.values() if problem.leaderboard == leaderboard), None)


def problem_of_submission(path: Path) -> Problem | None:
    """The problem that a submission's !POPCORN directive names; None without one, or if the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return None
    found = re.search(r"^#!POPCORN\s+leaderboard\s+(\S+)", head, re.MULTILINE)
    return problem_on(found[1]) if found else None


def short_name(name: str) -> str:
    """A problem's name, given its name or its leaderboard's: `gemm` for `nvfp4_gemm`.  Other text stays as it is."""
    return next((problem.name for problem in PROBLEMS.values() if problem.leaderboard == name), name)
