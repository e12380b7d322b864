"""Case files: one case per line, such as `m: 256; n: 4096; k: 7168; l: 1; seed: 1111`, all of one problem."""

from __future__ import annotations

import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from eval.output.text import clean, shortened
from reference.problems import PROBLEMS
from reference.problems.interface import Problem, Shape

MOST_DIGITS = 19  # of 2^63
FILE_BYTES = 1 << 20
SHOWN_CHARACTERS = 60  # of a refused value
SEED_STEP = 42  # from one input of a case to the next, as on the leaderboard
SEED_LIMIT = 1 << 63  # torch takes seeds below this
ROOT = Path(__file__).resolve().parent.parent
_INTEGER = "[+-]?[0-9]+"
_LIST = rf"\[\s*{_INTEGER}(?:\s*,\s*{_INTEGER})*\s*\]"


class CasesError(ValueError):
    """A case file that cannot be read or is not valid."""


class Case(NamedTuple):
    """One case of a problem; `spec` is its line, as the protocol repeats it."""

    shape: Shape
    seed: int
    spec: str

    @property
    def problem(self) -> Problem:
        """The problem of the case."""
        return self.shape.problem


def mixed_seed(seed: int, secret: int | None) -> int:
    """The seed that a case runs with: Cantor's pairing of its own seed and the secret one, as on the leaderboard."""
    return seed if secret is None else seed + (seed + secret) * (seed + secret + 1) // 2


def case_seeds(first: int, count: int) -> list[int]:
    """The leaderboard's seeds of a case's inputs."""
    return [(first + SEED_STEP * i) % SEED_LIMIT for i in range(count)]


def fresh_seeds(count: int) -> list[int]:
    """Seeds that nobody can predict, for inputs that a submission has not seen."""
    return [secrets.randbelow(SEED_LIMIT) for _ in range(count)]


def _shown(text: str) -> str:
    return clean(shortened(text, SHOWN_CHARACTERS))


def problem_of(line: str, preferred: Problem | None = None) -> Problem:
    """The problem that most of a line's names and lists belong to, and of which it lacks the fewest; on a tie, the
    preferred problem or the first."""
    found = re.findall(r"(\w+)\s*:\s*(\[?)", line)
    names = {name for name, _ in found}

    def fits(problem: Problem) -> tuple[int, int, bool]:
        own = sum((name in problem.keys) + (bool(bracket) and name in problem.lists) for name, bracket in found)
        return own, own and -len(set(problem.keys) - names), problem is preferred

    return max(PROBLEMS.values(), key=fits)


def _value(name: str, text: str) -> int | list[int]:
    """The integer, or the list of integers, in `text`."""
    found = []
    for number in re.findall(_INTEGER, text):
        digits = number.lstrip("+-0")
        if len(digits) > MOST_DIGITS:
            raise CasesError(f"{name} has {len(digits)} digits; expected at most {MOST_DIGITS}")
        found.append(int(number))
    return found if text.startswith("[") else found[0]


def parse_case(line: str, secret: int | None = None, problem: Problem | None = None) -> Case:
    """Parses one line of a case file; without `problem`, its names decide. Raises CasesError with the reason."""
    problem = problem or problem_of(line)
    keys, values = problem.keys, {}
    for part in filter(None, (part.strip() for part in line.split(";"))):
        match = re.fullmatch(rf"(\w+)\s*:\s*({_INTEGER}|{_LIST})", part)
        name = match[1] if match else part.partition(":")[0].strip()
        wanted = "[integer, ...]" if name in problem.lists else "integer"
        if not match or (match[2].startswith("[") and name not in problem.lists and name in keys):
            raise CasesError(f"'{_shown(part)}' is not `name: {wanted}`")
        if name not in keys or name in values:
            raise CasesError(f"'{_shown(name)}' is {'repeated' if name in values else 'unknown'}; expected {keys}")
        if name in problem.lists and not match[2].startswith("["):
            raise CasesError(f"'{_shown(part)}' is not `name: {wanted}`")
        values[name] = _value(name, match[2])
    missing = [key for key in keys if key not in values]
    if missing:
        raise CasesError(f"no value for {', '.join(missing)}")
    try:
        shape = problem.shape(values)
    except ValueError as error:
        raise CasesError(str(error)) from None
    if values["seed"] < 0:
        raise CasesError(f"seed is {values['seed']}; expected at least 0")
    return Case(shape, mixed_seed(values["seed"], secret), line.strip())


class CaseFile:
    """A case file, read only once because it may be a pipe."""

    def __init__(self, path: Path | str) -> None:
        self._path = path

    @cached_property
    def _lines(self) -> list[str]:
        try:
            with Path(self._path).open("rb") as file:
                raw = file.read(FILE_BYTES + 1)
            lines = raw.decode("utf-8-sig").splitlines()  # some editors begin a file with a byte-order mark
        except (OSError, ValueError) as error:
            raise CasesError(f"cannot read {self._path}: {getattr(error, 'strerror', None) or error}") from error
        if len(raw) > FILE_BYTES:
            raise CasesError(f"{self._path} is not a case file: longer than {FILE_BYTES} bytes")
        return lines

    def problem(self, preferred: Problem | None = None) -> Problem:
        """The problem in whose folder the file is, else that of the first line, where `preferred` wins a tie.

        Raises CasesError if the file cannot be read.
        """
        line = next(filter(str.strip, self._lines), "")
        folder = Path(self._path).absolute().parent
        of_folder = (problem for problem in PROBLEMS.values() if folder == ROOT / problem.cases)
        return next(of_folder, None) or problem_of(line, preferred)

    def cases(self, secret: int | None = None, problem: Problem | None = None) -> list[Case]:
        """Every case; without `problem`, the first line decides. Raises CasesError with the file and line."""
        problem, cases = problem or self.problem(), []
        for number, line in enumerate(self._lines, 1):
            if line.strip():
                try:
                    cases.append(parse_case(line, secret, problem))
                except CasesError as error:
                    raise CasesError(f"{self._path}:{number}: {error}") from None
        if not cases:
            raise CasesError(f"{self._path} holds no case")
        return cases


def read_cases(path: Path | str, secret: int | None = None) -> list[Case]:
    """Every case of a file. Raises CasesError with the file and line."""
    return CaseFile(path).cases(secret)
