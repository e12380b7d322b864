"""Records what an H200 gives, packs it into the tests' fixtures, and compares all of it with the simulator.

./nvfp4 validate h200.record_calls card FOLDER      on the card: runs build/features_h200 and the Hopper backend
./nvfp4 validate h200.record_calls pack FOLDER      makes recorded.csv.xz and recorded.npz.xz of simulator/tests
./nvfp4 validate h200.record_calls compare FOLDER   here: every case, the large ones too, and every word of each feature

`card` builds nothing, ends within two minutes whatever the card does, and exits with 1 where something did not run.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import lzma
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simulator.python.toolchain import BUILD
from simulator.validation.h200.hopper_cases import COMMITTED_SAMPLE, cases, sample, simulate, ulps
from simulator.validation.h200.recordings import save_arrays, save_record

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "simulator/tests/package/h200"
OUT_WORDS = 16384  # output of a feature (features.cuh)
APPROXIMATE = "approximate."  # features whose words are compared within a bound
APPROXIMATE_WORDS = 4096
REFUSED = tuple(f"tma.store.2d.{swizzle}.before" for swizzle in ("none", "32B", "64B", "128B"))
FEATURE_SECONDS, HOPPER_SECONDS = 40, 70  # limits for all features, for all calls
SECONDS_TO_DIE = 5
RESTARTS = 8  # after features or cases that failed
MESSAGE_KEPT = 500
SHOWN = 5
SOURCES = (
    "simulator/tests/package/h200/features/*.cu*",
    "submission/core/*.h",
    "submission/gpu/**/*.*",
    "submission/hopper/**/*.*",
)


def sources_digest() -> str:
    """A digest of all sources of what runs on the card."""
    files = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def said_by(*command: str) -> str:
    """A program's first line of output; empty where it cannot run."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return ""


def supervise(
    seconds: float, command: Callable[[int], list[str]], name: Callable[[int, str], str]
) -> tuple[list[str], dict[str, str]]:
    """Runs command(first), which prints a line for each item that it finishes; after a failure, again from the next.

    Returns the lines, and the messages of failed items by name(number, messages).  A program that waits for a card may
    resist being killed, and is left alone.
    """
    deadline, number, lines, failed = time.monotonic() + seconds, 0, [], {}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as messages:
        while len(failed) <= RESTARTS and time.monotonic() < deadline:
            for file in (out, messages):
                file.truncate(0)
                file.seek(0)
            run = subprocess.Popen(command(number), stdout=out, stderr=messages, cwd=ROOT)
            try:
                run.wait(max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                run.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(SECONDS_TO_DIE)
            for file in (out, messages):
                file.seek(0)
            done, said = out.read().splitlines(), messages.read().strip()
            lines += done
            if run.returncode == 0:
                return lines, failed
            number += len(done)
            failed[name(number, said)] = f"exit {run.returncode}: {said[-MESSAGE_KEPT:]}"
            number += 1
    failed["the rest"] = "not run: too many failures, or no time left"
    return lines, failed


def record_features(folder: Path) -> tuple[dict[str, list], dict[str, str], bytes]:
    """Name -> [hash, words used]; failures; the words of all features."""
    parts: list[Path] = []

    def command(number: int) -> list[str]:
        parts.append(folder / f"words{number}")
        return [str(BUILD / "features_h200"), "--from", str(number), "--words", str(parts[-1])]

    def name(number: int, said: str) -> str:
        return said.splitlines()[-1].partition(":")[0] if said else f"number {number}"

    lines, failed = supervise(FEATURE_SECONDS, command, name)
    found = {name: [digest, int(words)] for name, digest, words in map(str.split, lines)}
    return found, failed, b"".join(part.read_bytes() for part in parts if part.is_file())


def refusals() -> tuple[dict[str, str], dict[str, str]]:
    """The card's messages for features that it must refuse; and the features that it did not refuse."""
    said, taken = {}, {}
    for name in REFUSED:
        done = subprocess.run([BUILD / "features_h200", name], capture_output=True, text=True, check=False)
        (said if done.returncode else taken)[name] = done.stderr.strip() or "was not refused"
    return said, taken


def record_hopper(folder: Path) -> tuple[dict[str, dict[str, str]], dict[str, str], dict[str, np.ndarray]]:
    """Name -> digests of inputs and output; failures; samples of the outputs."""
    names = [case.name for case in cases()]
    program = [sys.executable, "-m", "simulator.validation.h200.hopper_cases", str(folder)]
    _, failed = supervise(
        HOPPER_SECONDS, lambda number: [*program, *names[number:]], lambda number, _: (*names, "the end")[number]
    )
    digests, samples = {}, {}
    for name in names:
        path = folder / f"{name}.npz"
        if path.is_file():
            got = np.load(path)
            digests[name] = {"inputs": str(got["inputs"]), "output": str(got["output"])}
            samples[name] = got["sample"]
    return digests, failed, samples


def card(out: Path) -> int:
    """Runs everything on the card and writes the folder."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        features, failed, words = record_features(Path(folder))
        refused, taken = refusals()
        calls, calls_failed, samples = record_hopper(Path(folder))
    record = {
        "chip": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "driver": said_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "versions": {"numpy": np.__version__, "torch": torch.__version__, "cuda": torch.version.cuda},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": said_by("git", "describe", "--always", "--dirty"),
        "sources": sources_digest(),
        "features": features,
        "hopper": calls,
        "refused": refused,
        "failed": failed | taken | calls_failed,
    }
    (out / "record.json").write_text(json.dumps(record, indent=1))
    (out / "words.xz").write_bytes(lzma.compress(words, preset=2))
    np.savez_compressed(out / "samples.npz", **samples)
    for name, said in record["failed"].items():
        print(f"FAILED {name}: {said}")
    print(f"{record['chip']}, driver {record['driver']}, sources {record['sources'][:12]}")
    print(f"| features | {len(features)} ran | {len(failed)} failed |")
    print(f"| calls of the Hopper backend | {len(calls)} of {len(cases())} ran | {len(calls_failed)} failed |")
    return 1 if record["failed"] else 0


def read(out: Path) -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The record, samples of the outputs, and the words of each feature."""
    record = json.loads((out / "record.json").read_text())
    words = np.frombuffer(lzma.decompress((out / "words.xz").read_bytes()), np.uint32).reshape(-1, OUT_WORDS)
    return record, dict(np.load(out / "samples.npz")), dict(zip(record["features"], words, strict=True))


def pack(out: Path) -> int:
    """Writes the tests' fixtures."""
    record, samples, words = read(out)
    if record["failed"]:
        print(f"failed on the card: {', '.join(record['failed'])}", file=sys.stderr)
        return 1
    save_record(FIXTURES / "recorded.csv.xz", {key: value for key, value in record.items() if key != "failed"})
    arrays = {name: sample(output, COMMITTED_SAMPLE) for name, output in samples.items()}
    arrays |= {name: row[:APPROXIMATE_WORDS] for name, row in words.items() if name.startswith(APPROXIMATE)}
    save_arrays(FIXTURES / "recorded.npz.xz", arrays)
    return 0


def simulated_words() -> dict[str, np.ndarray]:
    """The words of each feature on the simulator."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words"
        done = subprocess.run([BUILD / "features_sim", "--words", path], capture_output=True, text=True, check=True)
        words = np.fromfile(path, np.uint32).reshape(-1, OUT_WORDS)
    return dict(zip((line.split()[0] for line in done.stdout.splitlines()), words, strict=True))


def compare_features(words: dict[str, np.ndarray], mine: dict[str, np.ndarray]) -> list[str]:
    """Prints the differing words; returns the table's rows, one for each first part of the names."""
    groups: dict[str, list[bool]] = {}
    for name in sorted(words.keys() | mine.keys()):
        equal = name in words and name in mine and np.array_equal(words[name], mine[name])
        groups.setdefault(name.split(".")[0], []).append(equal)
        if name not in words or name not in mine:
            print(f"{name}: only {'recorded' if name in words else 'simulated'}")
        elif not equal:
            at = np.flatnonzero(words[name] != mine[name])
            shown = ", ".join(f"[{i}] card {words[name][i]:08x} simulator {mine[name][i]:08x}" for i in at[:SHOWN])
            print(f"{name}: {at.size} words differ: {shown}")
    return [f"| {group} | {len(equal)} | {sum(equal)} | |" for group, equal in groups.items()]


def compare_calls(digests: dict[str, dict[str, str]], samples: dict[str, np.ndarray]) -> list[str]:
    """Runs every call on the simulator and prints how it compares; returns the table's rows, one for each kind."""
    groups: dict[str, list[tuple[bool, int, int, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            simulate(Path(folder), [case])
            got = np.load(Path(folder) / f"{case.name}.npz")
            equal = str(got["output"]) == digests[case.name]["output"]
            apart = np.abs(ulps(samples[case.name]) - ulps(got["sample"]))
            figures = (equal, apart.size, np.count_nonzero(apart), int(apart.max()))
            groups.setdefault(case.kind, []).append(figures)
            same = "equal" if str(got["inputs"]) == digests[case.name]["inputs"] else "OTHER"
            print(f"{case.name}: {same} inputs, equal output: {equal}, {figures[2]} of {figures[1]} differ", flush=True)
    rows = []
    for kind, figures in groups.items():
        equal, sizes, differing, furthest = zip(*figures, strict=True)
        others = f"{sum(differing)} of {sum(sizes)} outputs, by at most {max(furthest)} ulp"
        rows.append(f"| calls, {kind} | {len(equal)} | {sum(equal)} | {others} |")
    return rows


def compare(out: Path) -> int:
    """Prints every difference between card and simulator, and a table."""
    record, samples, words = read(out)
    rows = compare_features(words, simulated_words()) + compare_calls(record["hopper"], samples)
    print(f"{record['chip']}, driver {record['driver']}, commit {record['commit']}, sources {record['sources'][:12]}:")
    print("| | run on both | equal to the bit | others differ in |", "| --- | --- | --- | --- |", *rows, sep="\n")
    return 0


def main(arguments: list[str]) -> int:
    """Runs the command that the first argument names."""
    commands = {"card": card, "pack": pack, "compare": compare}
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate h200.record_calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=commands)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    return commands[options.command](options.folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
