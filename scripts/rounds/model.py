"""The record on disk: paths, loading, schema, states, and the git commands that the checks use."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from scripts.common.dense_json import dumps
from scripts.rounds.dense import condense, expand
from scripts.rounds.stats import Samples

# A state may be followed by one of TRANSITIONS[state]; `history` in round.json starts with draft.
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "draft": ("predicted", "blocked"),
    "predicted": ("measured", "blocked", "adopted", "rejected", "inconclusive"),
    "measured": ("adopted", "rejected", "inconclusive"),
    "adopted": ("superseded",),
    "rejected": ("superseded",),
    "inconclusive": ("superseded",),
    "blocked": ("superseded",),
    "superseded": (),
}
FINAL = ("adopted", "rejected", "inconclusive", "blocked", "superseded")
VIEWPOINTS = ("performance", "practicality", "theory")
# A reconstructed round has no prediction: its result was known when it was written down.
RECONSTRUCTED_TRANSITIONS = TRANSITIONS | {"draft": ("measured",)}
# Keys that may not change once the prediction is committed.
FROZEN = ("prediction", "rule", "backend", "kind")
ENV_KEYS = ("chip", "driver", "versions", "clocks", "flags", "digests")
SECTIONS = (
    "Pitch",
    "Hypothesis",
    "Feasibility",
    "Objections",
    "Verdict",
    "Cost",
    "What would reopen it",
)
UNWRITTEN = "UNWRITTEN"
# Endings of the files in shark_tank/runs. OLDER_NAMES: the file of each kind when a run was a folder.
SAMPLES, ENVIRONMENTS = ".jsonl.gz", "environments.jsonl"
TIMES = ".model.json.gz"
OLDER_NAMES = {SAMPLES: "samples.jsonl.gz", TIMES: "model.json"}


def transitions(data: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The steps that a round may take."""
    return RECONSTRUCTED_TRANSITIONS if "reconstructed" in data else TRANSITIONS


class RoundError(Exception):
    """A refusal for the person at the command line: what is wrong, where, and what was expected."""


class Tank:
    """The record under one repository root: `shark_tank/rounds`, `shark_tank/runs` and the tables."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.dir = self.root / "shark_tank"
        self.rounds_dir = self.dir / "rounds"
        self.runs_dir = self.dir / "runs"
        self._answers: dict[tuple[str, ...], str | None] | None = None  # git's, while nothing is committed

    # --- rounds ---------------------------------------------------------------------------------------
    def round_dirs(self) -> list[Path]:
        """Folders of all rounds, by number."""
        return sorted(p for p in self.rounds_dir.glob("[0-9][0-9][0-9][0-9]-*") if p.is_dir())

    def find(self, number: int) -> Path:
        """The folder of one round; RoundError when there is none or more than one."""
        found = [p for p in self.round_dirs() if p.name.startswith(f"{number:04d}-")]
        if len(found) != 1:
            raise RoundError(f"round {number}: expected one folder {number:04d}-*, found {len(found)}")
        return found[0]

    def load(self, folder: Path) -> dict[str, Any]:
        """round.json of a folder; RoundError when unreadable."""
        path = folder / "round.json"
        try:
            return read_round(path)
        except (OSError, ValueError) as error:
            raise RoundError(f"{self.relative(path)}: {getattr(error, 'strerror', None) or error}") from error

    def get(self, number: int) -> dict[str, Any]:
        """round.json of one round."""
        return self.load(self.find(number))

    def all(self) -> list[dict[str, Any]]:
        """round.json of all rounds, by number."""
        return [self.load(folder) for folder in self.round_dirs()]

    def save(self, data: dict[str, Any]) -> None:
        """Write round.json after checking it against the schema."""
        folder = self.rounds_dir / f"{data['number']:04d}-{data['slug']}"
        problems = schema_problems(data)
        if problems:
            raise RoundError(f"{folder.name}/round.json: " + "; ".join(problems))
        write_round_json(folder / "round.json", data)

    def relative(self, path: Path) -> str:
        """A path relative to the root."""
        return str(path.resolve().relative_to(self.root))

    @contextlib.contextmanager
    def unchanged_on_refusal(self) -> Iterator[None]:
        """Restores every file of the record when the block raises, and removes the files that it added."""
        before = {path: path.read_bytes() for path in self.dir.rglob("*") if path.is_file()}
        folders = {path for path in self.dir.rglob("*") if path.is_dir()}
        try:
            yield
        except BaseException:
            for path in [path for path in self.dir.rglob("*") if path.is_dir() and path not in folders]:
                shutil.rmtree(path, ignore_errors=True)
            for path in [path for path in self.dir.rglob("*") if path.is_file() and path not in before]:
                path.unlink()
            for path, content in before.items():
                if not path.is_file() or path.read_bytes() != content:
                    path.write_bytes(content)
            raise

    # --- runs -----------------------------------------------------------------------------------------
    def samples_path(self, run: str) -> Path:
        """The file of a run's raw samples."""
        return self.runs_dir / f"{run}{SAMPLES}"

    def environments(self) -> dict[str, dict[str, Any]]:
        """The environment of each measured run."""
        path = self.runs_dir / ENVIRONMENTS
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        return {row.pop("run"): row for row in rows}

    def env(self, run: str) -> dict[str, Any]:
        """The environment of a run; RoundError when it has none."""
        found = self.environments()
        if run not in found:
            raise RoundError(f"runs/{ENVIRONMENTS}: no line of run {run}")
        return found[run]

    def save_environments(self, environments: dict[str, dict[str, Any]]) -> None:
        """Write the environments of all runs, one a line, by name."""
        rows = [{"run": run, **environments[run]} for run in sorted(environments)]
        self.runs_dir.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (self.runs_dir / ENVIRONMENTS).write_text(text)

    def samples(self, run: str) -> Samples:
        """Raw samples of a run: shape -> variant -> repeat -> us."""
        return parse_samples(read_bytes(self.samples_path(run)), self.relative(self.samples_path(run)))

    def stored_runs(self) -> set[str]:
        """The names of all stored runs."""
        return {
            path.name.removesuffix(kind)
            for path in self.runs_dir.glob("*.gz")
            for kind in OLDER_NAMES
            if path.name.endswith(kind)
        }

    def added(self, path: Path) -> list[str]:
        """Commits that added a stored run or renamed it, oldest first, under its present name or the older one."""
        kind = next(kind for kind in OLDER_NAMES if path.name.endswith(kind))
        older = self.runs_dir / path.name.removesuffix(kind) / OLDER_NAMES[kind]
        names = [self.relative(one) for one in (path, older)]
        return [commit for commit, status, name in self._log() if status == "A" and name in names]

    # --- git ------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def unchanging(self) -> Iterator[None]:
        """Asks git each question once in the block, in which nothing may be committed."""
        self._answers = {}
        try:
            yield
        finally:
            self._answers = None

    def git(self, *args: str) -> str | None:
        """Output of a git command in the root, or None when it fails."""
        if self._answers is not None and args in self._answers:
            return self._answers[args]
        done = subprocess.run(["git", "-C", str(self.root), *args], capture_output=True, text=True, check=False)
        answer = done.stdout.strip() if done.returncode == 0 else None
        if self._answers is not None:
            self._answers[args] = answer
        return answer

    def _log(self) -> tuple[tuple[str, str, str], ...]:
        """(commit, status, path) of each change of a file of a round or run, oldest first."""
        folders = [self.relative(folder) for folder in (self.rounds_dir, self.runs_dir)]
        log = ("log", "--format=%x00%H", "--name-status", "--no-renames", "--reverse", "--")
        return changes_in(self.git(*log, *folders) or "")

    def has_history(self) -> bool:
        """True if git has the whole history here: no tarball, no shallow clone."""
        return self.git("rev-parse", "--is-shallow-repository") == "false" and self.git("rev-parse", "HEAD") is not None

    def commit(self, name: str) -> str | None:
        """The full name of a commit, or None when there is none of that name here."""
        return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if name else None

    def is_ancestor(self, old: str, new: str) -> bool:
        """True if commit `old` is `new` or precedes it."""
        return self.git("merge-base", "--is-ancestor", old, new) is not None

    def at_commit(self, commit: str, path: Path) -> dict[str, Any] | None:
        """A JSON file as it was at a commit, or None."""
        text = self.git("show", f"{commit}:{self.relative(path)}")
        try:
            return expand(json.loads(text)) if text else None
        except ValueError:
            return None

    def prediction_commit(self, data: dict[str, Any]) -> str | None:
        """The first commit that holds this round's present prediction and no measurement, or None."""
        path = self.rounds_dir / f"{data['number']:04d}-{data['slug']}" / "round.json"
        name = self.relative(path)
        for commit in (commit for commit, _, changed in self._log() if changed == name):
            then = self.at_commit(commit, path)
            if (
                then
                and then.get("state") == "predicted"
                and then.get("measurement") is None
                and all(then.get(key) == data[key] for key in FROZEN)
                and all(then[side]["variant"] == data[side]["variant"] for side in ("base", "candidate"))
            ):
                return commit
        return None


@lru_cache(maxsize=1)
def changes_in(log: str) -> tuple[tuple[str, str, str], ...]:
    """(commit, status, path) of each line of `git log --format=%x00%H --name-status`."""
    found = []
    for entry in log.split("\0")[1:]:
        commit, *lines = entry.split("\n")
        found += [(commit, *line.split("\t", 1)) for line in lines if line]
    return tuple(found)


def write_json(path: Path, data: Any) -> None:
    """Indented JSON with a final newline."""
    path.write_text(indented(data))


def indented(data: Any) -> str:
    """JSON as write_json writes it."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_round(path: Path) -> dict[str, Any]:
    """A round.json; OSError or ValueError when unreadable."""
    return expand(json.loads(path.read_text()))


def write_round_json(path: Path, data: dict[str, Any]) -> None:
    """A round.json, dense."""
    path.write_text(dumps(condense(data)) + "\n")


def env_digest(env: dict[str, Any]) -> str:
    """sha256 of an environment, as indented JSON."""
    return digest(indented(env).encode())


def read_bytes(path: Path) -> bytes:
    """Content of a file, unpacked when its name ends in .gz; RoundError when it cannot be read."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError) as error:
        raise RoundError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def digest(data: bytes) -> str:
    """sha256 in hexadecimal; for samples, take it of the unpacked text, which packing does not change."""
    return hashlib.sha256(data).hexdigest()


@cache  # every round of a run reads its samples, several times
def parse_samples(content: bytes, name: str) -> Samples:
    """Raw samples from JSON lines `{"shape": [m, n, k], "variant": str, "repeat": int, "us": float}`.

    Callers share the result and must not change it. An extent in which groups differ is a text of all values, "80,176".
    Other keys are ignored. RoundError names the first bad line.
    """
    samples: Samples = {}
    for number, line in enumerate(content.decode().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            m, n, k = (",".join(str(int(one)) for one in str(extent).split(",")) for extent in row["shape"][:3])
            variant, repeat, us = row["variant"], int(row["repeat"]), float(row["us"])
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise RoundError(
                f"{name}:{number}: {error!r}; expected "
                '{"shape": [m, n, k], "variant": "name", "repeat": 0, "us": 1.0}'
            ) from error
        if not (isinstance(variant, str) and math.isfinite(us) and us > 0):
            raise RoundError(f"{name}:{number}: variant {variant!r}, us {us}: expected a name and a time above 0")
        repeats = samples.setdefault(f"{m}x{n}x{k}", {}).setdefault(variant, {})
        if repeat in repeats:
            raise RoundError(f"{name}:{number}: repeat {repeat} of variant {variant!r} occurs twice for {m}x{n}x{k}")
        repeats[repeat] = us
    return samples


def env_problems(env: Any) -> list[str]:
    """Keys that an environment lacks."""
    if not isinstance(env, dict):
        return ["expected one JSON object"]
    missing = [key for key in ENV_KEYS if key not in env]
    problems = [f"lacks {', '.join(missing)} (expected {', '.join(ENV_KEYS)})"] if missing else []
    if not missing and not (isinstance(env["chip"], str) and env["chip"]):
        problems.append(f"chip is {env['chip']!r}, expected the device's name")
    return problems


def chip_name(env: dict[str, Any]) -> str:
    """The chip as evidence classes name it: without the vendor."""
    return env["chip"].removeprefix("NVIDIA ").strip()


@cache
def _validator() -> Any:
    try:
        import jsonschema  # only here: commands that only read rounds, such as `rerun`, work without it
    except ModuleNotFoundError:
        raise RoundError("jsonschema is not installed; the test set-up has it") from None
    schema = json.loads((Path(__file__).parents[2] / "shark_tank" / "round.schema.json").read_text())
    return jsonschema.Draft202012Validator(schema)


def schema_problems(data: Any) -> list[str]:
    """Every violation of round.schema.json, with its place."""
    return [
        f"{'/'.join(str(part) for part in error.absolute_path) or 'top level'}: {error.message}"
        for error in sorted(_validator().iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))
    ]


def prediction_problems(data: dict[str, Any], shapes: list[str]) -> list[str]:
    """Gaps of a prediction, which needs an interval for each shape and a ratio from each viewpoint."""
    prediction = data["prediction"] or {"shapes": {}, "viewpoints": {}}
    problems = []
    missing = [shape for shape in shapes if shape not in prediction["shapes"]]
    if missing:
        problems.append(f"prediction: no ratio interval for {', '.join(missing)}")
    for shape, (low, high) in prediction["shapes"].items():
        if low > high:
            problems.append(f"prediction of {shape}: low {low} is above high {high}")
    missing = [name for name in VIEWPOINTS if name not in prediction["viewpoints"]]
    if missing:
        problems.append(f"prediction: no ratio from the viewpoint of {', '.join(missing)}")
    return problems


def round_shapes(data: dict[str, Any], root: Path) -> list[str]:
    """The shapes that a round predicts and measures: its own, or the benchmark's if it names none."""
    return data.get("shapes") or benchmark_shapes(root)


def benchmark_shapes(root: Path) -> list[str]:
    """The benchmark's shapes as "MxNxK", from the dual GEMM's benchmark.txt."""
    path = root / "reference/problems/dual_gemm/benchmark.txt"
    shapes = []
    for line in path.read_text().splitlines():
        fields = dict(part.split(":") for part in line.replace(" ", "").split(";") if ":" in part)
        if {"m", "n", "k"} <= fields.keys():
            shapes.append(f"{fields['m']}x{fields['n']}x{fields['k']}")
    return shapes
