"""The problems that the harness knows, by name."""

from reference.problems import dual_gemm, group_gemm
from reference.problems.interface import Problem

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (dual_gemm.PROBLEM, group_gemm.PROBLEM)}
DEFAULT = next(iter(PROBLEMS.values()))


def problem_on(leaderboard: str) -> Problem:
    """The problem of a leaderboard, by the leaderboard's name; the dual GEMM for an unknown one."""
    return next((problem for problem in PROBLEMS.values() if problem.leaderboard == leaderboard), DEFAULT)
