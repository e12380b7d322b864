"""The outcome of one kernel in one mode: values compared with the expected ones, the verdict, and findings by line.

A run is a process of its own, so that a crash, a fault of the host code or an endless run is one row of the table.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simulator.validation.third_party.third_party_sources import Sources

MODES = ("eager", "late", "reverse", "random:1", "random:2", "poison")
RUN_LIMIT = 600  # seconds of one mode
MOST_TEXT = 300


@dataclass(frozen=True)
class Case:
    """One kernel of a project.  `prepare` builds it and returns a function that runs it in a mode."""

    project: str  # owner/name of a repository, or the wheel whose compiler made it
    name: str
    shows: str
    size: str
    arch: str
    prepare: Callable[[Sources], Callable[[str], dict]]
    modes: tuple[str, ...] = MODES
    outside: bool = False  # its driver is not in the repository


def cases_of(path: Path) -> list[Case]:
    """The cases() of a Python file outside the repository."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(found)  # dataclasses look their module up
    found.loader.exec_module(module)
    return [replace(case, outside=True) for case in module.cases()]


def compare(got: np.ndarray, want: np.ndarray, bound: np.ndarray | float) -> dict:
    """How many elements differ by more than `bound`; NaN counts as wrong."""
    error = np.abs(got.astype(np.float64) - want)
    finite = error[np.isfinite(error)]
    worst = float(finite.max()) if finite.size else float("nan")
    return {"wrong": int((~(error <= bound)).sum()), "of": int(want.size), "max_error": float(f"{worst:.4g}")}


def _e4m3(memory: np.ndarray) -> np.ndarray:
    """A sign, four bits of exponent with bias 7, three of fraction; all ones are NaN."""
    memory = memory.astype(np.int64)
    exponent, fraction = memory >> 3 & 15, memory & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7))
    return np.where(memory & 127 == 127, np.nan, np.where(memory & 128, -size, size))


def values(memory: np.ndarray, kind: str) -> np.ndarray:
    """Memory as float64, from a numpy type, bfloat16 or e4m3; without torch, whose threads do not survive a fork."""
    if kind == "e4m3":
        return _e4m3(memory)
    if kind == "bfloat16":
        return (memory.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return memory.view(kind).astype(np.float64)


def merged(findings: list[dict]) -> list[dict]:
    """Merges findings of the same verdict, kind and line, and adds up how often they were met."""
    kept: dict[tuple[str, str, str], dict] = {}
    for each in findings:
        place = Path(each["source"]).name or f"PTX line {each['ptx_line']}"
        key = (each["verdict"], each["kind"], place)
        one = kept.setdefault(key, {"verdict": key[0], "kind": key[1], "source": place, "times": 0})
        one.setdefault("message", each["message"].split("\n")[0][:MOST_TEXT])
        one["times"] += each["times"]
    return [kept[key] for key in sorted(kept)]


def of_report(path: Path, text: str) -> dict:
    """Verdict and findings from the report of the CUDA runtime shim; `text` is the program's output."""
    said = (text.strip() or "no message").splitlines()[-1][:MOST_TEXT]
    if not path.exists():
        return {"failed": said}
    full = json.loads(path.read_text())
    row = {"verdict": full["verdict"], "findings": merged(full["findings"])}
    return row if full["counters"]["ctas"] else row | {"failed": said}


def in_a_child(work: Callable[[], dict], limit: int = RUN_LIMIT) -> dict:
    """work()'s result from a process of its own, or {"failed": why}.  Its output is dropped."""
    begin = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        for shown in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), shown)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit)
        try:
            result = work()
        except BaseException as error:
            result = {"failed": f"{type(error).__name__}: {error}"[:MOST_TEXT]}
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if data:
        row = json.loads(data)
    elif status == -signal.SIGALRM:
        row = {"failed": f"no end in {limit} s"}
    else:
        row = {"failed": f"ended by signal {-status}" if status < 0 else f"ended with status {status}"}
    return row | {"seconds": round(time.monotonic() - begin, 1)}
