"""The tree's order: who may import whom, one way to find modules, and folders that can be read at a glance."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path, PurePath

import pytest

PRODUCTS = {"eval", "reference", "scripts", "submission"}
# A submission may import modules beside it, as under the leaderboard, which runs it as a script.
MAY_EDIT_THE_PATH = {"eval/workers/worker.py"}
MOST_FILES = 13  # about a dozen
APART = {"__init__.py", "README.md"}  # beside what a folder is about
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}
TOP_LEVEL = {
    *(".ci", ".clang-format", ".gitignore", "LICENSE", "Makefile", "nvfp4", "pyproject.toml", "setup.py"),
    *("ENVIRONMENT.md", "GLOSSARY.md", "README.md", "task.md", "task_group_gemm.md"),
    *("eval", "examples", "reference", "scripts", "shark_tank", "simulator", "submission", "tests"),
}


def tracked(root: Path, *patterns: str) -> list[str]:
    """Paths that git knows."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", *patterns], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (root / name).exists()]


def imported(tree: ast.AST) -> set[str]:
    """The top-level packages that a module imports, wherever in it."""
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def edits_of_the_path(tree: ast.AST) -> list[int]:
    """Lines that assign to sys.path or to a part of it, or call a method of it."""

    def is_path(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "path" and ast.unparse(node.value) == "sys"

    found = []
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        whole = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_path(node.func.value)
        if called or any(is_path(target) for target in whole):
            found.append(node.lineno)
    return sorted(found)


@pytest.fixture(scope="module")
def modules(root):
    return {name: ast.parse((root / name).read_text()) for name in tracked(root, "*.py")}


def test_no_product_imports_the_tests(modules):
    wrong = [
        name for name, tree in modules.items() if PurePath(name).parts[0] in PRODUCTS and "tests" in imported(tree)
    ]
    assert wrong == []


def test_what_is_judged_and_what_judges_do_not_import_the_scripts(modules):
    low = ("eval/", "reference/", "submission/")
    assert [name for name, tree in modules.items() if name.startswith(low) and "scripts" in imported(tree)] == []


def test_modules_are_found_by_their_package_alone(modules):
    edits = {name: lines for name, tree in modules.items() if (lines := edits_of_the_path(tree))}
    assert set(edits) == MAY_EDIT_THE_PATH, edits


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import sys\nsys.path.insert(0, 'x')", [2]),
        ("sys.path[0] = 'x'", [1]),
        ("sys.path[:0] = ['x']\nsys.path += ['y']\nsys.path = []", [1, 2, 3]),
        ("wheels = [folder for folder in sys.path if folder]\nos.path.join('a', 'b')", []),
    ],
)
def test_an_edit_of_the_path_is_seen(text, lines):
    assert edits_of_the_path(ast.parse(text)) == lines


def crowded(names: list[str]) -> dict[str, int]:
    """Folders of more files than can be read at a glance; a source file and its header are one thing to a reader."""
    paths = [PurePath(name) for name in names]
    paths = [path for path in paths if path.name not in APART and path.suffix != ".mk"]
    count = Counter(str(path.parent) for path in {p.with_suffix("") if p.suffix in C_SUFFIXES else p for p in paths})
    return {name: files for name, files in count.items() if files > MOST_FILES}


def test_a_folder_can_be_read_at_a_glance(root):
    assert crowded(tracked(root)) == {}


def test_a_crowded_folder_is_seen():
    units = [f"a/b/x{i}{suffix}" for i in range(MOST_FILES) for suffix in (".c", ".h")]
    assert crowded([*units, "a/b/build.mk", "a/b/README.md", "a/x.py"]) == {}
    assert crowded([*units, "a/b/y.h"]) == crowded([*units, "a/b/y.md"]) == {"a/b": MOST_FILES + 1}


def test_every_program_says_what_it_does(modules):
    silent = [
        f"{name}:{node.lineno}"
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "argparse.ArgumentParser"
        and not {"description", "parents"} & {keyword.arg for keyword in node.keywords}
        and not name.startswith("tests/")
    ]
    assert silent == []


def test_nothing_lies_at_the_top_by_accident(root):
    assert {PurePath(name).parts[0] for name in tracked(root)} <= TOP_LEVEL
