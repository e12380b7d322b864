"""Checks a submission file against the leaderboard's rules before anything is uploaded.

    python -m scripts.release.lint FILE...

Prints findings as FILE:LINE:COLUMN: rule: message. Exit status 0 for none, 1 for some, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import codecs
import contextlib
import dis
import errno
import importlib.util
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 1_000_000
MOST_READ = 16 * MAX_BYTES  # of a file, which may have no end
# Python's parser takes quadratic time on a long f-string, and deep nesting can end its process.
LONG_BYTES, PARSE_LIMIT_S = 1 << 16, 10
PARSE = "import ast, sys; ast.parse(sys.stdin.buffer.read())"
FILTERED_WORD = "stream"
ENTRY_POINT = "custom_kernel"
# Modules on the leaderboard's runners besides the standard library: torch with triton, the packages of their images,
# and the modules that the evaluator puts next to a submission.
RUNNER_MODULES = frozenset(
    {"torch", "triton", "numpy", "ninja", "setuptools", "cutlass", "cuda", "task", "utils", "reference"}
)
DIRECTIVE = re.compile(r"^(?:#|//)!POPCORN\s+(\S+)(.*)$")
NEARLY_DIRECTIVE = re.compile(r"^\s*(?:#|//)\s*!\s*POPCORN\b", re.IGNORECASE)
COMMENT = re.compile(r"^(?:#|//)")
ABSOLUTE_PATH = re.compile(
    r"(?<![\w./*)\]}$~:!-])/(?:bin|boot|content|data|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp"
    r"|usr|Users|var|work|workspace)/[\w.+-]+"
    r"|(?<![\w])[A-Za-z]:\\\\?\w+\\"
)
C_TEXT = re.compile(r"#\s*(?:include|define|pragma)\b|__global__|extern \"C\"")
POINTER_CALLS = frozenset({"data_ptr", "untyped_storage", "storage", "const_data_ptr", "_data_ptr"})
# Calls whose result identifies their arguments, so a key made by them from an address counts as an address.
KEY_MAKERS = frozenset({"tuple", "list", "frozenset", "hash", "int", "str", "repr", "hex", "sorted", "join", "format"})
LOOKUPS = frozenset({"get", "setdefault", "pop", "__getitem__", "__setitem__", "__contains__"})
KERNELGUARD_LIMIT_S = 20  # its patterns take quadratic time in the length of a run of letters and digits
# Dotted names and calls in the detector's evidence, such as sys.modules or threading.Thread().
CODE_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+|[A-Za-z_]\w*(?=\()")


class Finding(NamedTuple):
    """One broken rule; line and column count from 1."""

    line: int
    column: int
    rule: str
    message: str


def lint_bytes(content: bytes) -> list[Finding]:
    """Checks every offline rule; findings in the order of lines.  Other rules need a valid size, text rules UTF-8."""
    if len(content) >= MAX_BYTES:
        return [Finding(1, 1, "size", f"the file has {len(content)} bytes; expected fewer than {MAX_BYTES}")]
    if content.startswith(codecs.BOM_UTF8):
        said = "a byte order mark hides the first directive; save the file as UTF-8 without one"
        return [Finding(1, 1, "encoding", said)]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        byte = content[error.start]
        return [Finding(line, column, "encoding", f"byte {byte:#04x} is not UTF-8 ({error.reason})")]
    lines = text.split("\n")
    rules = (_check_directives(lines), _check_words(lines), _check_paths(lines), _check_python(text))
    return sorted(finding for rule in rules for finding in rule)


def _check_directives(lines: list[str]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    block = next((i for i, line in enumerate(lines) if not COMMENT.match(line)), len(lines))
    for number, line in enumerate(lines, 1):
        match = DIRECTIVE.match(line)
        if match is None:
            if NEARLY_DIRECTIVE.match(line):
                yield Finding(number, 1, "directive", "not read; expected '#!POPCORN KEY VALUE' from the line's start")
        elif number > block:
            yield Finding(number, 1, "directive", "a !POPCORN line after the first comment block is not read")
        elif not match.group(2).strip():
            yield Finding(number, 1, "directive", f"!POPCORN {match.group(1)} has no value")
        else:
            seen[match.group(1)] = match.group(2).strip()
    if "leaderboard" not in seen:
        yield Finding(1, 1, "directive", "the first comment block has no '#!POPCORN leaderboard NAME'")
    if "gpu" not in seen and "gpus" not in seen:
        yield Finding(1, 1, "directive", "the first comment block has no '#!POPCORN gpu NAME'")


def _check_words(lines: list[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        for match in re.finditer(FILTERED_WORD, line, re.IGNORECASE):
            message = f"'{match.group()}' is refused in any case, comments included"
            yield Finding(number, match.start() + 1, "filtered-word", message)


def _check_paths(lines: list[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        for match in ABSOLUTE_PATH.finditer(line):
            yield Finding(number, match.start() + 1, "absolute-path", f"{match.group()} need not exist on the runner")


def _parses_in_time(text: str) -> bool:
    """Whether Python parses a text, or refuses it, within PARSE_LIMIT_S."""
    if len(text) <= LONG_BYTES:
        return True
    command, raw = [sys.executable, "-c", PARSE], text.encode()
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, input=raw, capture_output=True, timeout=PARSE_LIMIT_S, check=False)
        return done.returncode >= 0
    return False


def _check_python(text: str) -> Iterator[Finding]:
    if not _parses_in_time(text):
        yield Finding(
            1, 1, "syntax", f"Python does not parse it within {PARSE_LIMIT_S} s: break up what is long or deep"
        )
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
            code = compile(tree, "submission", "exec", dont_inherit=True)
    except SyntaxError as error:
        yield Finding(error.lineno or 1, error.offset or 1, "syntax", f"not valid Python: {error.msg}")
        return
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL character; an expression nested too deeply
        yield Finding(1, 1, "syntax", f"not valid Python: {str(error) or 'nested too deeply'}")
        return
    if not any(step.opname == "STORE_NAME" and step.argval == ENTRY_POINT for step in dis.get_instructions(code)):
        yield Finding(1, 1, "entry-point", f"no top-level '{ENTRY_POINT}' is defined")
    lines = re.split("\r\n?|\n", text)  # as Python counts them
    searched: set[tuple[int, int]] = set()  # the constants of an f-string all begin where it does
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _check_import(node)
            continue
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and C_TEXT.search(node.value)
        if is_text and (begin := (node.lineno, node.col_offset)) not in searched:
            searched.add(begin)
            yield from _check_pasting(node, lines)
    yield from _check_pointer_keys(tree)


def _check_import(node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom) and node.level > 0:
        yield Finding(node.lineno, node.col_offset + 1, "import", "a relative import needs files beside this one")
        return
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for module in modules:
        top = module.partition(".")[0]
        if top not in RUNNER_MODULES and top not in sys.stdlib_module_names:
            message = f"the runner has no module '{top}'"
            yield Finding(node.lineno, node.col_offset + 1, "import", message)


def _check_pasting(node: ast.Constant, lines: list[str]) -> Iterator[Finding]:
    """Finds token pasting in C or CUDA text, which the leaderboard regards as hiding names from its filter."""
    last = node.end_lineno or node.lineno
    for number in range(node.lineno, last + 1):
        line = lines[number - 1]
        start = node.col_offset if number == node.lineno else 0
        end = node.end_col_offset if number == last else len(line)
        for match in re.finditer(r"##|%:%:", line[start:end]):
            yield Finding(number, start + match.start() + 1, "token-pasting", "names are to be written out")


class _PointerKeys(ast.NodeVisitor):
    """Finds look-ups keyed by an address: data_ptr(), id(), or a name assigned from them."""

    def __init__(self) -> None:
        self.tainted: set[str] = set()
        self.of_function: dict[ast.AST, set[str]] = {}  # what was tainted at its end
        self.functions = 0  # around the node
        self.findings: set[Finding] = set()

    def _is_address(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.tainted
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in POINTER_CALLS or (isinstance(function, ast.Name) and name == "id"):
                return True
            if name not in KEY_MAKERS:
                return False  # a kernel's result is no address, even if its arguments are
        return any(self._is_address(child) for child in ast.iter_child_nodes(node))

    def _report(self, node: ast.expr) -> None:
        message = "a look-up by a tensor's address or identity: results may not be kept between calls"
        self.findings.add(Finding(node.lineno, node.col_offset + 1, "pointer-key", message))

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self.tainted
        self.functions += 1
        # The second pass sees names that a loop assigns after their use. It covers the functions inside.
        for _ in range(2 if self.functions == 1 else 1):
            self.tainted = outer | self.of_function.get(node, set())
            self.generic_visit(node)
            self.of_function[node] = self.tainted
        self.functions -= 1
        self.tainted = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        if self._is_address(value):
            self.tainted |= {
                name.id for target in targets if not isinstance(target, ast.Subscript)
                for name in ast.walk(target) if isinstance(name, ast.Name)
            }  # fmt: skip

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign([node.target], node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assign([node.target], node.value)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_address(node.slice):
            self._report(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops) and self._is_address(node.left):
            self._report(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in LOOKUPS:  # noqa: SIM102
            if node.args and self._is_address(node.args[0]):
                self._report(node)
        self.generic_visit(node)


def _check_pointer_keys(tree: ast.Module) -> Iterator[Finding]:
    visitor = _PointerKeys()
    try:
        visitor.visit(tree)
    except RecursionError:
        yield Finding(1, 1, "syntax", "an expression is nested too deeply to be searched for look-ups by address")
    yield from visitor.findings


def _place(evidence: str, text: str) -> tuple[int, int]:
    """Line and column of the first name in the evidence that the text contains; (1, 1) for none.

    The detector itself gives no places.
    """
    for name in CODE_NAME.findall(evidence):
        match = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
        if match is not None:
            return text.count("\n", 0, match.start()) + 1, match.start() - text.rfind("\n", 0, match.start())
    return 1, 1


def kernelguard_findings(content: bytes) -> list[Finding] | None:
    """The findings of the leaderboard's detector; None if it is not installed here."""
    if importlib.util.find_spec("kernelguard") is None:
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kernelguard", "--api-mode"],
            input=content,
            capture_output=True,
            timeout=KERNELGUARD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        said = (
            f"gave no verdict within {KERNELGUARD_LIMIT_S} s, as on hex digits in one long line: break it into several"
        )
        return [Finding(1, 1, "kernelguard", said)]
    try:
        verdict = json.loads(done.stdout)
        patterns = verdict["matched_patterns"]
    except (ValueError, KeyError, TypeError):
        *_, said = (done.stderr or done.stdout).decode(errors="replace").strip().split("\n")
        return [Finding(1, 1, "kernelguard", f"gave no verdict (exit status {done.returncode}): {said[-500:]}")]
    text = content.decode(errors="replace")
    found = []
    for entry in patterns:
        evidence = str(entry.get("evidence") or "")
        message = f"{entry['pattern']} ({entry['severity']}): {evidence}"
        found.append(Finding(*_place(evidence, text), "kernelguard", message))
    if not found and verdict.get("should_filter"):
        found.append(Finding(1, 1, "kernelguard", f"refuses the file: {verdict.get('filter_reason')}"))
    return found


def read(path: Path) -> bytes:
    """The file's bytes. Raises OSError, also if they have no end."""
    with path.open("rb") as file:
        content = file.read(MOST_READ + 1)
    if len(content) > MOST_READ:
        raise OSError(errno.EFBIG, f"longer than {MOST_READ} bytes; expected a submission", str(path))
    return content


def lint(content: bytes) -> tuple[list[Finding], list[str]]:
    """Findings of all rules, and notes on checks that could not run here."""
    findings = lint_bytes(content)
    guard = kernelguard_findings(content) if len(content) < MAX_BYTES else []
    if guard is None:
        return findings, ["kernelguard is not installed, so the leaderboard's detector was not run"]
    return findings + guard, []


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 lint", description="Check submission files against the leaderboard's rules."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    failed = False
    for path in options.files:
        try:
            content = read(path)
        except OSError as error:
            parser.error(f"cannot read {path}: {error.strerror}")
        findings, notes = lint(content)
        for finding in findings:
            print(f"{path}:{finding.line}:{finding.column}: {finding.rule}: {finding.message}")
        for note in notes:
            print(f"{path}: note: {note}", file=sys.stderr)
        if not findings:
            print(f"{path}: no findings ({len(content)} bytes)")
        failed |= bool(findings)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
