"""Bring-up on a new chip: builds, checks, times and compares everything, and writes one JSON to send back.

    make bring-up                                    # on a B200 (blackwell), H200 (hopper), RTX 50 or GB10 (geforce)
    make bring-up BRING_UP_ARGS='--minutes 4'       # the most important steps, in four minutes
    make bring-up BRING_UP_ARGS='--dry blackwell'   # the same steps, small, on the simulator: no GPU, no times

Each step is a process with a time limit: a step that fails or hangs is reported, and the next one starts.  The report
is written after every step, so that a crash of the machine loses one step.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

from eval.cases import read_cases
from eval.output.report import print_table, progress
from eval.stats import relative_spread
from reference.problems import DEFAULT
from scripts.bring_up.steps import PASSED, SKIPPED, Outcome, Session, Step
from scripts.common import tile_table
from scripts.common.gpu_backends import CHOICES, backend_of_major
from scripts.common.toolchain import BUILD

ROOT = Path(__file__).resolve().parents[2]
FORMAT = "bring-up-1"
SCHEMA = ROOT / "shark_tank" / "bring_up.schema.json"
COST_MODEL = ROOT / "simulator" / "calibration" / "data" / "blackwell_calls.json"
CONFIG_CHECKS = "leaderboard,edges,full_benchmarks,nan_scales"
PLAIN_CHECKS = "leaderboard,back_to_back"
DRY_CHECKS = "rings,nan_scales"
DRY_SHAPES = ("128x128x512",)
DRY_CASE = "m: 128; n: 128; k: 512; l: 1; seed: 1111\n"
SANITIZERS = ("memcheck", "racecheck", "synccheck")
BASELINES = "cublas_one_gemm,cublas_two_gemms,triton,scaled_mm,scaled_one_gemm"
STEPS_WITHOUT_FAULTS = 14
LIMITS = {  # seconds
    "environment": 60,
    "build": 600,
    "library": 60,
    "check": 300,
    "time": 120,
    "eval": 240,
    "sanitizer": 300,
}


class NoDevice(Exception):
    """Nothing can be measured here."""


class Day:
    """One run of the protocol: its steps, and the report that they fill."""

    def __init__(self, options: argparse.Namespace, announce: Any) -> None:
        self.options = options
        self.dry = options.dry is not None
        self.folder = options.folder.resolve()
        self.backend = options.dry or "blackwell"  # until the environment names the device
        self.report: dict[str, Any] = {
            "format": FORMAT,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "mode": "dry" if self.dry else "device",
            "backend": self.backend,
            "environment": None,
            "library": None,
            "configs": [],
            "steps": [],
            "checks": [],
            "times": [],
            "against_cost_model": [],
            "benchmark": None,
        }
        self.session = Session(self.folder, options.minutes * 60, self.save, announce)

    # --- the report ---------------------------------------------------------------------------------------
    def save(self) -> None:
        """Writes the report so far in one go: an interrupted write keeps the one before."""
        self.report["steps"] = self.session.as_json()
        scratch = self.options.json.with_suffix(".part")
        scratch.write_text(json.dumps(self.report, indent=1) + "\n")
        scratch.replace(self.options.json)

    def step(
        self, name: str, kind: str, *command: str, skip: str = "", result: bool = False, **environment: str
    ) -> Outcome:
        """Runs one step; with `result` its command gets `--json FILE`."""
        path = self.folder / f"{name.replace(' ', '-')}.json" if result else None
        words = (*command, "--json", str(path)) if path else command
        if {name, name.split()[0]} & set(self.options.skip):
            skip = "left out by --skip"
        if self.dry:
            environment |= self.dry_environment()
        return self.session.run(Step(name, words, LIMITS[kind], environment, path, skip))

    def dry_environment(self) -> dict[str, str]:
        """Settings that run a GPU's backend on the simulator, or the CPU backend."""
        simulated = {"NVFP4_SIMULATE": "1", "NVFP4_SIMULATE_CHECKS": "0"} if self.backend != "cpu" else {}
        return simulated | {"NVFP4_BACKEND": self.backend}

    # --- the steps ----------------------------------------------------------------------------------------
    def run(self) -> None:
        """Runs all steps, the most important first."""
        self.prepare()
        good = self.check()
        self.time(good)
        self.judge()
        self.sanitize(good)
        self.report["finished"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.save()

    def prepare(self) -> None:
        """Reports the machine, builds the library and reports it.  Raises NoDevice where torch sees no GPU."""
        script = (sys.executable, "-m", "scripts.bring_up.environment")
        path = self.folder / "environment.json"
        command = (*script, "machine", str(path), *(["--without-device"] if self.dry else []))
        environment = Step("environment", command, LIMITS["environment"], {}, path)
        self.report["environment"] = found = self.session.run(environment).result
        if found and not found["device"] and not self.dry:
            raise NoDevice("torch sees no CUDA device; `--dry blackwell` rehearses the steps on the simulator")
        if found and found["device"] and not self.dry:
            self.backend = backend_of_major(found["device"]["capability"][0]) or self.backend
        self.report["backend"] = self.backend
        known = [] if self.backend == "cpu" else tile_table.names(self.backend)
        wanted = [name for name in self.options.configs.split(",") if name]
        self.report["configs"] = [name for name in known if name in wanted or not wanted]
        target = "simulator" if self.dry and self.backend != "cpu" else "build"
        self.step("build", "build", "make", f"-j{len(os.sched_getaffinity(0))}", target)
        path = self.folder / "library.json"
        settings = self.dry_environment() if self.dry else {}
        library = Step("library", (*script, "library", str(path)), LIMITS["library"], settings, path)
        self.report["library"] = self.session.run(library).result

    def check(self) -> list[str]:
        """Checks results against the reference and the float64 oracle; returns the configurations without an error."""
        device = ("--device", "cpu" if self.dry else "cuda")
        command = (sys.executable, "-m", "scripts.bench.check_gpu", *device)
        only = ("--only", DRY_CHECKS) if self.dry else ()
        everything = self.step("check auto", "check", *command, *only, result=True)
        self.collect_checks(everything)
        if everything.outcome not in (PASSED, SKIPPED):
            # Does the fault come from overlapping calls?
            variable = f"NVFP4_{self.backend.upper()}_DEPENDENT_LAUNCH"
            only = ("--only", DRY_CHECKS if self.dry else PLAIN_CHECKS)
            name = "check auto without dependent launch"
            self.collect_checks(self.step(name, "check", *command, *only, result=True, **{variable: "0"}))
        return self.check_configs([*command, "--only", DRY_CHECKS if self.dry else CONFIG_CHECKS])

    def check_configs(self, command: list[str]) -> list[str]:
        """Checks all in one process, and if that fails each in its own, to find the faulty one."""
        configs = self.report["configs"]
        if not configs:
            return []
        together = self.step(
            "check every configuration", "check", *command, "--configs", ",".join(configs), result=True
        )
        self.collect_checks(together)
        if together.outcome in (PASSED, SKIPPED):
            return configs
        good = []
        for config in configs:
            outcome = self.step(f"check {config}", "check", *command, "--configs", config, result=True)
            self.collect_checks(outcome)
            if outcome.outcome in (PASSED, SKIPPED):
                good.append(config)
        return good

    def collect_checks(self, outcome: Outcome) -> None:
        """Adds a step's checks to the report: how many passed, and which failed."""
        if outcome.outcome == SKIPPED:
            return
        checks = (outcome.result or {}).get("checks", [])
        self.report["checks"].append(
            {
                "step": outcome.name,
                "outcome": outcome.outcome,
                "passed": sum(check["passed"] for check in checks),
                "failures": [f"{check['check']}: {failure}" for check in checks for failure in check["failures"]],
            }
        )

    def time(self, good: list[str]) -> None:
        """Times every configuration and the baselines, interleaved, a step a shape; compares with the predictions."""
        shapes = DRY_SHAPES if self.dry else [shape_key(case.shape) for case in read_cases(benchmark_cases())]
        size = ("--device", "cpu", "--inputs", "2", "--repeats", "3") if self.dry else ("--seconds", "20")
        variants = ",".join(["auto", "auto+again", *([] if self.backend == "cpu" else ["auto+plain"]), *good])
        baselines = "cublas_one_gemm" if self.dry else BASELINES
        for shape in shapes:
            samples = self.folder / f"samples-{shape}.jsonl"
            samples.unlink(missing_ok=True)
            command = (
                sys.executable,
                "-m",
                "scripts.bench.compare",
                *size,
                "--variants",
                variants,
                "--baselines",
                baselines,
            )
            what = ("--shapes", shape, "--samples", str(samples))
            outcome = self.step(f"time {shape}", "time", *command, *what, result=True)
            self.collect_times(shape, samples, (outcome.result or {}).get("left_out", {}))
        self.report["against_cost_model"] = against_cost_model(self.report["times"], self.backend)

    def collect_times(self, shape: str, samples: Path, left_out: dict[str, str]) -> None:
        """Adds a shape's samples by variant, and the variants without samples, to the report."""
        found: dict[str, list[float]] = {}
        for line in samples.read_text().splitlines() if samples.is_file() else []:
            sample = json.loads(line)
            found.setdefault(sample["variant"], []).append(round(sample["us"], 3))
        for variant in sorted(found):
            us = found[variant]
            spread = relative_spread(us) if len(us) > 1 else 0.0
            entry = {"shape": shape, "variant": variant, "median_us": round(median(us), 3), "spread": round(spread, 5)}
            self.report["times"].append(entry | {"samples_us": us, "left_out": ""})
        for variant, reason in left_out.items():
            entry = {"shape": shape, "variant": variant, "median_us": None, "spread": None}
            self.report["times"].append(entry | {"samples_us": [], "left_out": reason})

    def judge(self) -> None:
        """Runs the leaderboard's procedure: the ten tests, and the benchmarks with single-call times."""
        cases = {name: ROOT / DEFAULT.cases / f"{name}.txt" for name in ("test", "benchmark")}
        device: tuple[str, ...] = ()
        if self.dry:
            cases = dict.fromkeys(cases, self.folder / "dry_cases.txt")
            cases["test"].write_text(DRY_CASE)
            device = ("--device", "cpu")
        for name, path in cases.items():
            if self.dry and name == "benchmark" and self.backend != "cpu":
                continue  # takes minutes on the simulator, and times nothing
            command = (sys.executable, "eval/eval.py", name, str(path), *device)
            outcome = self.step(f"eval {name}", "eval", *command, result=True)
            if name == "benchmark":
                self.report["benchmark"] = outcome.result

    def sanitize(self, good: list[str]) -> None:
        """Runs compute-sanitizer, if installed, on every configuration with right results."""
        tool = (self.report["environment"] or {}).get("compute_sanitizer")
        skip = "not on a simulator" if self.dry else "" if tool else "no compute-sanitizer here"
        options = ("--error-exitcode", "1", "--kernel-name-exclude", "kernel_substring=at::")
        check = (sys.executable, "-m", "scripts.bench.check_gpu", "--only", "rings", "--configs", ",".join(good))
        for name in SANITIZERS:
            command = (tool or "compute-sanitizer", "--tool", name, *options, *check)
            self.step(f"sanitizer {name}", "sanitizer", *command, skip=skip)


def benchmark_cases() -> Path:
    return ROOT / DEFAULT.cases / "benchmark.txt"


def shape_key(shape: tuple[int, ...]) -> str:
    """M, N and K as compare.py writes them."""
    return "x".join(map(str, shape[:3]))


def against_cost_model(times: list[dict[str, Any]], backend: str) -> list[dict[str, Any]]:
    """Compares the library's choice and every tile with its predicted interval, at each predicted shape."""
    try:
        predicted = json.loads(COST_MODEL.read_text())["predictions"].get(backend, {})
    except (OSError, ValueError, KeyError):
        return []
    rows = []
    for entry in times:
        found = predicted.get(entry["shape"], {})
        tiles = {"auto": found["us"]} | found.get("tiles_us", {}) if found else {}
        if entry["median_us"] and entry["variant"] in tiles:
            us, expected = entry["median_us"], tiles[entry["variant"]]
            low, high = (round(expected * found[end] / found["us"], 3) for end in ("low_us", "high_us"))
            rows.append(
                {
                    "shape": entry["shape"],
                    "variant": entry["variant"],
                    "measured_us": us,
                    "predicted_us": expected,
                    "low_us": low,
                    "high_us": high,
                    "inside": low <= us <= high,
                    "measured_over_predicted": round(us / expected, 4),
                }
            )
    return rows


def schema_problems(report: dict[str, Any]) -> list[str] | None:
    """Violations of the report's schema; None without jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return None
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(report)]


def print_report(report: dict[str, Any]) -> None:
    """Prints a summary for a person."""
    rows = []
    for step in report["steps"]:
        said = step["log_tail"].strip().splitlines()[-1:] if step["outcome"] != PASSED else []
        rows.append([step["name"], step["outcome"], f"{step['seconds']:.1f}", *(line[:60] for line in said or [""])])
    print_table(f"bring-up, {report['backend']} backend, {report['mode']}", ["step", "outcome", "s", "last line"], rows)
    shapes = list(dict.fromkeys(entry["shape"] for entry in report["times"]))
    medians = {(entry["variant"], entry["shape"]): entry["median_us"] for entry in report["times"]}
    rows = [
        [variant, *(f"{us:.2f}" if (us := medians.get((variant, shape))) else "-" for shape in shapes)]
        for variant in dict.fromkeys(entry["variant"] for entry in report["times"])
    ]
    if rows:
        title = "us a call, medians of interleaved rounds" + (" (dry run: without meaning)" * (report["mode"] == "dry"))
        print_table(title, ["variant", *shapes], rows)
    rows = [
        [
            row["shape"],
            row["variant"],
            f"{row['measured_us']:.2f}",
            f"{row['predicted_us']:.2f}",
            f"{row['low_us']:.2f} to {row['high_us']:.2f}",
            "inside" if row["inside"] else "outside",
        ]
        for row in report["against_cost_model"]
    ]
    if rows:
        print_table("against the clock", ["M N K", "tile", "measured us", "predicted us", "interval", ""], rows)
    for check in report["checks"]:
        for failure in check["failures"][:5]:
            print(f"FAIL {check['step']}: {failure}")


def main(arguments: list[str]) -> int:
    """Runs the protocol; returns 0 if every step that ran passed, 2 without a device."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.bring_up", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=BUILD / "bring_up.json", help="the report")
    parser.add_argument("--folder", type=Path, default=BUILD / "bring_up", help="for the steps' logs")
    parser.add_argument(
        "--minutes", type=float, default=45.0, help="for all steps; a step that does not fit is skipped"
    )
    parser.add_argument("--configs", default="", help="comma-separated; default: all of the backend")
    parser.add_argument(
        "--skip", default="", help="steps to leave out, by name or first word, comma-separated: build,eval test"
    )
    parser.add_argument("--dry", choices=CHOICES, help="try the protocol without a GPU")
    options = parser.parse_args(arguments)
    options.skip = options.skip.split(",")
    options.json = options.json.resolve()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for variable in [name for name in os.environ if name.startswith("NVFP4_") and name != "NVFP4_LIBRARY"]:
        del os.environ[variable]  # the report is about the library's own choices
    day = Day(options, progress("bring-up", STEPS_WITHOUT_FAULTS))
    try:
        day.run()
    except NoDevice as error:
        print(f"bring-up: {error}", file=sys.stderr)
        return 2
    print_report(day.report)
    problems = schema_problems(day.report)
    for problem in problems or []:
        print(f"the report breaks {SCHEMA.relative_to(ROOT)}: {problem}", file=sys.stderr)
    if problems is None:
        print("jsonschema is not installed: the report's form was not checked")
    print(f"{options.json}: a rehearsal, nothing to send back" if options.dry else f"send back {options.json}")
    bad = [outcome for outcome in day.session.outcomes if outcome.outcome not in (PASSED, SKIPPED)]
    return 1 if bad or problems else 0
