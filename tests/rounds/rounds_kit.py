"""Makes records in temporary repositories, for the tests of rounds and history."""

import hashlib
import json
import random
import shutil
import subprocess
from pathlib import Path

from scripts.common.sources import source_digest
from scripts.rounds import check as rounds_check
from scripts.rounds import commands as rounds
from scripts.rounds.model import Tank, read_round, write_json, write_round_json

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ["256x4096x7168", "512x4096x7168", "256x3072x4096", "512x3072x7168"]
TIMES = {"v0": 1.0, "v0-again": 1.0, "deep": 0.9, "same": 0.9999, "mixed": 0.9, "cublas_one_gemm": 0.8}
PROGRAM = "scripts/bench/compare.py"
PROGRAM_TEXT = "print('times variants')\n"
KERNELS = ("v0", "deep", "same", "mixed")  # each is a commit of the test repository and its tag


def kernel_digest(variant):
    """The digest of the sources that a variant of TIMES was built from."""
    kernel = variant.removesuffix("-again")
    return source_digest([("submission/kernel.c", f"{kernel}\n".encode())])


ENV = {
    "chip": "NVIDIA H200",
    "capability": "9.0",
    "driver": "test",
    "versions": {},
    "clocks": {"sm_mhz_while_timing": 1980},
    "flags": "",
    "host": "x86_64-0123456789ab",
    "program": {"path": PROGRAM, "sha256": hashlib.sha256(PROGRAM_TEXT.encode()).hexdigest()},
    "digests": {variant: kernel_digest(variant) for variant in TIMES},
}


def git(root, *args):
    done = subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(root, subject="step"):
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", subject)
    return git(root, "rev-parse", "HEAD")


def sample_lines(seed=1, repeats=20, spread=0.002, factors=None, chip=ENV["chip"]):
    """Interleaved samples of TIMES' variants; `mixed` is 5 % slower on one shape. The noise is seeded."""
    rng = random.Random(seed)
    lines = []
    for index, shape in enumerate(SHAPES):
        for repeat in range(repeats):
            for variant, factor in (factors or TIMES).items():
                worse = 1.05 / factor if variant == "mixed" and index == 2 else 1.0
                us = 40.0 * (1 + index) * factor * worse * rng.gauss(1.0, spread)
                extents = [int(part) for part in shape.split("x")]
                line = {"shape": extents, "variant": variant, "repeat": repeat, "us": round(us, 3), "sm_mhz": 1980}
                line |= {"program": PROGRAM, "digest": kernel_digest(variant), "host": ENV["host"], "chip": chip}
                lines.append(json.dumps(line))
    return "\n".join(lines) + "\n"


def make_tank(root):
    """A repository with the inherited rounds, a commit for each of KERNELS, and the program that times."""
    root.mkdir()
    for path, text in ((PROGRAM, PROGRAM_TEXT), ("submission/kernel.c", "")):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    shutil.copytree(ROOT / "reference" / "problems", root / "reference" / "problems")
    (root / "shark_tank").mkdir()
    for name in ("README.md", "LEARNINGS.md"):
        shutil.copy(ROOT / "shark_tank" / name, root / "shark_tank" / name)
    for folder in Tank(ROOT).round_dirs():
        if int(folder.name[:4]) <= 3:
            shutil.copytree(folder, root / "shark_tank" / "rounds" / folder.name)
    # The real learnings may quote rounds that this copy lacks.
    (root / "shark_tank" / "LEARNINGS.md").write_text(
        "# Learnings\n\n- Check first ([0003](rounds/0003-is-the-kernel-right/round.md)).\n"
    )
    git(root, "init", "-q")
    for kernel in KERNELS:
        (root / "submission" / "kernel.c").write_text(f"{kernel}\n")
        commit(root, kernel)
        git(root, "tag", kernel)
    tank = Tank(root)
    rounds.render(tank)
    commit(root, "start")
    return tank


def run(tank, *args):
    """Runs a command; adds the commits of the variants to a measurement without commits."""
    if args[0] == "measure" and "--base-commit" not in args:
        data = tank.get(args[1])
        for side in ("base", "candidate"):
            args += (f"--{side}-commit", data[side]["variant"].removesuffix("-again"))
    return rounds.main(["--root", str(tank.root), *map(str, args)])


def write_prose(tank, number, sections=None):
    """Fill every section of a round.md that still holds its prompt."""
    path = tank.find(number) / "round.md"
    parts = [p for p in path.read_text().split("\n\n") if not p.startswith(("- Performance", "- Practicality"))]
    text = "\n\n".join("Because it overlaps." if p.startswith("UNWRITTEN") else p for p in parts)
    path.write_text(text)


def new_predicted(tank, slug, base, candidate, *more, interval="0.85:0.95"):
    """A committed prediction; returns the round's number."""
    assert run(tank, "new", slug, "--backend", "hopper", "--base", base, "--candidate", candidate, *more) == 0
    number = max(int(folder.name[:4]) for folder in tank.round_dirs())
    write_prose(tank, number)
    views = ("--performance", "0.9: fewer waits", "--practicality", "0.97: known", "--theory", "0.88: overlap")
    assert run(tank, "predict", number, "--all", interval, *views) == 0
    commit(tank.root, f"predict {number}")
    return number


def env_of(tank, **changes):
    """The environment of a run at HEAD."""
    return ENV | {"commit": git(tank.root, "rev-parse", "HEAD")} | changes


def write_run(tank, **kwargs):
    """Writes raw samples and env.json outside the repository, as a GPU machine would."""
    samples, env = tank.root.parent / "samples.jsonl", tank.root.parent / "env.json"
    samples.write_text(sample_lines(**kwargs))
    write_json(env, env_of(tank))
    return samples, env


def finish(tank, number):
    """Adds what a person writes after the measurement, and commits."""
    data = tank.get(number)
    data["reopen_if"] = "another chip"
    data["verdict"]["why"] = "waits overlap"
    tank.save(data)
    rounds.render(tank)
    return commit(tank.root, f"measure {number}")


def problems_of(tank):
    """The problems that the check finds, a line each."""
    return "\n".join(rounds_check.check(tank)[1])


def edit(tank, number, change):
    """Alters round.json by hand, without the tools."""
    path = tank.find(number) / "round.json"
    data = read_round(path)
    change(data)
    write_round_json(path, data)


def edit_env(tank, run, env):
    """Replaces a run's environment by hand, without the tools."""
    tank.save_environments(tank.environments() | {run: env})


def measure_all(tank, slugs=("deep", "same", "mixed")):
    """An A/A round 4 and candidates (5 deep, 6 same, 7 mixed) measured in one shared run."""
    new_predicted(tank, "noise-floor", "v0", "v0-again", "--noise-floor", interval="0.99:1.01")
    for slug in slugs:
        new_predicted(tank, slug, "v0", slug, "--noise-round", 4, "--parent", 4)
    samples, env = write_run(tank)
    for number in range(4, 5 + len(slugs)):
        assert run(tank, "measure", number, "--samples", samples, "--env", env, "--run", "shared") == 0
        finish(tank, number)
    return tank
