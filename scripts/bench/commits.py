"""Times several commits of this repository side by side in one run, on a machine that need not have git.

usage: python -m scripts.bench.commits fetch COMMIT...     here: the sources of each into build/commits/COMMIT
       python -m scripts.bench.commits time [compare's]    there: builds each with make and nvcc, then times them
`--ledger` in place of commits fetches those of the ledger (shark_tank/ledger.json), and `time --ledger` takes its
variants.  A variant is COMMIT/TILE, as `8637071/auto`: the library of commit 8637071 with its own choice of tile.
Carry the folder build/commits to the other machine; `time` writes samples and environment (--samples, --env), which
`./nvfp4 rounds measure` takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.common.sources import commit_digest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "commits"
MANIFEST = "manifest.json"
BUILT_FROM = ("submission", "Makefile", "scripts")  # the inputs of `make library`
SHORT = 7  # digits of a commit's name
BUILD_SECONDS = 480


def git(*words: str) -> bytes:
    """Output of a git command; SystemExit with its message if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"commits: git {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


def ledger_variants(head: str) -> list[str]:
    """Variants of the ledger's run: the first kernel, each step, the newest commit twice (an A/A), and others."""
    ledger = json.loads((ROOT / "shark_tank" / "ledger.json").read_text())
    steps = [step["variant"] for step in (ledger["first"], *ledger["steps"])]
    return [*steps, f"{head}/auto", f"{head}/auto+again", *ledger["one_run"]["beside"]]


def commits_of(variants: list[str]) -> list[str]:
    """The commits before the variants' slashes, each once."""
    return list(dict.fromkeys(name.partition("/")[0] for name in variants if "/" in name))


def newest() -> str:
    """The newest commit that changed what the library is built from."""
    return git("log", "-1", "--format=%H", "--", "submission").decode().strip()


def fetch(commits: list[str]) -> None:
    """Unpacks the sources of each commit and writes the manifest."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in commits:
        try:
            full = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
        except SystemExit:
            raise SystemExit(f"commits: '{name}' is not a commit of this checkout") from None
        folder = FOLDER / full[:SHORT]
        folder.mkdir(exist_ok=True)
        subprocess.run(["tar", "-x", "-C", folder], input=git("archive", full, *BUILT_FROM), check=True)
        found[full[:SHORT]] = {"commit": full, "digest": commit_digest(ROOT, full)}
    head, tree = newest(), git("rev-parse", "HEAD").decode().strip()
    (FOLDER / MANIFEST).write_text(json.dumps({"head": head, "tree": tree, "commits": found}, indent=2) + "\n")
    print(f"{len(found)} commits in {FOLDER.relative_to(ROOT)}; carry that folder")


def build(folder: Path) -> str:
    """Builds one commit's library; returns the error, or nothing."""
    command = ["make", "-j4", "-C", str(folder), "library", "BUILD=build", f"PYTHON={sys.executable}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{folder.name}: not built within {BUILD_SECONDS} s"
    if done.returncode != 0:
        return f"{folder.name}: {(done.stdout + done.stderr)[-2000:]}"
    return ""


def build_all(manifest: dict[str, dict[str, str]]) -> None:
    """Builds every fetched commit; SystemExit if its sources have changed or it does not build."""
    from scripts.bench.provenance import checkout_digest

    for name, entry in manifest.items():
        if checkout_digest(FOLDER / name) != entry["digest"]:
            raise SystemExit(f"commits: {name}: the files are not those of the commit; fetch them again")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(build, (FOLDER / name for name in manifest)) if problem]
    if problems:
        raise SystemExit("commits: " + "\n".join(problems))
    print(f"built {', '.join(manifest)}", flush=True)


def time(ledger: bool, words: list[str]) -> int:
    """Builds every fetched commit, then runs compare.py on all of them."""
    path = FOLDER / MANIFEST
    if not path.is_file():
        raise SystemExit("commits: nothing is fetched; run `python -m scripts.bench.commits fetch` where git is")
    manifest = json.loads(path.read_text())
    build_all(manifest["commits"])
    # Importing compare.py loads a library: any will do, since every variant here names its own.
    os.environ["NVFP4_LIBRARY"] = str(FOLDER / next(iter(manifest["commits"])) / "build" / "libcustom_kernel.so")
    from scripts.bench import compare

    checkouts = [word for name in manifest["commits"] for word in ("--checkout", f"{name}={FOLDER / name}")]
    chosen = ["--variants", ",".join(ledger_variants(manifest["head"][:SHORT]))] if ledger else []
    return compare.main([*checkouts, *chosen, "--commit", manifest["tree"], *words])


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench commits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("fetch", "time"))
    parser.add_argument("--ledger", action="store_true", help="the ledger's commits and variants")
    options, words = parser.parse_known_args()
    if options.step == "time":
        return time(options.ledger, words)
    commits = commits_of(ledger_variants(newest()[:SHORT])) if options.ledger else words
    if not commits:
        parser.error("fetch: name commits, or give --ledger")
    fetch(commits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
