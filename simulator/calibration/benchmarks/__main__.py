"""Runs the microbenchmarks on the first GPU and writes their values.

    make micro                                                  # build/micro.json and a table
    python -m simulator.calibration.benchmarks --keep h200_micro    # as the data set in data/ too
    python -m simulator.calibration.benchmarks --json FILE alu tensor

Groups: alu, shared_memory, tensor, synchronisation, copies, copy_rates, clusters, launches, overlap, traffic; all
without a name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from simulator.calibration import packed
from simulator.calibration.rows import ROOT
from simulator.python.toolchain import BUILD

PROGRAM = BUILD / "micro"
COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
FOLDER = re.compile(rb'(#include ")[^"\n]*/')  # headers may move without changing the program
COLUMNS = {
    "name": "what is measured",
    "parameters": "name=value;...",
    "value": "median of 9 launches of one process",
    "unit": "of value",
}
SECONDS = 180  # the program ends itself sooner


def device() -> dict[str, str]:
    """Name, driver and clocks of the first GPU, from nvidia-smi."""
    keys = {"chip": "name", "driver": "driver_version", "max_sm_clock": "clocks.max.sm", "memory_clock": "clocks.mem"}
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(keys.values())}", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(zip(keys, (field.strip() for field in answer.strip().split(",")), strict=True))


def sources_digest() -> str:
    """SHA-256 of the program's sources in order of their names, without comments, spacing and headers' folders."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.cu*"), key=lambda path: path.name):
        text = FOLDER.sub(rb"\1", COMMENT.sub(b"", path.read_bytes()))
        digest.update(path.name.encode() + b"\0" + b"".join(text.split()))
    return digest.hexdigest()


def rows_of(output: str) -> list[dict[str, Any]]:
    """The program's output, a row for each line; ValueError for a line that is not JSON."""
    return [json.loads(line) for line in output.splitlines()]


def once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without repetitions: of equal names and parameters the first."""
    found = {json.dumps([row["name"], row["parameters"]]): row for row in reversed(rows)}
    return list(reversed(found.values()))


def keep(name: str, environment: dict[str, str], rows: list[dict[str, Any]]) -> Path:
    """Writes the data set `name`, with this checkout's commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    cells = [row | {"parameters": packed.parameters_text(row["parameters"])} for row in rows]
    return packed.write(name, {**environment, "commit": commit, "columns": COLUMNS}, cells)


def document(environment: dict[str, str], rows: list[dict[str, Any]]) -> str:
    """The JSON of a run: environment and digest of the sources, then a row a line."""
    head = json.dumps({**environment, "sources_sha256": sources_digest()})
    return head[:-1] + ',\n"rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n"


def main() -> int:
    """Runs the program, writes and prints its rows."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench micro", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--json", type=Path, default=BUILD / "micro.json", metavar="FILE")
    parser.add_argument("--keep", metavar="NAME", help="write the data set data/NAME too")
    options = parser.parse_args()
    if not PROGRAM.is_file():
        print("micro: build/micro is not built; run `make micro` where nvcc is", file=sys.stderr)
        return 2
    try:
        environment = device()
    except FileNotFoundError:
        print("micro: no CUDA device here: there is no nvidia-smi in PATH", file=sys.stderr)
        return 2
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"micro: no CUDA device: {error}", file=sys.stderr)
        return 2
    done = subprocess.run([str(PROGRAM), *options.groups], capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        print(f"micro: the program ended with {done.returncode}: {done.stderr.strip()[-500:]}", file=sys.stderr)
        return 1
    rows = rows_of(done.stdout)
    if options.keep:
        keep(options.keep, environment, once(rows))
    options.json.write_text(document(environment, once(rows)))
    for row in rows:
        named = ", ".join(f"{key} {value}" for key, value in row["parameters"].items())
        print(f"{row['name']:34} {row['value']:>12} {row['unit']}  {named}")
    print(f"{len(rows)} rows of an {environment['chip']}, driver {environment['driver']}: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
