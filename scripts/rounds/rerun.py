"""Measures a recorded round again: builds both commits in worktrees, runs its command, applies its rule.

Commands of old rounds say `python3`: it is made to start the Python that runs this, which set-up chose.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.rounds import check, origin, stats
from scripts.rounds.model import RoundError, Tank, chip_name, env_problems, parse_samples

HOLDS, DIFFERS = 0, 3


def _worktree(tank: Tank, commit: str, folder: Path) -> None:
    _remove(tank, folder)
    done = subprocess.run(
        ["git", "-C", str(tank.root), "worktree", "add", "--detach", "--force", str(folder), commit],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RoundError(f"git worktree of {commit}: {done.stderr.strip()}")


def _remove(tank: Tank, folder: Path) -> None:
    tank.git("worktree", "remove", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    tank.git("worktree", "prune")


def _own_python(folder: Path) -> dict[str, str]:
    """An environment in which `python3`, `python` and make's PYTHON start the Python that runs this."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("python3", "python"):  # scripts, since a link would not find the packages of a virtual environment
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        script.chmod(0o755)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}", "PYTHON": sys.executable}


CHIP_HERE = """
import torch
if torch.cuda.is_available():
    print(torch.cuda.get_device_name(), *torch.cuda.get_device_capability())
"""


def chip_here() -> tuple[str, str | None] | None:
    """Name and compute capability of the CUDA device that torch finds, or None; RoundError without torch."""
    done = subprocess.run([sys.executable, "-c", CHIP_HERE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RoundError(f"{sys.executable} cannot look for the chip ({why}); set PYTHON to one that has torch")
    if not done.stdout.strip():
        return None
    name, major, minor = done.stdout.strip().rsplit(" ", 2)
    return name, f"{major}.{minor}"


def _require_chip(data: dict[str, Any]) -> None:
    """Raises RoundError before anything is built if this machine cannot run the round's backend."""
    if data["backend"] == "cpu":
        return
    found, recorded = chip_here(), data["measurement"]["chip"]
    if found is None:
        raise RoundError(
            f"round {data['number']} was measured on {recorded}; {sys.executable} sees no CUDA device here"
        )
    problems = origin.chip_problems(data["backend"], {"chip": found[0], "capability": found[1]})
    if problems:
        raise RoundError(f"round {data['number']} was measured on {recorded}: {problems[0]}")


def _run(command: str, folder: Path, what: str, environment: dict[str, str]) -> None:
    print(f"{what}: {command}", flush=True)
    status = subprocess.run(command, shell=True, cwd=folder, env=environment, check=False).returncode
    if status != 0:
        raise RoundError(f"{what} failed with exit status {status}: {command}")


def rerun(tank: Tank, number: int) -> int:
    """Repeat a measured round here. Prints both results; returns 0 when the verdict holds, 3 when it does not.

    RoundError when the round has no measurement or no command, or when a step fails (no GPU among them).
    """
    data = tank.get(number)
    if data["measurement"] is None:
        raise RoundError(f"round {number} is {data['state']} and has no measurement to repeat")
    if not data.get("command"):
        raise RoundError(f"round {number} records no command; give `measure --command`")
    noise = None if data["kind"] == "noise-floor" else check.noise_measurement(tank, data)
    _require_chip(data)
    work = tank.root / "build" / "rerun" / f"{number:04d}"
    work.mkdir(parents=True, exist_ok=True)
    folders = {side: work / side for side in ("base", "candidate")}
    samples, env_path = work / "samples.jsonl", work / "env.json"
    samples.unlink(missing_ok=True)
    env_path.unlink(missing_ok=True)
    environment = _own_python(work / "bin")
    try:
        for side, folder in folders.items():
            _worktree(tank, data[side]["commit"], folder)
            what = f"build {side} ({data[side]['commit'][:9]})"
            _run(data.get("build", "make build"), folder, what, environment)
        command = _fill(data, folders, samples, env_path, tank.root)
        _run(command, folders["candidate"], "measure", environment)
    finally:
        for folder in folders.values():
            _remove(tank, folder)
    if not samples.is_file() or not env_path.is_file():
        raise RoundError(f"the recorded command wrote no {samples.name} or no {env_path.name}")
    return _report(data, noise, samples, env_path)


def _fill(data: dict[str, Any], folders: dict[str, Path], samples: Path, env_path: Path, root: Path) -> str:
    values = {
        "root": root,
        "python": sys.executable,
        "base_dir": folders["base"],
        "candidate_dir": folders["candidate"],
        "base": data["base"]["variant"],
        "candidate": data["candidate"]["variant"],
        "samples": samples,
        "env": env_path,
    }
    command = data["command"]
    for name, value in values.items():
        command = command.replace("{" + name + "}", shlex.quote(str(value)))
    return command


def _report(data: dict[str, Any], noise: dict[str, Any] | None, samples: Path, env_path: Path) -> int:
    env = json.loads(env_path.read_text())
    problems = env_problems(env)
    if problems:
        raise RoundError(f"{env_path}: " + "; ".join(problems))
    content = parse_samples(samples.read_bytes(), str(samples))
    found = stats.compare(content, data["base"]["variant"], data["candidate"]["variant"])
    state, reason = check.judge({**data, "measurement": found}, noise)
    recorded = data["verdict"]["state"]
    if chip_name(env) != data["measurement"]["chip"]:
        print(f"note: recorded on {data['measurement']['chip']}, run again on {chip_name(env)}")
    print(f"recorded: {recorded}: {data['verdict']['reason']}")
    print(f"again:    {state}: {reason}")
    print("the verdict holds" if state == recorded else "the verdict does not hold here")
    return HOLDS if state == recorded else DIFFERS
