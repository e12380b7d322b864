"""What sources say once and few tests run into: each command's options, records that stay as made, pairs of one length,
how a program ends, what is imported for annotations alone, the device of a tensor, a child's status.

After a change that is meant: `pytest -n 0 --record-commands tests/house/test_declarations.py`, and read the difference.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("options.json")
PLACES = ("eval", "reference", "scripts", "submission", "simulator/python")
# Records that are filled after they are made.
CHANGE = {
    ("eval/comparison.py", "Comparison"),
    ("eval/sandbox/__init__.py", "State"),
    ("eval/supervisor.py", "Result"),
    ("scripts/bring_up/steps.py", "Outcome"),
    ("scripts/common/machine_code/match.py", "Charge"),
    ("scripts/common/machine_code/match.py", "_Pending"),
    ("scripts/common/machine_code/ptx.py", "Function"),
    ("scripts/common/machine_code/ptx.py", "Module"),
    ("scripts/common/machine_code/sass.py", "Instruction"),
    ("scripts/evidence/mutants/fused_sum.py", "Numbers"),
    ("scripts/evidence/mutants/fused_sum.py", "Rule"),
    ("scripts/evidence/sentryward/cases.py", "Case"),
    ("scripts/evidence/third_party/sources.py", "Sources"),
    ("scripts/history/data.py", "ShapeSeries"),
    ("scripts/mutate/driver.py", "AreaRun"),
    ("scripts/mutate/driver.py", "Driver"),
    ("scripts/rounds/ledger.py", "Ledger"),
    ("scripts/rounds/ledger.py", "Step"),
}
# Pairs of which one may be the longer, a file.
UNEQUAL = {
    "eval/workers/worker.py": 1,
    "reference/extended_reference.py": 1,
    "scripts/bring_up/environment.py": 1,
    "scripts/evidence/backend_table.py": 1,
    "scripts/evidence/mutants/launches.py": 1,
    "scripts/history/plots.py": 3,
}

# How a program runs its main: its status is the process's, and only what reads words of sys.argv is given them.
PROGRAMS = {"sys.exit(main())", "sys.exit(main(sys.argv[1:]))"}
# Those that raise where something is amiss, and those that are read word by word.
OTHER_PROGRAMS = {
    "eval/__main__.py": "note_descriptor()\nsys.exit(lifetime.run_to_the_end(run))",
    "scripts/download_size.py": "sys.exit(main(sys.argv[1], sys.argv[2]))",
    "scripts/evidence/h200/hopper_cases.py": "main(sys.argv[1:])",
    "scripts/evidence/h200/record_mma.py": "main(sys.argv[1:])",
    "scripts/evidence/sentryward/table.py": "main()",
    "scripts/evidence/speed_table.py": "main()",
    "scripts/evidence/third_party/__main__.py": "main()",
    "scripts/evidence/third_party/cute/translate.py": "main()",
    "scripts/evidence/third_party/triton/translate.py": "main()",
}
# Functions of torch that make a tensor on the default device unless they are told another.
MAKERS = {
    "arange",
    "as_tensor",
    "empty",
    "eye",
    "full",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "tensor",
    "zeros",
}
# Where tensors of a card are made; and those of the host there, a file.
ON_A_CARD = ("eval/", "reference/", "submission/", "scripts/bench/", "scripts/release/")
OF_THE_HOST = {
    "eval/lending/cuda.py": 1,
    "eval/lending/host.py": 2,
    "eval/output/mismatch.py": 1,
    "reference/extended_reference.py": 1,
    "scripts/bench/baselines/cublas_submission.py": 2,
    "submission/group_submission.py": 2,
}

# How far each program that writes JSON indents it: another width is a difference in every line of what it wrote.
INDENTS = {
    "eval/output/outlets.py": "22",
    "scripts/bench/behind_others.py": "1",
    "scripts/bench/check_gpu.py": "2",
    "scripts/bench/commits.py": "2",
    "scripts/bench/compare.py": "22",
    "scripts/bench/cpu.py": "2",
    "scripts/bench/extended/__main__.py": "1",
    "scripts/bench/first_import.py": "2",
    "scripts/bench/harness_ratio.py": "1",
    "scripts/bench/host.py": "2",
    "scripts/bench/sweep.py": "2",
    "scripts/bring_up/environment.py": "22",
    "scripts/bring_up/protocol.py": "1",
    "scripts/cost_model/clock.py": "1",
    "scripts/cost_model/geforce.py": "1",
    "scripts/cost_model/model_times.py": "1",
    "scripts/cost_model/public_kernels.py": "1",
    "scripts/history/data.py": "2",
    "scripts/mutate/driver.py": "1",
    "scripts/release/execbench/__main__.py": "22",
    "scripts/rounds/model.py": "2",
}


class Asked(Exception):
    """A parser, at the place where its command line would be read."""


@functools.cache
def sources(root):
    """Path and nodes of every module of the package."""
    found = []
    for place in PLACES:
        for path in sorted((root / place).rglob("*.py")):
            found.append((path.relative_to(root).as_posix(), list(ast.walk(ast.parse(path.read_text())))))
    return found


def told(value):
    """A default, a constant or a type, in words that are the same everywhere."""
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, dict | list | tuple):
        return [told(entry) for entry in value]
    name = getattr(value, "__qualname__", None)
    if name is not None or isinstance(value, int | float | str | None):
        return value if name is None else name
    return ("the checkout" if value == ROOT else value.name) if isinstance(value, Path) else str(value)


def options(parser, name=""):
    """What a caller may give a parser and its commands, and what comes of it."""
    found = {f"{name}(itself)": {"description": parser.description, "defaults": told(list(parser._defaults.items()))}}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                found |= options(below, f"{name}{command} ")
        elif not isinstance(action, argparse._HelpAction):
            parts = ("dest", "nargs", "const", "default", "type", "choices", "required", "metavar", "help")
            given = {part: told(getattr(action, part)) for part in parts if getattr(action, part) not in (None, False)}
            found[name + (" ".join(action.option_strings) or action.dest)] = {"action": type(action).__name__} | given
    return found


def options_of(module, monkeypatch, reader="main"):
    """The options of a module whose main(), or another function, reads a command line."""

    def ask(self, *given, **named):
        raise Asked(self)

    with monkeypatch.context() as patch:
        for name in ("parse_args", "parse_known_args"):
            patch.setattr(argparse.ArgumentParser, name, ask)
        patch.setattr(sys, "argv", ["it"])
        main = getattr(importlib.import_module(module), reader)
        with pytest.raises(Asked) as asked:
            main(*([] for given in inspect.signature(main).parameters.values() if given.default is given.empty))
    return options(asked.value.args[0])


def test_what_each_command_takes_is_what_was_recorded(root, monkeypatch, request):
    found = {"eval/command.py": options_of("eval.command", monkeypatch, "parse_arguments")}
    for path, nodes in sources(root):
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "argparse.ArgumentParser" for node in nodes):
            found[path] = options_of(path.removesuffix(".py").replace("/", "."), monkeypatch)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if request.config.getoption("--record-commands"):
        RECORD.write_text(text)
    recorded = json.loads(RECORD.read_text())
    assert sorted(found) == sorted(recorded)
    for path, taken in json.loads(text).items():
        assert taken == recorded[path], path


def test_records_stay_as_they_were_made(root):
    """Those that are filled afterwards are few, and named above."""
    left = set()
    for path, nodes in sources(root):
        for node in nodes:
            for mark in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                text = ast.unparse(mark)
                if text.startswith("dataclass") and "frozen=True" not in text:
                    left.add((path, node.name))
    assert left == CHANGE


def test_what_is_paired_is_of_one_length(root):
    """Unless it is meant, and counted above: a pair that ends early drops what no test misses."""
    found = {}
    for path, nodes in sources(root):
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
                strict = {key.arg: ast.unparse(key.value) for key in node.keywords}.get("strict")
                if strict != "True":
                    found[path] = found.get(path, 0) + 1
    assert found == UNEQUAL


def test_a_program_ends_with_the_status_of_its_main(root):
    found = {}
    for path, nodes in sources(root):
        for node in nodes:
            guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
            if guarded and path != "eval/eval.py":  # which becomes the package's program
                found[path] = "\n".join(map(ast.unparse, node.body))
    assert {path: text for path, text in found.items() if text not in PROGRAMS} == OTHER_PROGRAMS


def test_what_annotations_alone_need_is_not_imported(root):
    asked = [
        ast.unparse(node.test)
        for _, nodes in sources(root)
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    assert set(asked) == {"TYPE_CHECKING"}


def test_a_tensor_is_made_where_its_maker_says(root):
    """Those of the host are counted above: what is left out shows on a card alone."""
    found = {}
    for path, nodes in sources(root):
        for node in nodes if path.startswith(ON_A_CARD) else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"torch.{name}" for name in MAKERS}:
                told = {keyword.arg for keyword in node.keywords}
                if not told & {"device", None}:
                    found[path] = found.get(path, 0) + 1
    assert found == OF_THE_HOST


def test_what_becomes_of_a_childs_failure_is_said(root):
    for path, nodes in sources(root):
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.run":
                assert {keyword.arg for keyword in node.keywords} & {"check", None}, f"{path}:{node.lineno}"


def test_json_is_indented_as_the_records_are(root):
    """Beside the evidence's own programs, whose records are many."""
    found = {}
    for path, nodes in sources(root):
        for node in nodes if not path.startswith("scripts/evidence/") else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"json.dump", "json.dumps"}:
                widths = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "indent"]
                found[path] = found.get(path, "") + "".join(widths)
    assert {path: widths for path, widths in found.items() if widths} == INDENTS


def test_what_is_bundled_is_read_and_written_as_utf_8(root):
    """Wherever it is made: beside it, only texts of the loader's own, which are ASCII."""
    found = {}
    for path, nodes in sources(root):
        for node in nodes if path.startswith("scripts/release/") else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".read_text", ".write_text")):
                told = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                found[path] = found.get(path, 0) + (told != {"encoding": "'utf-8'"})
    assert {path: count for path, count in found.items() if count} == {"scripts/release/bundle_loader.py": 3}
