"""The problems of this package by name; whoever else needs one takes it from here or from a case."""

from reference.problems import dual_gemm
from reference.problems.interface import Problem

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (dual_gemm.PROBLEM,)}
DEFAULT = next(iter(PROBLEMS.values()))
