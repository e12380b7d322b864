"""Measure a recorded round again: build both commits in worktrees, run its command, apply its rule."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from scripts.rounds import check, stats
from scripts.rounds.model import RoundError, Tank, chip_name, env_problems, parse_samples

HOLDS, DIFFERS = 0, 3


def _worktree(tank: Tank, commit: str, folder: Path) -> Path:
    _remove(tank, folder)
    done = subprocess.run(
        ["git", "-C", str(tank.root), "worktree", "add", "--detach", "--force", str(folder), commit],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RoundError(f"git worktree of {commit}: {done.stderr.strip()}")
    return folder


def _remove(tank: Tank, folder: Path) -> None:
    tank.git("worktree", "remove", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    tank.git("worktree", "prune")


def _run(command: str, folder: Path, what: str) -> None:
    print(f"{what}: {command}", flush=True)
    status = subprocess.run(command, shell=True, cwd=folder, check=False).returncode
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
    work = tank.root / "build" / "rerun" / f"{number:04d}"
    work.mkdir(parents=True, exist_ok=True)
    folders = {side: work / side for side in ("base", "candidate")}
    samples, env_path = work / "samples.jsonl", work / "env.json"
    samples.unlink(missing_ok=True)
    env_path.unlink(missing_ok=True)
    try:
        for side, folder in folders.items():
            _worktree(tank, data[side]["commit"], folder)
            _run(data.get("build", "make build"), folder, f"build {side} ({data[side]['commit'][:9]})")
        _run(_fill(data, folders, samples, env_path), folders["candidate"], "measure")
    finally:
        for folder in folders.values():
            _remove(tank, folder)
    if not samples.is_file() or not env_path.is_file():
        raise RoundError(f"the recorded command wrote no {samples.name} or no {env_path.name}")
    return _report(data, noise, samples, env_path)


def _fill(data: dict[str, Any], folders: dict[str, Path], samples: Path, env_path: Path) -> str:
    values = {
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
