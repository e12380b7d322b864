"""Times the first import of a bundle, which compiles it, and a later one; each in a fresh process.

usage: python -m scripts.bench.first_import [--repeats 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from eval.hardware import chip
from eval.output.report import print_table
from scripts.common.options import output_file, positive
from scripts.release.bundle import has_compiler, make_bundle
from scripts.release.bundle_targets import TARGETS

LIMIT_S = 300.0


def timed_import(bundle: Path, cache: Path) -> dict[str, float]:
    """Seconds of one import: wall time, and processor time over all processors."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begin, before = time.monotonic(), spent()
    environment = {**os.environ, "NVFP4_CACHE": str(cache)}
    command = [sys.executable, "-c", "import submission"]
    subprocess.run(command, cwd=bundle.parent, env=environment, check=True, timeout=LIMIT_S, capture_output=True)
    return {"wall_s": time.monotonic() - begin, "cpu_s": spent() - before}


def measure(target: str, repeats: int) -> dict[str, dict[str, float]]:
    """Medians of a target's first imports, each with an empty cache, and of the imports after them."""
    text = make_bundle(target).text
    taken: dict[str, list[dict[str, float]]] = {"first": [], "later": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "submission.py"
            bundle.write_text(text, encoding="utf-8")
            for when in taken:
                taken[when].append(timed_import(bundle, Path(folder) / "cache"))
    return {
        when: {what: median(one[what] for one in found) for what in ("wall_s", "cpu_s")}
        for when, found in taken.items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Prints a row a target whose compilers are here; --json FILE keeps them."""
    parser = argparse.ArgumentParser(prog="./nvfp4 bench first_import", description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--json", type=output_file, metavar="FILE")
    options = parser.parse_args(arguments)
    found = {target: measure(target, options.repeats) for target in TARGETS if has_compiler(target)}
    processor = chip.name(torch.device("cpu"))
    rows = [
        [target, *(f"{figures[when][what]:.1f}" for when in ("first", "later") for what in ("wall_s", "cpu_s"))]
        for target, figures in found.items()
    ]
    header = ["target", "first import, s", "of processors", "a later one, s", "of processors"]
    print_table(f"{processor}: medians of {options.repeats}", header, rows)
    if options.json:
        origin = {"processor": processor, "torch": torch.__version__, "repeats": options.repeats}
        options.json.write_text(json.dumps({**origin, "targets": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
