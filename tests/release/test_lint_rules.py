"""scripts/release/lint.py at the edges of each rule: every name in its lists, and names just outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from scripts.release import lint as lint_submission
from scripts.release.lint import KERNELGUARD_LIMIT_S, Finding, kernelguard_findings, lint_bytes, main

HEAD = "#!POPCORN leaderboard x\n#!POPCORN gpu B200\n"
BODY = "def custom_kernel(data):\n    return data\n"
START = HEAD + BODY  # four lines


def found(text):
    """(line, column, rule) of every finding."""
    return [finding[:3] for finding in lint_bytes(text.encode())]


def test_the_start_is_clean():
    assert found(START) == []


# --- directives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#!POPCORN leaderboard x\nimport torch\n#!POPCORN gpu B200\n", [(1, 1), (3, 1)]),  # one line after the block
        ("#!POPCORN leaderboard x\n\n#!POPCORN gpu B200\n", [(1, 1), (3, 1)]),
        ("# a comment\n// another\n//!POPCORN leaderboard x\n#!POPCORN gpus B200 H200\n", []),
        ("#!POPCORN leaderboard x\n", [(1, 1)]),
        ("#!POPCORN gpu x\n", [(1, 1)]),
        ("#!POPCORN leaderboard   \n#!POPCORN gpu x\n", [(1, 1), (1, 1)]),
        ("#!POPCORN leaderboard x\n #!POPCORN gpu x\n#!POPCORN gpu x\n", [(1, 1), (2, 1), (3, 1)]),
        (HEAD + "#!popcorn gpu x\n", [(3, 1)]),
        (HEAD + "# ! POPCORN gpu x\n", [(3, 1)]),
        (HEAD + "// !POPCORN gpu x\n", [(3, 1)]),
        (HEAD + "#!POPCORNS are fine\n# POPCORN too\n", []),
    ],
)
def test_directives(text, wanted):
    assert [place[:2] for place in found(text + BODY) if place[2] != "syntax"] == wanted


def test_a_directive_says_what_is_wrong_with_it():
    text = "#!POPCORN leaderboard\n # !POPCORN x\nx = 1\n#!POPCORN gpu y\n" + BODY
    assert [finding.message for finding in lint_bytes(text.encode())] == [
        "!POPCORN leaderboard has no value",
        "the first comment block has no '#!POPCORN gpu NAME'",
        "the first comment block has no '#!POPCORN leaderboard NAME'",
        "not read; expected '#!POPCORN KEY VALUE' from the line's start",
        "a !POPCORN line after the first comment block is not read",
    ]


def test_a_file_of_comments_alone_has_its_directives_in_the_first_block():
    assert found(HEAD.rstrip("\n")) == [(1, 1, "entry-point")]


# --- paths, imports, the entry point -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder",
    [
        "bin",
        "boot",
        "content",
        "data",
        "dev",
        "etc",
        "home",
        "lib",
        "lib64",
        "media",
        "mnt",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "tmp",
        "usr",
        "Users",
        "var",
        "work",
        "workspace",
    ],
)
def test_a_path_from_the_root_is_found(folder):
    assert found(f"{START}x = '/{folder}/a-b.c'\n") == [(5, 6, "absolute-path")]
    assert lint_bytes(f"{START}x = '/{folder}/a-b.c'\n".encode())[0].message.startswith(f"/{folder}/a-b.c need not")


@pytest.mark.parametrize("before", ["a", ".", "/", "*", ")", "]", "}", "$", "~", ":", "-"])
def test_text_just_before_the_slash_makes_it_no_absolute_path(before):
    assert found(f"{START}# {before}/usr/include\n") == []


@pytest.mark.parametrize(
    ("text", "column"),
    [("/usr", None), ("/usr/", None), ("/users/x", None), (r"D:\x\y", 3), (r"D:\\x\\y", 3), (r"aD:\x\y", None)],
)
def test_other_paths(text, column):
    assert found(f"{START}# {text}\n") == ([(5, column, "absolute-path")] if column else [])


@pytest.mark.parametrize(
    "name",
    ["torch", "triton", "numpy", "ninja", "setuptools", "cutlass", "cuda", "task", "utils", "reference", "os", "re"],
)
def test_the_runner_has_these_modules(name):
    assert found(f"{START}import {name}\nimport {name}.part as p\nfrom {name}.part import q\n") == []


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("import os, scipy", 1, "the runner has no module 'scipy'"),
        ("from torchvision.x import y", 1, "the runner has no module 'torchvision'"),
        ("if 1: from .torch import y", 7, "a relative import needs files beside this one"),
        ("if 1: from .. import y", 7, "a relative import needs files beside this one"),
    ],
)
def test_other_modules_are_found(line, column, message):
    assert lint_bytes(f"{START}{line}\n".encode()) == [Finding(5, column, "import", message)]


@pytest.mark.parametrize(
    ("definition", "there"),
    [
        ("class custom_kernel: pass", True),
        ("from x import y as custom_kernel", True),
        ("from torch import custom_kernel", True),
        ("from torch import custom_kernel as y", False),
        ("a = custom_kernel = 1", True),
        ("a[0] = custom_kernel", False),
        ("if 1:\n    def custom_kernel(data): pass", False),
        ("custom_kernel(1)", False),
    ],
)
def test_the_entry_point_is_bound_at_the_top(definition, there):
    rules = [rule for _, _, rule in found(f"{HEAD}{definition}\n")]
    assert ("entry-point" not in rules) == there


# --- text -----------------------------------------------------------------------------------------------------------


def test_every_filtered_word_of_a_line_is_found():
    assert found(f"{START}# stream Streams\n") == [(5, 3, "filtered-word"), (5, 10, "filtered-word")]
    assert "'Stream' is refused" in lint_bytes(f"{START}# Streams\n".encode())[0].message


@pytest.mark.parametrize(
    "c", ["#include <x.h>", "#define x", "# define x", "#pragma once", "__global__ void f();", 'extern "C" f();']
)
def test_pasting_is_found_in_every_text_of_c(c):
    text = f"{START}x = r'''{c}\na ## b\nc##d ##'''\n"
    assert found(text) == [(6, 3, "token-pasting"), (7, 2, "token-pasting"), (7, 6, "token-pasting")]


def test_pasting_is_looked_for_in_the_text_itself():
    assert found(f'{START}a, x = "##", "#pragma a ## b"\n') == [(5, 25, "token-pasting")]
    assert found(f"{START}x = 'a ## b, __global'\n") == []


def test_an_encoding_fault_has_its_line_and_byte():
    findings = lint_bytes(START.encode() + b"# ab\xff stream\n")
    assert findings == [Finding(5, 5, "encoding", "byte 0xff is not UTF-8 (invalid start byte)")]


def test_size_is_reported_with_the_limit():
    content = START.encode() + b"#" * 1_000_000
    assert lint_bytes(content) == [
        Finding(1, 1, "size", f"the file has {len(content)} bytes; expected fewer than 1000000")
    ]


def test_a_syntax_error_has_its_place_and_words():
    (finding,) = lint_bytes(f"{START}x = (1,\n".encode())
    assert finding[:3] == (5, 5, "syntax") and finding.message == "not valid Python: '(' was never closed"


# --- look-ups by address --------------------------------------------------------------------------------------------


def keys(*lines):
    """(line, column) of pointer-key findings in lines of custom_kernel, the first of which is 1."""
    text = HEAD + "def custom_kernel(data, cache, t):\n" + "".join(f"    {line}\n" for line in lines)
    places = found(text)
    assert {rule for _, _, rule in places} <= {"pointer-key"}
    return [(line - 3, column - 4) for line, column, _ in places]


@pytest.mark.parametrize(
    "around",
    [
        "launch({})",
        "launch(1, size={})",
        "other.get({})",
        "table[{}]",
        "{} in table",
        "1 in {}",
        "value = {}",
        "value: int = {}",
        "(value := {})",
        "value += {}",
        "[{} for i in data]",
        "lambda: {}",
        "(yield {})",
        "other if {} else 1",
    ],
)
def test_a_lookup_is_found_inside_of_whatever_stands_around_it(around):
    place = around.index("{}") + 1
    assert (1, place) in keys(around.format("cache[t.data_ptr()]"))


@pytest.mark.parametrize("call", ["data_ptr", "untyped_storage", "storage", "const_data_ptr", "_data_ptr"])
def test_every_call_that_gives_an_address(call):
    assert keys(f"cache[t.{call}()]") == [(1, 1)]
    assert keys(f"cache[{call}(t)]") == [(1, 1)]


@pytest.mark.parametrize(
    "maker", ["tuple", "list", "frozenset", "hash", "int", "str", "repr", "hex", "sorted", "format"]
)
def test_a_key_made_of_an_address_is_one(maker):
    assert keys(f"cache[{maker}(t.data_ptr())]") == [(1, 1)]
    assert keys("cache[','.join(t.data_ptr())]") == [(1, 1)]


@pytest.mark.parametrize("call", ["get", "setdefault", "pop", "__getitem__", "__setitem__", "__contains__"])
def test_every_call_that_looks_up(call):
    assert keys(f"cache.{call}(id(t), 1)") == [(1, 1)]
    assert keys(f"cache.{call}(1, id(t))") == [] and keys(f"cache.{call}()") == []
    assert keys(f"{call}(id(t))") == []


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["id(t) in cache"], [(1, 1)]),
        (["id(t) not in cache"], [(1, 1)]),
        (["id(t) == 1 and cache[1]"], []),
        (["1 in cache and id(t)"], []),
        (["t.id(1) in cache"], []),
        (["cache[launch(t.data_ptr())]"], []),
        (["a, b = id(t), 1", "cache[b]"], [(2, 1)]),
        (["cache[0] = id(t)", "cache[1]"], []),
        (["a = b = id(t)", "cache[a]", "cache[b]"], [(2, 1), (3, 1)]),
        (["a: int", "cache[a]"], []),
        (["while 1:", "    cache[a]", "    a = id(t)"], [(2, 5)]),
        (["async def f():", "    a = id(t)", "    cache[a]"], [(3, 5)]),
        (["def f():", "    a = id(t)", "def g(a):", "    cache[a]"], []),
        (["a = id(t)", "def f():", "    return cache[a]"], [(3, 12)]),
    ],
)
def test_addresses_are_followed_through_names(lines, wanted):
    assert keys(*lines) == wanted


# --- KernelGuard, the command ---------------------------------------------------------------------------------------


@pytest.fixture
def guard(monkeypatch):
    """A stand-in for KernelGuard that prints a given answer and records its arguments."""

    def says(verdict):
        called = {}

        def run(command, **options):
            called.update(options, command=command)
            return subprocess.CompletedProcess(command, 0, stdout=json.dumps(verdict).encode(), stderr=b"")

        monkeypatch.setattr(lint_submission.importlib.util, "find_spec", lambda name: name)
        monkeypatch.setattr(lint_submission.subprocess, "run", run)
        return called

    return says


def test_kernelguard_reads_the_file_and_has_a_time_limit(guard):
    called = guard({"matched_patterns": []})
    assert kernelguard_findings(b"content") == []
    assert called["command"] == [sys.executable, "-m", "kernelguard", "--api-mode"]
    assert called["input"] == b"content" and called["timeout"] == KERNELGUARD_LIMIT_S == 120


def test_patterns_are_placed_by_the_first_name_that_stands_in_the_text(guard):
    text = b"my_sys.modules\n  sys.modules_x sys.modules\nprint()\n"
    entries = [
        ("no.where sys.modules", (2, 17)),
        ("print(...)", (3, 1)),
        ("print", (1, 1)),
        (None, (1, 1)),
    ]
    patterns = [{"pattern": "P", "severity": "high", "evidence": evidence} for evidence, _ in entries]
    guard({"matched_patterns": patterns, "should_filter": True, "filter_reason": "x"})
    findings = kernelguard_findings(text)
    assert [finding[:2] for finding in findings] == [place for _, place in entries]
    assert findings[0][2:] == ("kernelguard", "P (high): no.where sys.modules")
    assert findings[3].message == "P (high): "


@pytest.mark.parametrize("verdict", [{}, [], {"matched": []}])
def test_an_answer_of_another_form_is_no_verdict(guard, verdict):
    guard(verdict)
    (finding,) = kernelguard_findings(b"")
    assert finding[:3] == (1, 1, "kernelguard") and "gave no verdict (exit status 0)" in finding.message


def test_one_file_with_findings_fails_all_and_notes_are_printed(monkeypatch, tmp_path, capsys):
    dirty, clean = tmp_path / "dirty.py", tmp_path / "clean.py"
    dirty.write_text(START + "# stream\n")
    clean.write_text(START)
    monkeypatch.setattr(lint_submission, "kernelguard_findings", lambda content: None)
    assert main([str(dirty), str(clean)]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"{dirty}:5:3: filtered-word: 'stream' is refused in any case, comments included",
        f"{clean}: no findings ({len(START)} bytes)",
    ]
    assert said.err.count("note: kernelguard is not installed") == 2
    assert main([str(clean)]) == 0
