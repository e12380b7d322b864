"""Case files: one problem a line, `m: 256; n: 4096; k: 7168; l: 1; seed: 1111`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from eval.output.text import clean, shortened

KINDS = ("board", "full")  # of data: the leaderboard's, or every code and scale factor
KEYS = ("m", "n", "k", "l", "seed")
MOST_DIGITS = 19  # of 2^63
FILE_BYTES = 1 << 20
SHOWN_CHARACTERS = 60  # of what is refused


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


def _shown(text: str) -> str:
    return clean(shortened(text, SHOWN_CHARACTERS))


def parse_case(line: str, secret: int | None = None) -> Case:
    """One line of a case file. Raises CasesError saying what is wrong with it."""
    values: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in line.split(";"))):
        match = re.fullmatch(r"(\w+)\s*:\s*([+-]?[0-9]+)", part)
        if not match:
            raise CasesError(f"'{_shown(part)}' is not `name: integer`")
        name, digits = match[1], match[2].lstrip("+-0")
        if name not in KEYS or name in values:
            raise CasesError(f"'{_shown(name)}' is {'repeated' if name in values else 'unknown'}; expected {KEYS}")
        if len(digits) > MOST_DIGITS:
            raise CasesError(f"{name} has {len(digits)} digits; expected at most {MOST_DIGITS}")
        values[name] = int(match[2])
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
        with Path(path).open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
        lines = raw.decode("utf-8-sig").splitlines()  # some editors begin a file with a byte-order mark
    except (OSError, ValueError) as error:
        raise CasesError(f"cannot read {path}: {error}") from error
    if len(raw) > FILE_BYTES:
        raise CasesError(f"{path} is no case file: longer than {FILE_BYTES} bytes")
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
