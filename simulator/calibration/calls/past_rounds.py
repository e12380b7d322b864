"""Times the Blackwell rounds that the clock judged once more, on today's clock (results/BLACKWELL_ROUNDS.md).

    python -m simulator.calibration.calls.past_rounds            # builds and times what is missing (an hour)
    python -m simulator.calibration.calls.past_rounds --render   # the page, from the committed times

Base and candidate of a round are compiled for sm_100a from git, with their own host code, and linked with today's
simulator.  A time is of a call behind others at the leaderboard's clock, by PTX and by machine code (b200/board.py), at
two shapes, at the one shape where base and candidate differ, or at all four where two do not decide.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from scripts.common.machine_code.assemble import VARIABLE, by_machine_code
from scripts.common.markdown import table
from scripts.common.simulated_call import MACHINE_CODE
from scripts.common.toolchain import BUILD, built, nvcc
from simulator.calibration.b200 import board
from simulator.calibration.calls.public_kernels import CALLS, SETTINGS, times_of
from simulator.calibration.packed import DATA
from simulator.calibration.rows import RESULTS, ROOT, parameters_digest

RESULT, TEXT = DATA / "blackwell_rounds.json", RESULTS / "BLACKWELL_ROUNDS.md"
TANK = ROOT / "shark_tank"
SHAPES = ("256x4096x7168", "512x3072x7168")
ALL = (*SHAPES, "512x4096x7168", "256x3072x4096")
# Rounds whose tiles differ at one shape only, that have shapes of their own, or that all shapes decide.
OTHER_SHAPES = {
    43: ALL, 132: ALL,
    72: SHAPES[1:], 85: ("512x4096x7168",), 86: ("256x3072x4096",), 131: ("256x3072x4096", "512x3072x7168"),
}  # fmt: skip
NOT_TIMED = {
    84: "blocked: no candidate was built",
    104: "its question was another SM clock, which is now fitted on a published row",
    133: "blocked: no candidate was built",
}
LAST = 148  # later rounds were judged on this clock
NEAR = 0.01  # ratios nearer to 1 favour neither side
CUDA_HEADERS = Path("/usr/local/cuda/include")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "custom_kernel.h"
int cudaMalloc(void **p, size_t n);
int cudaDeviceSynchronize(void);
int main(int argc, char **argv) {
    int64_t m = atoll(argv[1]), n = atoll(argv[2]), k = atoll(argv[3]);
    for (int call = 0; call < atoi(argv[4]); call++) {
        int64_t am = (m + 127) / 128 * 128, an = (n + 127) / 128 * 128;
        int64_t sizes[] = {m * k / 2, n * k / 2, n * k / 2, am * k / 16, an * k / 16, an * k / 16, 2 * m * n};
        void *d[7];
        for (int i = 0; i < 7; i++) {
            if (cudaMalloc(&d[i], (size_t)sizes[i])) return 3;
        }
        struct custom_kernel_args args = {
            .struct_bytes = sizeof args, .backend = CUSTOM_KERNEL_BACKEND_BLACKWELL, .device = 0,
            .scale_layout = CUSTOM_KERNEL_SCALES_BLOCKED, .m = m, .n = n, .k = k, .l = 1, .a = d[0], .b1 = d[1],
            .b2 = d[2], .sfa = d[3], .sfb1 = d[4], .sfb2 = d[5], .c = d[6]};
        if (custom_kernel(&args)) {
            fputs(custom_kernel_message(), stderr);
            return 1;
        }
    }
    return cudaDeviceSynchronize();
}
"""


@dataclass(frozen=True)
class Side:
    """Base or candidate of a round at a shape: commit, and a tile instead of the chosen one."""

    commit: str
    tile: str
    shape: str

    @property
    def key(self) -> str:
        return " ".join(part for part in (self.commit[:9], self.tile, self.shape) if part)


@dataclass(frozen=True)
class Judged:
    """A round that the clock judged: its verdict then, and base, candidate and the ratio then by shape."""

    number: int
    title: str
    state: str
    sides: dict[str, tuple[Side, Side]]
    then: dict[str, float]


def judged() -> Iterator[Judged]:
    """Every Blackwell round up to LAST whose times a simulated clock gave, but for NOT_TIMED."""
    for path in sorted((TANK / "rounds").glob("*/round.json")):
        found = json.loads(path.read_text())
        verdict = found if "model" in found else found.get("judged_again", {})
        past = found["number"] <= LAST and found["number"] not in NOT_TIMED
        if found["backend"] != "blackwell" or "model" not in verdict or not past:
            continue
        model = verdict["model"]
        tiles = json.loads(gzip.decompress((TANK / f"runs/{model['run']}.model.json.gz").read_bytes()))["tiles"]
        shapes = OTHER_SHAPES.get(found["number"], SHAPES)
        sides = {
            shape: tuple(
                Side(found[who]["commit"], tiles.get(found[who]["variant"], {}).get(shape, ""), shape)
                for who in ("base", "candidate")
            )
            for shape in shapes
        }
        then = {shape: model["shapes"][shape][2] for shape in shapes}
        yield Judged(found["number"], found["title"], verdict["state"], sides, then)


def program(commit: str, at: Path) -> Path:
    """Compiles the commit's library without its fast CPU kernels, and a program that calls it."""
    target, source = at / "run", at / "submission"
    if target.is_file():
        return target
    at.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit, "submission"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", at], input=archive.stdout, check=True)
    (at / "main.c").write_text(MAIN)
    files = [at / "main.c", *(file for part in ("core", "gpu", "blackwell") for file in (source / part).glob("*.c"))]
    fast = ("avx", "amx", "neon")
    files += [file for file in (source / "cpu").glob("*.c") if not any(word in file.name for word in fast)]
    defines = ["-D_GNU_SOURCE", "-DNVFP4_HAVE_BLACKWELL", "-isystem", str(CUDA_HEADERS), "-I", str(source)]
    objects = []
    for file in (*files, *(source / "blackwell").glob("*kernels.cu")):
        objects.append(at / f"{file.parent.name}_{file.name}.o")
        command = ["gcc", "-O2", "-std=c11", "-pthread", *defines]
        if file.suffix == ".cu":
            gencode = "arch=compute_100a,code=compute_100a"
            command = [nvcc(), "-std=c++17", "-O3", "-gencode", gencode, "--no-compress"]
        subprocess.run([*command, "-w", "-c", "-o", objects[-1], file], check=True)
    libraries = [built("libcudart_sim.a"), "-lpthread", "-lm", "-ldl", "-lgomp"]
    subprocess.run(["g++", "-o", target, *objects, *libraries], check=True)
    return target


def us_of(side: Side, variant: str, cache: Path) -> float:
    """us of a call behind others; variant: of board.CLOCK_GHZ."""
    words = [program(side.commit, cache / side.commit[:9]), *side.shape.split("x"), str(CALLS)]
    with tempfile.TemporaryDirectory() as name:
        chip, report = board.chip_file(variant, Path(name) / "chip.json"), Path(name) / "report.json"
        settings = {**os.environ, **SETTINGS, "NVFP4_SIMULATE_TIME": str(chip), "NVFP4_SIMULATE_JSON": str(report)}
        settings["NVFP4_BLACKWELL_CONFIG"] = side.tile

        def run(folder: Path | None = None) -> float:
            code = {} if folder is None else {VARIABLE: str(folder)}
            subprocess.run(words, env=settings | code, check=True, stderr=subprocess.DEVNULL)
            return times_of(json.loads(report.read_text())["time"]["launches"])["back_to_back_us"]

        return by_machine_code(run, MACHINE_CODE) if variant in board.BY_MACHINE_CODE else run()


def written(times: dict[str, dict[str, float]]) -> str:
    """The document's text, one time a line."""
    head = {"format": "blackwell-rounds-1", "evidence": "simulated", "parameters_sha256": parameters_digest("b200")}
    head["clock_ghz"] = board.CLOCK_GHZ
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(times[key])}" for key in sorted(times))
    return f'{json.dumps(head)[:-1]}, "times": {{\n{lines}\n}}}}\n'


def ratios(one: Judged, times: dict[str, dict[str, float]]) -> dict[str, list[float]]:
    """Candidate over base now by shape, for each variant of the clock that timed both."""
    found = {}
    for shape, (base, candidate) in one.sides.items():
        known = [v for v in board.CLOCK_GHZ if v in times.get(base.key, {}) and v in times.get(candidate.key, {})]
        found[shape] = [times[candidate.key][v] / times[base.key][v] for v in known]
    return found


def side_of(ratio: float) -> int:
    """Which is faster: -1 the candidate, 1 the base, 0 neither by more than NEAR."""
    return (ratio > 1 + NEAR) - (ratio < 1 - NEAR)


def answer(then: float, now: list[float]) -> str:
    """Whether the clock was right: "wrong" if at each end the other side is faster; "open" if the ends differ."""
    if not now:
        return ""
    sides = {side_of(ratio) for ratio in now}
    if len(sides) > 1:
        return "ends differ"
    (side,) = sides
    before = side_of(then)
    if side == before:
        return "right"
    return "wrong" if side == -before else "no difference now" if side == 0 else "difference now"


def text_of(values: list[float]) -> str:
    """Ratios as "0.97, 0.98"."""
    return ", ".join(f"{value:.3f}" for value in values)


def render(times: dict[str, dict[str, float]]) -> str:
    """The page."""
    body, answers = [], []
    for one in judged():
        now = ratios(one, times)
        means = [geometric_mean(values) for values in zip(*now.values(), strict=True)]
        then = geometric_mean(one.then.values())
        answers.append((one, answer(then, means)))
        body.append(
            [
                str(one.number), one.title, one.state,
                "; ".join(f"{s.replace('x', ' ')}: {one.then[s]:.3f} → {text_of(now[s])}" for s in one.sides),
                f"{then:.3f}", text_of(means), answers[-1][1],
            ]
        )  # fmt: skip
    counts: dict[str, list[str]] = {}
    for one, word in answers:
        counts.setdefault(word, []).append(str(one.number))
    said = "; ".join(f"{word}: {len(found)} ({', '.join(found)})" for word, found in counts.items())
    left = "\n".join(f"- Round {number}: {why}." for number, why in NOT_TIMED.items())
    head = ["round", "what changed", "the clock's verdict then", "by shape, then → now", "then", "now", "was it right?"]
    by = {"without": "by PTX", "with": "by machine code with an H200's mechanisms"}
    complete = [variant for variant in board.CLOCK_GHZ if all(variant in found for found in times.values())]
    ways = ", and ".join(f"{by[variant]} ({board.CLOCK_GHZ[variant]} GHz)" for variant in complete)
    return f"""# Blackwell's rounds on today's clock

Written by `python -m simulator.calibration.calls.past_rounds` from
[blackwell_rounds.json](../calibration/data/blackwell_rounds.json). **Simulated, not measured.** Base and candidate of
every Blackwell round to {LAST} that the clock judged, compiled from git and timed behind other calls at the
leaderboard's clock: {ways}.
Ratios are candidate / base, below 1 is faster, as geometric means over the shapes in the table.
The verdicts in the rounds' pages stay. Round 149 and later ones were made on this clock.

{said}.

Right: the same side is faster as then by more than {NEAR:.0%}, or neither is. Wrong: the other side is. No difference
now, difference now: one of the two ratios is within {NEAR:.0%} of 1. Ends differ: times by PTX and by machine code do
not agree. Rounds 43, 44, 47 to 49, 72, 131 and 132 compare tiles, of which the library takes the best at each shape:
there each shape counts, not the mean.

{table(head, body)}

Rounds 85 and 86 tried once more as tiles of today's kernels, with round 151's start, behind other calls and alone, by
PTX and by machine code, over today's tile: 112 features 0.953 and 1.003, alone 0.979 and 1.032; 48 features 0.989 and
0.976, alone 1.016 and 0.977. Neither wins everywhere, so neither is a tile: L2 has more to deliver to more SMs.

Not timed again:

{left}
"""


def main(arguments: list[str]) -> int:
    """Times what is missing, or only writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--cache", type=Path, default=BUILD / "past_rounds")
    options = parser.parse_args(arguments)
    kept: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    times = kept["times"] if options.render or kept.get("parameters_sha256") == parameters_digest("b200") else {}
    if not options.render:
        for variant in board.CLOCK_GHZ:
            for side in (side for one in judged() for pair in one.sides.values() for side in pair):
                if variant not in times.setdefault(side.key, {}):
                    times[side.key][variant] = us_of(side, variant, options.cache)
                    print(variant, side.key, times[side.key][variant], flush=True)
                    RESULT.write_text(written(times))
    TEXT.write_text(render(times))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
