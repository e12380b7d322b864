"""Checks the origin of a measurement: program, sources, host, chip, clock.

Each line of the samples names them, the environment names them again, and git holds sources and program at the commits
that are named: all three must agree.  shark_tank/runs/recorded_before_origin.json lists the runs from before samples
had these fields, with their digests; no run can be added to it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from statistics import median_low
from typing import Any

from scripts.common.gpu_backends import GPU_BACKENDS
from scripts.common.sources import commit_digest
from scripts.rounds.model import RoundError, Tank, chip_name, digest

# Each line of samples has these as well as shape, variant, repeat and us; `sm_mhz` is null if no clock can be read.
LINE_KEYS = ("program", "digest", "host", "chip", "sm_mhz")
OF_A_RUN = ("program", "host", "chip")  # the same in every line
ENV_KEYS = ("host", "program", "commit", "capability")
OLDER = "recorded_before_origin.json"
SHA256 = re.compile(r"[0-9a-f]{64}")
PROGRAMS = re.compile(r"scripts/bench/[a-z_/]+\.py")
# A CPU's name, as eval/hardware/chip.py writes it.
CPU = re.compile(r".+, \d+ processors")
GPU = re.compile(r"NVIDIA|GeForce|Quadro|Tesla|Radeon|Instinct|simulator|\b(?:G?[HB]|MI)\d{2,3}\b", re.IGNORECASE)


def chip_problems(backend: str, env: dict[str, Any]) -> list[str]:
    """Reasons why the chip cannot have run the backend."""
    chip, capability = str(env.get("chip")), env.get("capability")
    if backend in GPU_BACKENDS:
        capabilities = GPU_BACKENDS[backend].capabilities
        if not GPU_BACKENDS[backend].chips.search(chip):
            return [f"chip is {chip!r}, which the backend {backend} does not run on"]
        if "capability" in env and capability not in capabilities:
            return [f"capability is {capability!r}; the backend {backend} needs {' or '.join(capabilities)}"]
    elif GPU.search(chip) or not CPU.fullmatch(chip) or capability is not None:
        return [f"chip is {chip!r} (capability {capability}), which is not a CPU; the backend is {backend}"]
    return []


def older_runs(tank: Tank) -> dict[str, str]:
    """Runs from before samples had these fields: name -> digest of the samples."""
    path = tank.runs_dir / OLDER
    return json.loads(path.read_text())["runs"] if path.is_file() else {}


def is_older(tank: Tank, run: str, samples_sha256: str) -> bool:
    """True if the run was recorded before samples had these fields."""
    return older_runs(tank).get(run) == samples_sha256


def older_problems(tank: Tank) -> list[str]:
    """Listed runs that git did not have before the list."""
    path = tank.relative(tank.runs_dir / OLDER)
    first = (tank.git("log", "--diff-filter=A", "--format=%H", "--reverse", "--", path) or "").split()
    problems = []
    for run in older_runs(tank) if first else ():
        added = tank.added(tank.samples_path(run))
        if not added or added[0] == first[0] or not tank.is_ancestor(added[0], first[0]):
            problems.append(f"{path}: {run} was recorded after the list was made")
    return problems


def line_problems(content: bytes, env: dict[str, Any]) -> list[str]:
    """Lines of samples that lack their origin or contradict the environment."""
    program = env.get("program")
    path = program.get("path") if isinstance(program, dict) else None
    of_run = {"program": path, "host": env.get("host"), "chip": env.get("chip")}
    digests, clocks, problems = env["digests"], [], {}
    for number, text in enumerate(content.decode().splitlines(), 1):
        if not text.strip():
            continue
        line = json.loads(text)
        missing = [key for key in LINE_KEYS if key not in line]
        if missing:
            return [f"samples:{number}: lacks {', '.join(missing)}: what produced it (shark_tank/RULES.md, step 4)"]
        for key in OF_A_RUN:
            if line[key] != of_run[key]:
                problems[f"{key} is {line[key]!r}, env.json says {of_run[key]!r}"] = number
        if line["digest"] != digests.get(line["variant"]):
            problems[f"the digest of {line['variant']!r} is not the one in env.json"] = number
        if line["sm_mhz"] is not None:
            clocks.append(line["sm_mhz"])
    said = env["clocks"].get("sm_mhz_while_timing") if isinstance(env["clocks"], dict) else None
    if said != (median_low(clocks) if clocks else None):
        problems[f"the clock's median is {median_low(clocks) if clocks else None}, env.json says {said}"] = 1
    return [f"samples:{number}: {problem}" for problem, number in problems.items()]


def env_problems(env: dict[str, Any]) -> list[str]:
    """Fields of the run's origin that the environment lacks or has in another form."""
    missing = [key for key in ENV_KEYS if key not in env]
    if missing:
        return [f"env.json lacks {', '.join(missing)}"]
    digests, program = env["digests"], env["program"]
    problems = []
    if not isinstance(digests, dict) or not digests:
        return ["env.json: digests is empty, expected one of every variant's sources"]
    for variant, value in digests.items():
        if not (isinstance(value, str) and SHA256.fullmatch(value)):
            problems.append(f"env.json: the digest of {variant!r} is {value!r}, expected a sha256")
    if not isinstance(program, dict) or not SHA256.fullmatch(str(program.get("sha256"))):
        problems.append("env.json: program is to have a path and the sha256 of that file")
    elif not PROGRAMS.fullmatch(str(program.get("path"))):
        problems.append(f"env.json: program is {program.get('path')!r}, expected one under scripts/bench/")
    if not (isinstance(env["host"], str) and env["host"]):
        problems.append(f"env.json: host is {env['host']!r}, expected the machine's name for itself")
    return problems


def side_problems(tank: Tank, data: dict[str, Any], env: dict[str, Any]) -> list[str]:
    """Base and candidate must be built from two commits, the ones named; the sides of an A/A round from one."""
    names = [data[side]["variant"] for side in ("base", "candidate")]
    commits = [tank.commit(data[side]["commit"] or "") or data[side]["commit"] for side in ("base", "candidate")]
    problems = [f"env.json has no digest of {name!r}" for name in names if name not in env["digests"]]
    if problems:
        return problems
    equal = env["digests"][names[0]] == env["digests"][names[1]]
    if names[0] == names[1]:
        problems.append(f"base and candidate are one variant, {names[0]!r}")
    if data["kind"] == "noise-floor":
        if commits[0] != commits[1] or not equal:
            problems.append("an A/A round times one commit twice; base and candidate differ")
    elif commits[0] == commits[1]:
        problems.append(f"base and candidate are one commit, {str(commits[0])[:9]}: a change needs its own commit")
    elif equal:
        problems.append("base and candidate were built from the same sources")
    if not tank.has_history():
        return problems
    for side, name, commit in zip(("base", "candidate"), names, commits, strict=True):
        wanted = commit_digest(tank.root, str(commit))
        if env["digests"][name] != wanted:
            problems.append(
                f"{side} {name!r} was not built from the sources of {str(commit)[:9]}; their digests differ"
            )
    return problems + _program_problems(tank, env)


def _program_problems(tank: Tank, env: dict[str, Any]) -> list[str]:
    taken, program = tank.commit(str(env["commit"])), env["program"]
    if taken is None:
        return [f"env.json was taken at {str(env['commit'])[:9] or 'no commit'}, which is not in this repository"]
    shown = subprocess.run(
        ["git", "-C", str(tank.root), "show", f"{taken}:{program['path']}"], capture_output=True, check=False
    )
    if shown.returncode != 0 or hashlib.sha256(shown.stdout).hexdigest() != program["sha256"]:
        return [f"{program['path']} was not as it is in {taken[:9]}, where env.json was taken"]
    return []


def origin_problems(tank: Tank, data: dict[str, Any], env: dict[str, Any], content: bytes, run: str) -> list[str]:
    """All problems of the origin of a round's samples."""
    problems = chip_problems(data["backend"], env)
    if is_older(tank, run, digest(content)):
        return problems
    problems += env_problems(env)
    return problems or line_problems(content, env) + side_problems(tank, data, env)


def noise_problems(data: dict[str, Any], noise: dict[str, Any], env: dict[str, Any]) -> list[str]:
    """A noise floor serves one backend on one chip only."""
    if noise["backend"] != data["backend"]:
        return [f"the noise floor of round {noise['number']} is of backend {noise['backend']}, not {data['backend']}"]
    if noise["measurement"]["chip"] != chip_name(env):
        return [f"chip {chip_name(env)!r}: the noise floor is of {noise['measurement']['chip']!r}"]
    return []


def require(problems: list[str]) -> None:
    """Raises a RoundError that names every problem, if there is one."""
    if problems:
        raise RoundError("\n".join(problems))
