"""Compares the times that two versions of the harness give the same submissions: runs both in turn.

    python -m scripts.bench.harness_ratio OLD [--repeats 2] [--shapes 2] [--json FILE]

OLD is a checkout of an older commit (`git worktree add OLD b46d3a7`); only its eval/ and reference/ are used.  Both
harnesses judge this checkout's built submission and cuBLAS (scripts/bench/baselines/cublas_submission.py).  For each
shape it prints the ratio of the times, new over old, with its 95 % interval over the runs, and the tolerance by which a
claimed time may lie below the harness's.  Exits with 1 if a run fails or a ratio's interval lies outside 1 +- 0.01.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from eval.output.report import print_table
from reference.problems import DEFAULT
from scripts.common.bootstrap import ratio_interval

ROOT = Path(__file__).resolve().parents[2]
SUBMISSIONS = {
    "ours": ROOT / "submission" / "submission.py",
    "cuBLAS": ROOT / "scripts" / "bench" / "baselines" / "cublas_submission.py",
}
ALLOWED = 0.01
RUN_S = 300.0
PRINTED = 3000  # characters of a failed run's output


def run(checkout: Path, cases: Path, submission: Path, device: str | None) -> dict[str, Any]:
    """The JSON of one run of a checkout's harness. Raises RuntimeError with its output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        command = [sys.executable, "eval/eval.py", "benchmark", cases, "--submission", submission, "--json", record]
        command += ["--device", device] if device else []
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-PRINTED:]
            raise RuntimeError(f"{checkout.name}, {submission.name}: exit code {done.returncode}\n{said}")
        return json.loads(record.read_text())


def shape_of(result: dict[str, Any]) -> str:
    """M N K."""
    return " ".join(str(result[key]) for key in "mnk")


def measure(old: Path, cases: Path, repeats: int, device: str | None) -> list[dict[str, Any]]:
    """Every run: which harness, which submission, which shape, and its times in us."""
    found = []
    for repeat in range(repeats):
        for name, submission in SUBMISSIONS.items():
            order = [("old", old), ("new", ROOT)]
            for harness, checkout in order if repeat % 2 == 0 else reversed(order):
                record = run(checkout, cases, submission, device)
                for result in record["results"]:
                    kept = {key: result.get(key) for key in ("rounds_us", "median_us", "single_us", "sm_clock_mhz")}
                    kept |= {key: result.get(key) for key in ("tolerance_us", "doubted_rounds")}
                    found.append({"harness": harness, "submission": name, "shape": shape_of(result), **kept})
                    print(f"  {repeat} {harness} {name} {shape_of(result)}: {result['median_us']:.2f} us", flush=True)
    return found


def rows_of(found: list[dict[str, Any]]) -> tuple[list[list[str]], bool]:
    """A row for each submission and shape, and whether every interval touches the allowed range."""
    rows, within = [], True
    for name in SUBMISSIONS:
        for shape in dict.fromkeys(one["shape"] for one in found):
            runs = {
                harness: [
                    one for one in found if (one["harness"], one["submission"], one["shape"]) == (harness, name, shape)
                ]
                for harness in ("old", "new")
            }
            times = {harness: [one["median_us"] for one in ones] for harness, ones in runs.items()}
            singles = {
                harness: median(us for one in ones for us in one["single_us"]) if ones[0]["single_us"] else None
                for harness, ones in runs.items()
            }
            ratio = ratio_interval(times["new"], times["old"])
            within &= ratio.low <= 1 + ALLOWED and ratio.high >= 1 - ALLOWED
            last = runs["new"][-1]
            rows.append(
                [
                    f"{name} {shape}",
                    *(f"{median(times[harness]):.2f}" for harness in ("old", "new")),
                    f"{ratio.ratio:.4f}",
                    f"{ratio.low:.4f} to {ratio.high:.4f}",
                    " / ".join("n/a" if us is None else f"{us:.1f}" for us in singles.values()),
                    "n/a" if last["tolerance_us"] is None else f"{last['tolerance_us']:.2f}",
                    f"{sum(one['doubted_rounds'] or 0 for one in runs['new'])}",
                ]
            )
    return rows, within


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--shapes", type=int, default=2, help="how many of the benchmark's")
    parser.add_argument("--cases", type=Path, default=ROOT / DEFAULT.cases / "benchmark.txt")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.txt"
        cases.write_text("\n".join(options.cases.read_text().splitlines()[: options.shapes]) + "\n")
        try:
            found = measure(options.old.resolve(), cases, options.repeats, options.device)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error)
            return 1
    rows, within = rows_of(found)
    header = ["", "old, us", "new, us", "new / old", "95 % interval", "single calls, us", "tolerance, us", "doubted"]
    print_table("the same submissions under two harnesses", header, rows)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
