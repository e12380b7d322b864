"""SentryWard and the simulator on the same PTX: runs both on correct kernels and mutants of them.

    python3 -m venv VENV && VENV/bin/pip install sentryward
    ./nvfp4 validate sentryward VENV/bin/sentryward [learn-cuda=CHECKOUT]
    ./nvfp4 validate sentryward VENV/bin/sentryward --only "Blackwell grouped"

Rows go to simulator/results/data/sentryward.csv, and a page to SENTRYWARD.md; --only measures again those rows of the
Hopper and the Blackwell backend whose kernels' names begin so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

from scripts.common.ptxsim import VERDICTS
from scripts.common.toolchain import BUILD, nvcc
from simulator.validation import datasets
from simulator.validation.mutants.backends.blackwell_dual import Kernel as Blackwell
from simulator.validation.mutants.backends.blackwell_dual import entries as blackwell_entries
from simulator.validation.mutants.backends.blackwell_grouped import Kernel as Grouped
from simulator.validation.mutants.backends.blackwell_grouped import entries as grouped_entries
from simulator.validation.sentryward.sentryward_cases import (
    Case,
    blackwell,
    gemms,
    grouped,
    hopper,
    learn_cuda,
    pipelines,
)
from simulator.validation.sentryward.sentryward_page import summary
from simulator.validation.third_party.cuda.libraries import TRIALS, Trial, build, inputs_of, run
from simulator.validation.third_party.outcome import in_a_child

ROOT = Path(__file__).resolve().parents[3]
MODES = ("eager", "late", "random:1")
ORDER = ("clean", "review", "error", "incomplete")
TIME_LIMIT = 600


def sentryward(program: str, case: Case, folder: Path) -> dict:
    """Runs SentryWard on a case; returns its result, checks, first diagnostics and time."""
    (folder / "case.ptx").write_text(case.text)
    (folder / "input.json").write_text(json.dumps(case.input()))
    command = [program, str(folder / "case.ptx"), "--input", str(folder / "input.json"), "--timeout", str(TIME_LIMIT)]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    row = {"their_seconds": round(time.monotonic() - begin, 2)}
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return row | {"result": "no report", "said": [in_a_cell((done.stderr or done.stdout).strip()[-300:])]}
    said = []
    for each in report.get("diagnostics", []):
        line = each.get("details", {}).get("ptx_line")
        text = f"{each.get('code')}: {each.get('message', '')}" + (f" (line {line})" if line else "")
        said.append(in_a_cell(text[:300]))
    checks = [f"{check} {result}" for check, result in report.get("checks", {}).items()]
    return row | {"result": report["result"], "checks": checks, "said": list(dict.fromkeys(said))[:3]}


def in_a_cell(text: str) -> str:
    """One of several texts of a cell."""
    return text.replace(datasets.BETWEEN, ",")


def worst(reports: list[dict], seconds: float) -> dict:
    """One verdict of several runs."""
    verdict = max((report["verdict"] for report in reports), key=ORDER.index)
    kinds = sorted({f"{f['verdict']} {f['kind']}" for report in reports for f in report["findings"]})
    in_modes = [f"{mode} {report['verdict']}" for mode, report in zip(MODES, reports, strict=True)]
    return {"verdict": verdict, "kinds": kinds, "modes": in_modes, "seconds": round(seconds, 2)}


def simulate(case: Case, folder: Path) -> dict:
    """The simulator's verdict on a case with buffers."""
    (folder / "case.ptx").write_text(case.text)
    begin, reports = time.monotonic(), []
    for mode in MODES:
        command = [BUILD / "ptxsim", folder / "case.ptx", case.entry, "--grid", str(case.grid), "--cluster"]
        command += [str(case.cluster), "--block", str(case.block), "--mode", mode, "--json", "--", *case.buffers]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reports.append(json.loads(done.stdout))
    return worst(reports, time.monotonic() - begin)


def simulate_third_party(case: Case, library: Path, trial: Trial, folder: Path) -> dict:
    """Runs the simulator on another project's kernel, launched by its own host code."""
    (folder / "case.ptx").write_text(case.text)
    begin, reports = time.monotonic(), []
    trial = replace(trial, shape=tuple(case.shape or trial.shape))
    data, text = inputs_of(trial), str(folder / "case.ptx")
    for mode in MODES:
        reports.append(in_a_child(lambda mode=mode: run(library, trial, data, mode, NVFP4_SIMULATE_PTX=text)))
    return worst(reports, time.monotonic() - begin)


def simulate_blackwell(case: Case) -> dict:
    """Runs the simulator on the Blackwell backend's kernels, launched as in their test."""
    begin, reports = time.monotonic(), []
    for mode in MODES:
        program = Grouped if case.simulated else Blackwell
        kernel = program(case.config, case.simulated or case.text, mode.split(":")[0])
        kernel.run()
        findings = [{"verdict": VERDICTS[found["verdict"]], "kind": found["kind"]} for found in kernel.findings]
        reports.append({"verdict": kernel.verdict, "findings": findings})
    return worst(reports, time.monotonic() - begin)


def ptx_of(source: str, folder: Path, arch: str, *flags: str) -> str:
    gencode = f"-gencode=arch=compute_{arch},code=compute_{arch}"
    command = [nvcc(), "-std=c++17", "-O3", "-w", gencode, *flags, "-ptx", "-o", str(folder / "out.ptx"), source]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "out.ptx").read_text()


def measure_backends(program: str, named: str) -> list[dict]:
    """The GPU backends' cases whose kernels' names begin with `named`."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        texts = hopper(ptx_of(str(ROOT / "submission/hopper/hopper_kernels.cu"), folder, "90a"))
        for case in chain(texts, blackwell(blackwell_entries()), grouped(grouped_entries())):
            if not case.kernel.startswith(named):
                continue
            ours = simulate_blackwell(case) if case.scope else {"verdict": "clean", "kinds": [], "by": case.by}
            theirs = sentryward(program, case, folder)
            rows.append({"kernel": case.kernel, "mutant": case.mutant, "scope": case.scope} | ours | theirs)
            print(case.kernel, ours["verdict"], theirs["result"], theirs["seconds"], flush=True)
    return rows


def with_rows(old: list[dict], new: list[dict]) -> list[dict]:
    """New rows replace those of the same kernel, or follow the last kernel that begins with the same word."""
    rows = list(old)
    for kernel in dict.fromkeys(row["kernel"] for row in new):
        places = [i for i, row in enumerate(rows) if row["kernel"] == kernel]
        near = [i for i, row in enumerate(rows) if row["kernel"].split()[0] == kernel.split()[0]]
        place = places[0] if places else near[-1] + 1
        rows = [row for row in rows if row["kernel"] != kernel]
        rows[place:place] = [row for row in new if row["kernel"] == kernel]
    return rows


def measure(program: str, checkout: Path | None) -> list[dict]:
    """Every case."""
    rows = []

    def add(case: Case, ours: dict) -> None:
        theirs = sentryward(program, case, folder)
        rows.append({"kernel": case.kernel, "mutant": case.mutant} | ours | theirs)
        print(case.kernel, case.mutant, ours.get("verdict"), theirs["result"], flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for case in (*pipelines(), *gemms()):
            add(case, simulate(case, folder))
        rows += measure_backends(program, "")
        for version in (1, 2, 3, 4) if checkout else ():
            names = [t.file for t in TRIALS]
            index = len(names) - 1 - names[::-1].index(f"02e_matmul_sm100/matmul_v{version}.cu")
            trial = TRIALS[index]
            library = build(trial, checkout, folder, "as it is")
            flags = ("-I", str(folder / "wrapped" / trial.label), "--expt-relaxed-constexpr")
            text = ptx_of(str(checkout / trial.file), folder, "100a", *flags)
            for case in learn_cuda({version: text}):
                add(case, simulate_third_party(case, library, trial, folder))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="./nvfp4 validate sentryward", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", help="the sentryward command")
    parser.add_argument("checkout", nargs="?", help="learn-cuda=PATH")
    parser.add_argument("--only", metavar="NAME", help="kernels of the GPU backends whose names begin so")
    options = parser.parse_args()
    checkout = Path(options.checkout.split("=", 1)[1]).resolve() if options.checkout else None
    python = Path(options.program).parent / "python"
    show = "import importlib.metadata; print(importlib.metadata.version('sentryward'))"
    version = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
    if options.only:
        rows = with_rows(datasets.read("sentryward"), measure_backends(options.program, options.only))
    else:
        rows = measure(options.program, checkout)
    datasets.write("sentryward", [row | {"version": version} for row in rows])
    (datasets.RESULTS / "SENTRYWARD.md").write_text(summary(datasets.read("sentryward")))


if __name__ == "__main__":
    main()
