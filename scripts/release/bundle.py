"""Writes the one-file submission: the shim and the C and CUDA sources, compiled on first import.

    ./nvfp4 bundle [--problem NAME] [--target auto|b200|h200|geforce|cpu] [--output FILE] [--check] [--no-compile]

The file is checked before it is written: violations of the leaderboard's rules are reported as FILE:LINE:COLUMN, then
the file is compiled and run on a few small problems.  If a check fails, nothing is written.  The same commit and target
give the same bytes.  Exit status 0, 1 for findings, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from reference.problems import DEFAULT, PROBLEMS, short_name
from reference.problems.interface import Problem
from scripts.common.gpu_backends import GPU_BACKENDS, backend_of_major
from scripts.common.options import output_file
from scripts.common.toolchain import BUILD
from scripts.release import bundle_loader
from scripts.release.bundle_targets import (
    LINK_FLAGS,
    TARGETS,
    BundleError,
    Target,
    collect_sources,
    plan,
    runs,
)
from scripts.release.lint import Finding, lint

ROOT = Path(__file__).resolve().parents[2]
LIBRARY_FILE = "submission/library_file.py"  # in a bundle, LOADER is in its place
LOADER = "scripts/release/bundle_loader.py"
OWN = ("scripts/release/bundle.py", "scripts/release/bundle_targets.py", LOADER)  # what else shapes a bundle
COMPILE_LIMIT_S = 120  # the leaderboard's
# A program that imports the bundle and compares its results with the oracle, with the checkout's modules in PYTHONPATH.
# Prints the seconds of the first import, then the devices.
TRIAL = """
import importlib.util, sys, time
start = time.monotonic()
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
submission = importlib.util.module_from_spec(spec)
spec.loader.exec_module(submission)
print(time.monotonic() - start)
from eval.judge import judge_full
from reference.problems import DEFAULT, problem_of_submission
from reference.problems.interface import FULL, blank
from torch import device as kind
from pathlib import Path
problem = problem_of_submission(Path(sys.argv[1])) or DEFAULT
devices = ["cpu"] + ["cuda"] * any(one.available for one in submission.backends() if one.name != "cpu")
for device in devices:
    for shape in problem.trials:
        data = shape.data(shape.generate(1, FULL, kind(device)), blank(shape, kind(device)))
        verdict = judge_full(shape, data, submission.custom_kernel(data))
        if not verdict.ok:
            named = " ".join(shape._fields).upper()
            sys.exit(f"wrong result for {named} = {tuple(shape)} on {device}: {verdict.message}")
print(" and ".join(devices))
"""


class Piece(NamedTuple):
    """Lines of the bundle.  `origin`: the file they come from; `line`: their first line there."""

    text: str
    origin: str | None = None
    line: int = 1


class Bundle(NamedTuple):
    """The file's text, and its pieces in order."""

    text: str
    pieces: tuple[Piece, ...]

    def origin(self, line: int) -> tuple[str, int] | None:
        """The file and line of the checkout that a line of the bundle comes from."""
        first = 1
        for piece in self.pieces:
            after = first + piece.text.count("\n")
            if first <= line < after:
                return (piece.origin, piece.line + line - first) if piece.origin else None
            first = after
        return None


def describe_commit(root: Path = ROOT) -> str:
    """Names the checkout's commit, for a comment in the bundle."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return "an unknown commit (no git checkout)"
    changed = git("status", "--porcelain", "--", "submission", *OWN)
    return f"commit {commit}" + (" with uncommitted changes" if changed else "")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _imports(*modules: ast.Module) -> str:
    """The union of the modules' imports in isort's order: __future__, plain imports, from imports."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for module in modules:
        for node in module.body:
            renamed = [alias for alias in getattr(node, "names", []) if getattr(alias, "asname", None)]
            if renamed:
                raise BundleError(f"an import renames {renamed[0].name}; a bundle's imports keep their names")
            if isinstance(node, ast.Import):
                plain |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:  # relative imports: their code is in the bundle
                names.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
    froms = {module: f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)}
    lines = [froms.pop("__future__", "from __future__ import annotations"), ""]
    return "\n".join([*lines, *(f"import {name}" for name in sorted(plain)), *froms.values()]) + "\n"


def _body(path: str, text: str, module: ast.Module) -> list[str]:
    """The lines of a module after its docstring and imports."""
    lines = text.splitlines(keepends=True)
    last = max((node.end_lineno or 0 for node in module.body if _is_import(node) or _is_docstring(node)), default=0)
    if any(not (_is_import(node) or _is_docstring(node)) and node.lineno <= last for node in module.body):
        raise BundleError(f"{path}: its imports and docstring do not come first")
    return lines[last:]


def _literal(name: str, text: str) -> str:
    """The text as a raw string literal."""
    for quotes in ('"""', "'''"):
        if quotes not in text and not text.startswith(quotes[0]):
            return f"r{quotes}{text}{quotes}"
    raise BundleError(f"{name} contains both kinds of triple quotes and cannot be a raw string")


def _constants(target: Target) -> str:
    optional = {ending: (flags, macro) for ending, flags, macro in target.optional}
    return (
        f"_C_FLAGS = {target.c_flags!r}\n_LINK_FLAGS = {LINK_FLAGS!r}\n"
        "# Sources by the end of their name that are built where the C compiler accepts these flags.\n"
        f"_OPTIONAL: dict[str, tuple[tuple[str, ...], str]] = {optional!r}\n"
        f"_NVCC_FLAGS: tuple[str, ...] = {target.nvcc_flags!r}\n"
    )


def _modules(path: str, root: Path, found: dict[str, str]) -> dict[str, str]:
    """Adds to `found` the text of a module by its path, after that of the modules beside it that it imports."""
    path = LOADER if path == LIBRARY_FILE else path
    if path not in found:
        text = (root / path).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                _modules(f"{Path(path).parent.as_posix()}/{node.module}.py", root, found)
        found[path] = text
    return found


def _first_line(text: str, ending: str) -> int:
    """The number of the line at which the ending of a text begins."""
    return text.count("\n") - ending.count("\n") + 1


def _packed(sources: dict[str, str]) -> list[Piece]:
    """The sources as string literals."""
    pieces = []
    for name, text in sources.items():
        literal = _literal(name, text)
        opening, closing = literal[:4], literal[-3:]
        # The text starts on the line of its opening quotes, so that lines of text and literal are the same.
        pieces += [
            Piece(f'\n_SOURCES["{name}"] = (\n'),
            Piece(opening + text, name),
            Piece(f"{closing}\n)\n"),
        ]
    return pieces


def make_bundle(target: str, root: Path = ROOT, problem: Problem = DEFAULT) -> Bundle:
    """Makes the bundle of a target.  Raises BundleError if a part is missing or not as expected."""
    sources = collect_sources(target, root, problem)
    if not runs(problem, target, root):
        raise BundleError(
            f"target {target} has no {problem.name} yet: {TARGETS[target].backend} names no {problem.backend_member}"
        )
    modules = _modules(problem.submission, root, {})
    trees = {path: ast.parse(text) for path, text in modules.items()}
    docstring = ast.get_docstring(trees[problem.submission], clean=False)
    if docstring is None or LOADER not in modules:
        raise BundleError(f"{problem.submission} has no docstring, or none of its modules imports {LIBRARY_FILE}")
    pieces = [
        Piece(f"#!POPCORN leaderboard {problem.leaderboard}\n#!POPCORN gpu {TARGETS[target].gpu}\n"),
        Piece(f"# Target {target}, made by scripts/release/bundle.py from {describe_commit(root)}; MIT licence.\n"),
        Piece(f'"""{docstring.replace("the C library beside this file", "the C and CUDA sources below")}"""\n\n'),
        Piece(_imports(*trees.values())),
    ]
    for path, text in modules.items():
        body = "".join(_body(path, text, trees[path])).lstrip("\n")
        pieces += [Piece(f"\n# --- {path}\n\n"), Piece(body, path, _first_line(text, body))]
        if path == LOADER:
            pieces += [Piece("\n# --- the target's flags, and its sources as they are in the repository\n\n")]
            pieces += [Piece(_constants(plan(target, problem))), *_packed(sources)]
    return Bundle("".join(piece.text for piece in pieces), tuple(pieces))


def locate(bundle: Bundle, output: Path, finding: Finding) -> str:
    """Formats a finding with its place in the checkout, or in the bundle for a line that comes from no file."""
    origin = bundle.origin(finding.line)
    place, line = origin or (output, finding.line)
    return f"{place}:{line}:{finding.column}: {finding.rule}: {finding.message}"


def try_bundle(text: str) -> tuple[float | None, str]:
    """Imports a bundle in an empty folder with an empty cache, and checks its results on small problems.

    Returns the seconds of the import and the devices on which it was right; or None and what went wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.py"
        path.write_text(text, encoding="utf-8")
        environment = {**os.environ, "NVFP4_CACHE": str(Path(folder) / "cache"), "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-B", "-c", TRIAL, str(path)],  # -B: leaves no .pyc files
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=COMPILE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"compiling and a trial took more than {COMPILE_LIMIT_S} s"
        if done.returncode != 0:
            return None, done.stderr.strip()
        seconds, devices = done.stdout.split("\n")[:2]
        return float(seconds), devices


def has_compiler(target: str) -> bool:
    """True if the bundle would find the target's compilers here."""
    try:
        bundle_loader.find_compilers(bool(TARGETS[target].nvcc_flags))
    except ImportError:
        return False
    return True


def run_harness(text: str, cases: Path, on_cpu: bool) -> int:
    """Runs the harness's tests of the bundle from an empty folder, on the CPU or the default device; exit status."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, str(ROOT / "eval" / "eval.py"), "test", str(cases.resolve())]
        command += ["--submission", str(path), *(["--device", "cpu"] if on_cpu else [])]
        return subprocess.run(command, cwd=folder, check=False).returncode


def choose_target(problem: Problem = DEFAULT) -> str:
    """The target for this machine, of those that support the problem.

    That of its GPU; without a GPU, that of the newest chip for which nvcc can compile here; else cpu.
    """
    import torch

    wanted = ["b200", "h200"]
    if torch.cuda.is_available():
        backend = backend_of_major(torch.cuda.get_device_capability()[0])
        wanted = [GPU_BACKENDS[backend].target] if backend else []
    for target in wanted:
        if (
            has_compiler(target)
            and all(any(ROOT.glob(pattern)) for pattern in TARGETS[target].sources)
            and runs(problem, target)
        ):
            return target
    return "cpu"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="./nvfp4 bundle", description="Write the one-file submission.")
    parser.add_argument("--target", choices=["auto", *TARGETS], default="auto")
    parser.add_argument("--problem", type=short_name, choices=PROBLEMS, default=DEFAULT.name)
    parser.add_argument("--output", type=Path, help="default: submission_TARGET.py, or PROBLEM_TARGET.py, in BUILD")
    parser.add_argument("--check", action="store_true", help="also run the harness's ten tests")
    parser.add_argument("--cases", type=Path, help="case file for --check")
    parser.add_argument("--no-compile", action="store_true", help="neither compile the bundle nor try it")
    options = parser.parse_args(arguments)
    problem = PROBLEMS[options.problem]
    target = choose_target(problem) if options.target == "auto" else options.target
    stem = "submission" if problem is DEFAULT else problem.name
    if options.cases and not options.check:
        parser.error("argument --cases: only --check runs cases; give both")
    options.cases = options.cases or ROOT / problem.cases / "test.txt"
    try:
        bundle = make_bundle(target, problem=problem)
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    try:
        options.output = output_file(str(options.output or BUILD / f"{stem}_{target}.py"))
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --output: {error}")
    content = bundle.text.encode("utf-8")
    findings, notes = lint(content)
    for finding in findings:
        print(locate(bundle, options.output, finding))
    compiled = "not compiled here"
    on_cpu = target == "cpu"  # later also if the trial found no GPU that the bundle can use
    if not findings and not options.no_compile:
        if has_compiler(target):
            seconds, said = try_bundle(bundle.text)
            if seconds is None:
                print(f"{options.output}:1:1: trial: {said}")
                findings.append(Finding(1, 1, "trial", said))
            else:
                compiled = f"first import {seconds:.1f} s, small problems right on {said}"
                on_cpu = said == "cpu"
        else:
            notes.append(f"no compiler for target {target} here, so the file was not compiled")
    for note in notes:
        print(f"bundle: note: {note}", file=sys.stderr)
    if findings:
        print(f"bundle: {len(findings)} finding(s), {options.output} not written", file=sys.stderr)
        return 1
    if options.check:
        status = run_harness(bundle.text, options.cases, on_cpu)
        if status != 0:
            print(f"bundle: the harness ended with exit status {status}, {options.output} not written", file=sys.stderr)
            return 1
    options.output.write_bytes(content)
    print(f"{options.output}: target {target}, {len(content)} bytes, {compiled}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
