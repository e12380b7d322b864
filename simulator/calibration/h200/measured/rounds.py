"""Simulates both commits of measured rounds at the rounds' shapes.

A commit's kernels and host code (submission/) are built with this checkout's simulator, in build/rounds/COMMIT.  A
commit that is older than the simulator's entry takes it and the Python shim from SAME_ABI.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from simulator.calibration.rows import ROOT, Row
from simulator.package.simulated_call import simulated_calls
from simulator.python.toolchain import BUILD

CALLS = 2  # the last one counts
MOST_ROWS = 256  # larger shapes take too long to simulate
SAME_ABI = "658cbe60e27e4b6e83b7e82048045c982839f788"  # the last commit with those commits' C ABI
ENTRY = "simulator/package/entry.c"
OLD_ENTRY = "simulator/nvfp4/entry.c"  # its place until the folder was renamed
SHIM = ("__init__.py", "submission.py", "memory_check.py", "torch_operator.py")
OURS = ("Makefile", "scripts", "reference", "eval")


def round_document(number: int) -> dict[str, Any]:
    """A round's JSON."""
    [path] = (ROOT / "shark_tank/rounds").glob(f"{number:04d}-*/round.json")
    return json.loads(path.read_text())


def unpack(commit: str, folder: Path, *paths: str) -> None:
    """Extracts these files of the commit into the folder."""
    command = ["git", "-C", str(ROOT), "archive", commit, *paths]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "xf", "-", "-C", str(folder)], input=packed, check=True)


def has(commit: str, path: str) -> bool:
    """True if the commit has this file."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unpack_all(commit: str, folder: Path) -> None:
    """Extracts the commit's sources that run on the simulator, Hopper's only."""
    folder.mkdir(parents=True)
    unpack(commit, folder, "submission")
    entry = next((path for path in (ENTRY, OLD_ENTRY) if has(commit, path)), None)
    if entry is not None:
        unpack(commit, folder, entry)
    else:
        unpack(SAME_ABI, folder, OLD_ENTRY, *(f"submission/{name}" for name in SHIM))
    if entry != ENTRY:
        (folder / ENTRY).parent.mkdir()
        (folder / OLD_ENTRY).rename(folder / ENTRY)
    for other in ("blackwell", "tile_table"):
        shutil.rmtree(folder / "submission" / other, ignore_errors=True)
    (folder / "submission" / "install.mk").touch()  # the Makefile includes it


@cache
def checkout(commit: str) -> Path:
    """Builds the commit's Hopper kernels with this checkout's simulator; the folder."""
    folder = (BUILD / "rounds" / commit[:7]).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unpack_all(commit, folder)
        package = Path(ENTRY).parent
        for part in (*(ROOT / "simulator").iterdir(), *(ROOT / package).iterdir()):
            ours = folder / part.relative_to(ROOT)
            if part != ROOT / package and not ours.exists():
                ours.symlink_to(part)
        for name in OURS:
            if not (folder / name).exists():
                (folder / name).symlink_to(ROOT / name)
        command = ["make", "-s", "BUILD=build", "build/libcustom_kernel_sim.so"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return folder


SMALL = (256, 512, 256)


@cache
def prepared(commit: str) -> None:
    """Has the commit's kernels assembled by a short call, so that no long call runs twice."""
    simulated_calls(SMALL, "hopper", root=checkout(commit), machine_code=True)


def call_us(commit: str, variant: str, shape: str) -> float:
    """Simulated us of a call behind another."""
    m, n, k = (int(part) for part in shape.split("x"))
    tile, *suffixes = variant.rpartition("/")[2].split("+")
    settings = {"NVFP4_HOPPER_CONFIG": "" if tile == "auto" else tile}
    if "plain" in suffixes:
        settings["NVFP4_HOPPER_DEPENDENT_LAUNCH"] = "0"
    prepared(commit)
    launches = simulated_calls((m, n, k), "hopper", CALLS, root=checkout(commit), machine_code=True, **settings)[
        "launches"
    ]
    last = [launch["end_us"] for launch in launches if "dual_gemm" in launch["kernel"]]
    return last[-1] - last[-2]


def shapes_of(document: dict[str, Any]) -> list[str]:
    """The shapes of a round that are simulated: its smallest weights with at most MOST_ROWS rows."""
    sizes = {shape: tuple(map(int, shape.split("x"))) for shape in document["measurement"]["shapes"]}
    weights = min(n * k for _, n, k in sizes.values())
    return [shape for shape, (m, n, k) in sizes.items() if n * k == weights and m <= MOST_ROWS]


SIDES = ("base", "candidate")
FIGURES = ("base_us", "candidate_us", "samples", "ratio")  # the first columns of a shape's list in a round.json


def figures(number: int, shape: str) -> dict[str, float]:
    """What the round measured at a shape."""
    entry = round_document(number)["measurement"]["shapes"][shape]
    return dict(zip(FIGURES, entry, strict=False)) if isinstance(entry, list) else entry


def measured_ratio(number: int, shape: str) -> float:
    """The measured ratio, candidate over base."""
    return figures(number, shape)["ratio"]


def measured_us(number: int, side: str, shape: str) -> float:
    """The measured us of a call: the mean over a round of calls, including what a round costs once."""
    return figures(number, shape)[f"{side}_us"]


def rows_of(number: int, shape: str, predicted: dict[str, float]) -> Iterator[Row]:
    """The ratio and both sides of it, from the predicted us of both."""
    ratio = predicted["candidate"] / predicted["base"]
    yield Row("rounds", f"round {number}", shape, "of the base", ratio, measured_ratio(number, shape), "validated")
    for side in SIDES:
        us = measured_us(number, side, shape)
        yield Row("sides", f"round {number} {side}", shape, "us", predicted[side], us, "validated")


def round_rows(numbers: list[str]) -> Iterator[Row]:
    """Each round's ratio at its shapes, or at one shape where the name is NUMBER/SHAPE."""
    for number, _, chosen in (name.partition("/") for name in numbers):
        document = round_document(int(number))
        for shape in [chosen] if chosen else shapes_of(document):
            sides = {side: call_us(document[side]["commit"], document[side]["variant"], shape) for side in SIDES}
            yield from rows_of(int(number), shape, sides)
