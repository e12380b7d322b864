"""scripts/release/lint.py: each rule finds its planted fault at the right line and column, and nothing else."""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
import time

import pytest

from scripts.release import lint as lint_submission
from scripts.release.lint import KERNELGUARD_LIMIT_S, MAX_BYTES, Finding, kernelguard_findings, lint, lint_bytes

CLEAN = '''#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""A clean submission."""
import ctypes
import torch
from task import input_t, output_t

SOURCE = r"""
#define TWICE(x) (2 * (x)) // a path: submission/core/x.c, a ratio: a/b, a comment /* */
__global__ void kernel(void) {}
"""


def custom_kernel(data: input_t) -> output_t:
    pointers = [tensor.data_ptr() for tensor in data]
    status = launch(*pointers)
    return {0: data[-1]}[status]
'''


def places(text, rule):
    """(line, column) of the rule's findings; every finding has to be of that rule."""
    found = lint_bytes(text.encode() if isinstance(text, str) else text)
    assert {finding.rule for finding in found} <= {rule}, found
    return [(finding.line, finding.column) for finding in found]


def planted(old, new):
    """CLEAN with one thing changed."""
    assert CLEAN.count(old) == 1
    return CLEAN.replace(old, new)


def inside_kernel(*lines):
    """CLEAN with these lines first in custom_kernel, from line 15."""
    return planted("    pointers =", "".join(f"    {line}\n" for line in lines) + "    pointers =")


def test_a_clean_file_has_no_findings():
    assert lint_bytes(CLEAN.encode()) == []


@pytest.mark.parametrize("word", ["stream", "STREAM", "cudaStream_t", "upstream"])
def test_the_filtered_word_is_found_in_any_case(word):
    column = word.lower().index("stream") + 1
    assert places(planted("void kernel(void)", f"void {word}(void)"), "filtered-word") == [(10, 16 + column)]
    assert places(CLEAN + f"# {word}, {word}\n", "filtered-word") == [
        (18, 2 + column),
        (18, 4 + len(word) + column),
    ]


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ('PATH = "/usr/local/cuda/bin/nvcc"', 9),
        ("# see /home/me/kernel.cu", 7),
        ('FLAGS = "-I/opt/cutlass/include"', None),
        ('FLAGS = "-I", "/opt/cutlass/include"', 16),
        ("PATH = r'C:\\Users\\me'", 10),
        ("x = a / tmp / b", None),
        ('NAME = "build/tmp/x"', None),
        ("# https://example.org/home/page", None),
        ("#!/usr/bin/env python3", None),
    ],
)
def test_absolute_paths_are_found(line, column):
    assert places(f"{CLEAN}{line}\n", "absolute-path") == ([(18, column)] if column else [])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("import requests", [(18, 1)]),
        ("import os, scipy.linalg", [(18, 1)]),
        ("from . import kernels", [(18, 1)]),
        ("from flash_attn.ops import x", [(18, 1)]),
        ("if torch: import einops", [(18, 11)]),
        ("import numpy, triton.language, subprocess, torch.utils.cpp_extension", []),
    ],
)
def test_imports_the_runner_lacks_are_found(line, wanted):
    assert places(f"{CLEAN}{line}\n", "import") == wanted


def test_directives_have_to_be_in_the_first_comment_block():
    moved = CLEAN.split("\n", 2)[2] + "#!POPCORN leaderboard nvfp4_dual_gemm\n#!POPCORN gpu B200\n"
    assert places(moved, "directive") == [(1, 1), (1, 1), (16, 1), (17, 1)]
    assert places(planted("#!POPCORN gpu B200", "#!POPCORN gpu"), "directive") == [(1, 1), (2, 1)]
    assert places(planted("#!POPCORN gpu", "# a comment first\n#!POPCORN gpus"), "directive") == []
    assert places(planted("#!POPCORN gpu", "# !POPCORN gpu"), "directive") == [(1, 1), (2, 1)]
    assert places("\n" + CLEAN, "directive") == [(1, 1), (1, 1), (2, 1), (3, 1)]


def test_token_pasting_is_found_in_cuda_text_alone():
    assert places(planted("(2 * (x)) //", "cuda ## x //"), "token-pasting") == [(9, 23)]
    assert places(planted("(2 * (x)) //", "cuda %:%: x //"), "token-pasting") == [(9, 23)]
    assert places(planted('"""A clean submission."""', '"""A\n## heading\n"""\n## another'), "token-pasting") == []
    carriage_returns = planted("#define", "#define A a##b\n#define").replace("\n", "\r").replace("\r", "\n", 2)
    assert places(carriage_returns, "token-pasting") == [(9, 12)]  # lines as Python counts them


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["if data[0].data_ptr() in cache: return cache[1]"], [(15, 8)]),
        (["key = tuple(t.data_ptr() for t in data)", "if key not in cache:", "    cache[key] = 1"], [(16, 8), (17, 9)]),
        (["key = (id(data), 1)", "return cache.get(key)"], [(16, 12)]),
        (["return cache[data[0].untyped_storage()]"], [(15, 12)]),
        (["if (key := hash(data[0].data_ptr())) and cache.setdefault(key, 1): pass"], [(15, 46)]),
        (["key: int = data[0].data_ptr()", "name = f'{key}'", "cache[name]"], [(17, 5)]),
        (["key = data[0].shape", "cache[key] = data[0].data_ptr()"], []),
        (["total = launch(data[0].data_ptr())", "cache[total]"], []),
        (["for key in data: cache[key]", "other = data[0].data_ptr()"], []),
        (["a, b = id(data), 1", "cache[b]"], [(16, 5)]),
        (["while 1:", "    cache[a]", "    a = id(data)"], [(16, 9)]),
        (["a = id(data)", "def f():", "    return cache[a]"], [(17, 16)]),
        (["def f():", "    a = id(data)", "def g(a):", "    cache[a]"], []),
    ],
)
def test_lookups_by_pointer_are_found(lines, wanted):
    assert places(inside_kernel(*lines), "pointer-key") == wanted


def test_a_pointer_name_of_one_function_means_nothing_in_another():
    text = inside_kernel("key = data[0].data_ptr()") + "\n\ndef other(key):\n    return {}[key]\n"
    assert places(text, "pointer-key") == []


def test_size_and_encoding():
    padding = b"#" * (MAX_BYTES - len(CLEAN.encode()) - 1)
    assert lint_bytes(CLEAN.encode() + padding) == []
    assert places(CLEAN.encode() + padding + b"#", "size") == [(1, 1)]
    bad = CLEAN.encode().replace(b"A clean", b"A \xff clean")
    assert places(bad, "encoding") == [(3, 6)]
    assert places(codecs.BOM_UTF8 + CLEAN.encode(), "encoding") == [(1, 1)]  # alone: what follows from it is no news


def test_python_errors_are_placed():
    assert places(CLEAN + "def (:\n", "syntax") == [(18, 5)]
    assert places(CLEAN + "x = '\0'\n", "syntax")[0][0] in (1, 18)  # a NUL; later versions of Python give its line
    assert places(CLEAN + "return 1\n", "syntax") == [(18, 1)]  # Python finds it after parsing


def test_a_file_without_the_function_is_found():
    assert places(planted("def custom_kernel", "def kernel"), "entry-point") == [(1, 1)]
    assert places(planted("def custom_kernel", "custom_kernel: object\n\ndef kernel"), "entry-point") == [(1, 1)]
    for bound in (
        "custom_kernel = print",
        "custom_kernel, other = print, print",
        "custom_kernel: object = print",
        "from torch import abs as custom_kernel",
        "if torch.version.cuda:\n    def custom_kernel(data): pass\nelse:\n    custom_kernel = print",
    ):
        assert places(planted("def custom_kernel", f"{bound}\n\ndef kernel"), "entry-point") == []


def test_findings_come_in_the_order_of_lines():
    found = lint_bytes(("\n" + CLEAN + "# stream\nimport requests\n").encode())
    assert [finding.line for finding in found] == sorted(finding.line for finding in found)
    assert {finding.rule for finding in found} == {"directive", "filtered-word", "import"}


# --- KernelGuard ------------------------------------------------------------------------------------------


def test_kernelguards_findings_are_reported():
    pytest.importorskip("kernelguard")
    assert kernelguard_findings(CLEAN.encode()) == []
    cached = (
        inside_kernel("key = data[0].data_ptr()", "if key in _cache:", "    return _cache[key]") + "\n_cache = {}\n"
    )
    found = kernelguard_findings(cached.encode())
    assert any(finding.rule == "kernelguard" and "POINTER_REPLAY" in finding.message for finding in found)
    findings, notes = lint(cached.encode())
    assert findings == [*lint_bytes(cached.encode()), *found] and notes == []


@pytest.mark.parametrize(
    ("line", "column", "pattern"),
    [
        ("    thread = threading.Thread(target=print)", 14, "THREAD_INJECTION"),
        ("    modules = sys.modules", 15, "SYS_MODULES_ACCESS"),
    ],
)
def test_kernelguards_findings_have_the_place_of_what_they_name(line, column, pattern):
    pytest.importorskip("kernelguard")
    text = "import sys, threading\nmy_sys.modules = 0\ndef custom_kernel(data):\n" + line + "\n    return data[-1]\n"
    found = [finding for finding in kernelguard_findings(text.encode()) if pattern in finding.message]
    assert [(finding.line, finding.column) for finding in found] == [(4, column)]


def test_without_kernelguard_a_note_says_so(monkeypatch):
    monkeypatch.setattr(lint_submission.importlib.util, "find_spec", lambda name: None)
    findings, notes = lint(CLEAN.encode())
    assert findings == [] and "kernelguard is not installed" in notes[0]


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (b"Traceback\n  File\nMemoryError\n", "gave no verdict (exit status 3): MemoryError"),
        (json.dumps({"matched_patterns": [], "should_filter": True, "filter_reason": "why"}).encode(), "file: why"),
    ],
)
def test_a_detector_that_breaks_or_refuses_without_a_pattern_is_a_finding(monkeypatch, printed, message):
    monkeypatch.setattr(lint_submission.importlib.util, "find_spec", lambda name: name)
    done = subprocess.CompletedProcess([], 3, stdout=printed, stderr=b"")
    monkeypatch.setattr(lint_submission.subprocess, "run", lambda *args, **kwargs: done)
    (finding,) = kernelguard_findings(b"")
    assert finding[:3] == Finding(1, 1, "kernelguard", "")[:3] and message in finding.message


# --- the command ------------------------------------------------------------------------------------------


def command(root, *arguments):
    command = [sys.executable, "-m", "scripts.release.lint", *map(str, arguments)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def test_the_command_prints_places_and_its_exit_status_says_whether(root, tmp_path):
    clean, dirty = tmp_path / "clean.py", tmp_path / "dirty.py"
    clean.write_text(CLEAN)
    dirty.write_text(CLEAN + "x = 1  # stream\n")
    done = command(root, clean)
    assert done.returncode == 0 and f"{clean}: no findings ({len(CLEAN)} bytes)" in done.stdout
    done = command(root, clean, dirty)
    assert done.returncode == 1
    assert f"{dirty}:18:10: filtered-word: 'stream' is refused in any case, comments included\n" in done.stdout


def test_a_missing_file_is_wrong_usage(root, tmp_path):
    done = command(root, tmp_path / "none.py")
    assert done.returncode == 2 and "none.py: No such file or directory" in done.stderr


def test_a_file_that_kernelguard_never_ends_on_has_lints_own_findings_in_time(monkeypatch):
    def sleeps(command, timeout, run=subprocess.run, **how):
        if "kernelguard" not in command:
            return run(command, timeout=timeout, **how)
        raise subprocess.TimeoutExpired(command, timeout)

    pytest.importorskip("kernelguard")
    monkeypatch.setattr(subprocess, "run", sleeps)
    *own, guard = lint(b"CODE = '" + b"0123456789abcdef" * 25000 + b"'\n")[0]
    assert "entry-point" in {finding.rule for finding in own} and KERNELGUARD_LIMIT_S <= 30
    assert guard.rule == "kernelguard" and f"no verdict within {KERNELGUARD_LIMIT_S} s" in guard.message


NESTED = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(90)) + " " * 90 + "pass\n"


@pytest.mark.parametrize(
    "text",
    [NESTED, "x = [" + '"#define a", ' * 60_000 + "]\n", "x = f'" + "{a}#define b " * 60_000 + "'\n"],
    ids=["functions in functions", "constants in a line", "parts of an f-string"],
)
def test_own_rules_end_in_time_on_what_repeats(text):
    begin = time.process_time()
    lint_bytes((CLEAN + text).encode())
    assert time.process_time() - begin < 15


def test_a_name_of_an_inner_function_is_known_in_its_loop_alone():
    lines = ["def f():", "    while 1:", "        cache[a]", "        a = id(data)", "def g(a):", "    cache[a]"]
    assert places(inside_kernel(*lines), "pointer-key") == [(17, 13)]


@pytest.mark.parametrize("module", ["lint", "submit"])
def test_a_file_without_end_is_wrong_usage(root, module):
    command = [sys.executable, "-m", f"scripts.release.{module}", "/dev/zero"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 2 and "/dev/zero: longer than 16000000 bytes; expected a submission" in done.stderr


def test_an_expression_nested_too_deeply_is_a_finding():
    for terms in (900, 100_000):
        found = lint_bytes(b"x = " + b" + ".join([b"a.b"] * terms) + b"\n")
        assert any(finding.rule == "syntax" for finding in found), terms
