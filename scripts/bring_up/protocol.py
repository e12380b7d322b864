"""Bring-up on a new chip: builds, checks, times and compares everything, and writes one JSON to send back.

    make bring-up                                    # on a B200 (blackwell), H200 (hopper), RTX 50 or GB10 (geforce)
    make bring-up BRING_UP_ARGS='--minutes 4'       # the most important steps, in four minutes
    make bring-up BRING_UP_ARGS='--dry blackwell'   # the same steps, small, on the simulator: no GPU, no times

Each step is a process with a time limit: a step that fails or hangs is reported, and the next one starts.  The report
is written after every step, so that a crash of the machine loses one step.  In this order: the machine, the library,
the checks of all four problems, their benchmarks beside cuBLAS and torch._scaled_mm, every tile, a model's products,
the leaderboard's procedure, compute-sanitizer.  Exit code 0: no step failed; 1: one did; 2: no CUDA device.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

from eval.output.report import progress
from reference.problems import DEFAULT, PROBLEMS
from scripts.bring_up.report import SCHEMA, against_cost_model, print_report, schema_problems, times_of
from scripts.bring_up.steps import FAILED, PASSED, SKIPPED, TIMED_OUT, Outcome, Session, Step
from scripts.common import tile_table
from scripts.common.gpu_backends import CHOICES, backend_of_major
from scripts.common.options import output_file
from scripts.common.toolchain import BUILD

ROOT = Path(__file__).resolve().parents[2]
FORMAT = "bring-up-2"
# What is timed beside the library's own choice.
PEERS = {
    "dual_gemm": "cublas_one_gemm,scaled_mm,scaled_one_gemm",
    "group_gemm": "cublas_groups,scaled_mm",
    "gemm": "cublas_product,scaled_mm",
    "gemv": "cublas_product,copy",
}
# Problems with tiles to choose from: the checks of each tile before it is timed, and the longer ones.
TILES = {
    "dual_gemm": (tile_table.names, "leaderboard,rings", "edges,full_benchmarks,nan_scales"),
    "group_gemm": (tile_table.grouped_names, "leaderboard,rings", "full"),
}
PLAIN_CHECKS = "leaderboard,back_to_back"
# A dry run's checks, shapes and cases.
DRY_CHECKS = {"dual_gemm": "rings,nan_scales", "group_gemm": "rings", "gemm": "rings", "gemv": "rings"}
DRY_SHAPES = {"dual_gemm": "128x128x512", "group_gemm": "40,72x128x128", "gemm": "128x128x128x1", "gemv": "128x256x1"}
DRY_CASES = {
    "dual_gemm": "m: 128; n: 128; k: 512; l: 1; seed: 1111\n",
    "group_gemm": "m: [40, 72]; n: [128, 128]; k: [128, 128]; g: 2; seed: 1111\n",
    "gemm": "m: 128; n: 128; k: 128; l: 1; seed: 1111\n",
    "gemv": "m: 128; k: 256; l: 1; seed: 1111\n",
}
# A model's products: names of programs of scripts/bench with the arguments that make them short.
OF_A_MODEL = {"experts": ("--tokens", "1", "64", "1024"), "quantize": (), "modules": ()}
SANITIZERS = ("memcheck", "racecheck", "synccheck")
SECONDS_A_SHAPE = "3"
STEPS_WITHOUT_FAULTS = 27
LIMITS = {  # seconds
    "environment": 60,
    "build": 600,
    "library": 60,
    "check": 300,
    "time": 120,
    "eval": 120,
    "model": 120,
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
            "configs": {},
            "steps": [],
            "checks": [],
            "times": [],
            "against_cost_model": [],
            "benchmarks": {},
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
        self.check()
        for problem, peers in PEERS.items():
            self.time("time", problem, "auto,auto+again", peers)
        good = {problem: self.check_configs(problem) for problem in TILES}
        for problem, names in good.items():
            self.time("tiles", problem, ",".join(["auto", *names]), "", skip="" if names else "no tile that is right")
        self.model()
        self.judge()  # minutes, on any card
        for problem, names in good.items():
            command, _ = self.check_command(problem)
            command = (*command, "--only", TILES[problem][2], "--configs", ",".join(names))
            skip = "needs a card" if self.dry else "" if names else "no tile that is right"
            self.collect_checks(self.step(f"check edges of {problem}", "check", *command, result=True, skip=skip))
        self.sanitize(good[DEFAULT.name])
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
        target = "simulator" if self.dry and self.backend != "cpu" else "build"
        self.step("build", "build", "make", f"-j{len(os.sched_getaffinity(0))}", target)
        path = self.folder / "library.json"
        settings = self.dry_environment() if self.dry else {}
        library = Step("library", (*script, "library", str(path)), LIMITS["library"], settings, path)
        self.report["library"] = self.session.run(library).result
        wanted = [name for name in self.options.configs.split(",") if name]
        for problem, (names, *_) in TILES.items():  # the program that knows them has just been built
            try:
                known = [] if self.backend == "cpu" else names(self.backend)
            except FileNotFoundError:  # or the build failed
                known = []
            self.report["configs"][problem] = [name for name in known if name in wanted or not wanted]

    def check(self) -> None:
        """Checks all problems' results against the reference and the float64 oracle."""
        for problem in PEERS:
            command, dry = self.check_command(problem)
            outcome = self.step(f"check {problem}", "check", *command, *dry, result=True)
            self.collect_checks(outcome)
            if outcome.outcome not in (PASSED, SKIPPED) and problem == DEFAULT.name:
                # Does the fault come from overlapping calls?
                variable = f"NVFP4_{self.backend.upper()}_DEPENDENT_LAUNCH"
                name, plain = f"check {problem} without dependent launch", dry or ("--only", PLAIN_CHECKS)
                self.collect_checks(self.step(name, "check", *command, *plain, result=True, **{variable: "0"}))

    def check_command(self, problem: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The program that checks a problem, and the checks that a dry run is restricted to."""
        command = (sys.executable, "-m", "scripts.bench.check_gpu", "--problem", problem)
        dry = ("--only", DRY_CHECKS[problem]) if self.dry else ()
        return (*command, "--device", "cpu" if self.dry else "cuda"), dry

    def check_configs(self, problem: str) -> list[str]:
        """Checks all tiles in one process, and if that fails each in its own; returns those without an error."""
        configs = self.report["configs"].get(problem, [])
        command, dry = self.check_command(problem)
        command = (*command, *(dry or ("--only", TILES[problem][1])), "--configs")
        skip = "" if configs else "no tiles here"
        name = f"check tiles of {problem}"
        together = self.step(name, "check", *command, ",".join(configs), result=True, skip=skip)
        self.collect_checks(together)
        if together.outcome in (PASSED, SKIPPED):
            return configs
        good = []
        for config in configs:
            outcome = self.step(f"check {config}", "check", *command, config, result=True)
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

    def time(self, kind: str, problem: str, variants: str, baselines: str, skip: str = "") -> None:
        """Times variants and baselines, interleaved, at the problem's benchmarks."""
        size = ("--device", "cpu", "--inputs", "2", "--repeats", "3", "--shapes", DRY_SHAPES[problem])
        size = size if self.dry else ("--seconds", SECONDS_A_SHAPE)
        baselines = baselines.split(",")[0] if self.dry else baselines
        name = f"{kind} {problem}"
        samples = self.folder / f"{kind}-{problem}.jsonl"
        samples.unlink(missing_ok=True)
        command = (sys.executable, "-m", "scripts.bench.compare", "--problem", problem, *size, "--variants", variants)
        command = (*command, "--baselines", baselines, "--samples", str(samples))
        outcome = self.step(name, "time", *command, result=True, skip=skip)
        self.report["times"] += times_of(name, problem, samples, (outcome.result or {}).get("left_out", {}))
        self.report["against_cost_model"] = against_cost_model(
            [entry for entry in self.report["times"] if entry["step"] == f"tiles {DEFAULT.name}"], self.backend
        )

    def judge(self) -> None:
        """Runs the leaderboard's procedure: each problem's benchmarks, and in a dry run a test."""
        for problem in PEERS:
            mode, path, device = "benchmark", ROOT / PROBLEMS[problem].cases / "benchmark.txt", ()
            if self.dry:  # a benchmark takes minutes on the simulator, and times nothing
                mode, path, device = "test", self.folder / f"{problem}.txt", ("--device", "cpu")
                path.write_text(DRY_CASES[problem])
            command = (sys.executable, "eval/eval.py", mode, str(path), "--problem", problem, *device)
            self.report["benchmarks"][problem] = self.step(f"eval {problem}", "eval", *command, result=True).result

    def model(self) -> None:
        """Times a model's products and the quantizer, beside torch in bf16."""
        skip = "needs a card" if self.dry else ""
        for name, options in OF_A_MODEL.items():
            self.step(name, "model", sys.executable, "-m", f"scripts.bench.{name}", *options, result=True, skip=skip)

    def sanitize(self, good: list[str]) -> None:
        """Runs compute-sanitizer, if installed, on every configuration with right results."""
        tool = (self.report["environment"] or {}).get("compute_sanitizer")
        skip = "needs a card" if self.dry else "" if tool else "no compute-sanitizer here"
        options = ("--error-exitcode", "1", "--kernel-name-exclude", "kernel_substring=at::")
        check = (sys.executable, "-m", "scripts.bench.check_gpu", "--only", "rings", "--configs", ",".join(good))
        for name in SANITIZERS:
            command = (tool or "compute-sanitizer", "--tool", name, *options, *check)
            self.step(f"sanitizer {name}", "sanitizer", *command, skip=skip)


def main(arguments: list[str]) -> int:
    """Runs the protocol; returns 0 if no step failed, 2 without a device."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bring_up", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=output_file, default=str(BUILD / "bring_up.json"), help="the report")
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
    named = {kind: [one.name for one in day.session.outcomes if one.outcome == kind] for kind in (FAILED, TIMED_OUT)}
    for kind, names in named.items():
        if names:
            print(f"{kind}: {', '.join(names)}")
    return 1 if named[FAILED] or problems else 0
