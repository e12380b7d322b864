"""Case files: one problem a line, `m: 256; n: 4096; k: 7168; l: 1; seed: 1111`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

KEYS = ("m", "n", "k", "l", "seed")


class CasesError(ValueError):
    """A case file that cannot be read or is not valid."""


class Case(NamedTuple):
    """One problem; `spec` is its line, as the protocol repeats it."""

    m: int
    n: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)
    seed: int
    spec: str

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(M, N, K, L)."""
        return self.m, self.n, self.k, self.l


def mixed_seed(seed: int, secret: int | None) -> int:
    """The seed a case runs with: Cantor's pairing of its own and the secret one, as the leaderboard does it."""
    return seed if secret is None else seed + (seed + secret) * (seed + secret + 1) // 2


def parse_case(line: str, secret: int | None = None) -> Case:
    """One line of a case file. Raises CasesError saying what is wrong with it."""
    values: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in line.split(";"))):
        match = re.fullmatch(r"(\w+)\s*:\s*([+-]?\d+)", part)
        if not match:
            raise CasesError(f"'{part}' is not `name: integer`")
        if match[1] not in KEYS or match[1] in values:
            raise CasesError(f"'{match[1]}' is {'repeated' if match[1] in values else 'unknown'}; expected {KEYS}")
        values[match[1]] = int(match[2])
    missing = [key for key in KEYS if key not in values]
    if missing:
        raise CasesError(f"no value for {', '.join(missing)}")
    for key in KEYS[:4]:
        if values[key] < 1:
            raise CasesError(f"{key} is {values[key]}; expected at least 1")
    if values["k"] % 64 != 0:
        raise CasesError(f"k is {values['k']}; expected a multiple of 64")
    if values["seed"] < 0:
        raise CasesError(f"seed is {values['seed']}; expected at least 0")
    seed = mixed_seed(values["seed"], secret)
    return Case(values["m"], values["n"], values["k"], values["l"], seed, line.strip())


def read_cases(path: Path | str, secret: int | None = None) -> list[Case]:
    """Every case of a file. Raises CasesError naming the file and line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CasesError(f"cannot read {path}: {error}") from error
    cases = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                cases.append(parse_case(line, secret))
            except CasesError as error:
                raise CasesError(f"{path}:{number}: {error}") from None
    if not cases:
        raise CasesError(f"{path} holds no case")
    return cases
