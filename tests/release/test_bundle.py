"""The one-file submission: its contents, that it works alone, and the places reported for its faults."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch

from reference.problems import DEFAULT
from reference.reference import generate_input
from scripts.common.toolchain import BUILD
from scripts.release import bundle
from scripts.release.bundle import has_compiler, lint, locate, make_bundle
from scripts.release.bundle_loader import find_compilers
from scripts.release.bundle_targets import TARGETS, BundleError, collect_sources
from tests.release.bundle_kit import compiler

TINY = "m: 40; n: 72; k: 64; l: 2; seed: 7\n"


# --- what is in it ----------------------------------------------------------------------------------------


def test_directives_come_first_and_the_commit_is_named(cpu_text):
    lines = cpu_text.splitlines()
    assert lines[:2] == ["#!POPCORN leaderboard nvfp4_dual_gemm", "#!POPCORN gpu CPU"]
    assert re.match(
        r"# Target cpu, made by scripts/release/bundle.py from (commit [0-9a-f]{40}|an unknown commit)", lines[2]
    )


def test_sources_are_verbatim_and_complete(root, cpu_text):
    packed = {}
    for node in ast.parse(cpu_text).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Subscript) and target.value.id == "_SOURCES":
            packed[target.slice.value] = node.value.value
    wanted = [*root.glob("submission/*.h"), *root.glob("submission/c*/**/*.[ch]")]
    wanted = [path for path in wanted if path.name != "kernels_neon.c"]  # no leaderboard has such a CPU
    assert packed == {path.relative_to(root).as_posix(): path.read_text() for path in wanted}


def test_every_target_here_is_clean(root):
    for target in TARGETS:
        try:
            made = make_bundle(target)
        except BundleError as error:
            folder = {"b200": "blackwell", "h200": "hopper", "geforce": "geforce"}[target]
            assert folder in str(error) and not (root / "submission" / folder).exists()
            continue
        assert lint(made.text.encode())[0] == []


def test_a_target_without_its_sources_says_which(checkout):
    shutil.rmtree(checkout / "submission" / "hopper", ignore_errors=True)
    with pytest.raises(BundleError, match=r"target h200 needs submission/hopper/\*\*/\*\.c, which does not exist"):
        make_bundle("h200", checkout)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release.bundle", "--target", "h200"],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "bundle: target h200 needs submission/hopper" in done.stderr
    assert not (checkout / "build").exists()


@pytest.mark.parametrize(
    ("capability", "nvcc", "wanted"),
    [
        (None, True, "b200"),
        (None, False, "cpu"),
        (9, True, "h200"),
        (10, True, "b200"),
        (12, True, "geforce"),
        (8, True, "cpu"),
    ],
)
def test_the_target_fits_the_machine(checkout, monkeypatch, capability, nvcc, wanted):
    for folder in ("blackwell", "geforce", "hopper"):
        (checkout / "submission" / folder).mkdir(exist_ok=True)
        for name in ("x.c", "x.cu", "x.h", "x.cuh"):
            (checkout / "submission" / folder / name).write_text("\n")
    (checkout / "submission" / "gpu").mkdir(exist_ok=True)
    (checkout / "submission" / "gpu" / "x.cuh").write_text("\n")
    monkeypatch.setattr(bundle, "ROOT", checkout)
    monkeypatch.setattr(bundle, "has_compiler", lambda target: nvcc)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (capability, 0))
    assert bundle.choose_target() == wanted
    if wanted == "b200":
        shutil.rmtree(checkout / "submission" / "blackwell")
        assert bundle.choose_target() == ("h200" if capability is None else "cpu")


def test_the_same_tree_gives_the_same_bytes(root, tmp_path):
    made = []
    for seed in ("0", "1"):
        output = tmp_path / f"{seed}.py"
        command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--no-compile"]
        subprocess.run(
            [*command, "--output", str(output)],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed}"},
            check=True,
            capture_output=True,
        )
        made.append(output.read_bytes())
    assert made[0] == made[1]


def test_the_comment_says_whether_the_tree_is_that_of_the_commit(checkout):
    def git(*arguments):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", "-C", str(checkout), *identity, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def comment():
        return make_bundle("cpu", checkout).text.splitlines()[2]

    assert "from an unknown commit (no git checkout);" in comment()
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    commit = git("rev-parse", "HEAD")
    assert f"from commit {commit};" in comment()
    (checkout / "notes.txt").write_text("no part of the bundle")
    assert f"from commit {commit};" in comment()
    (checkout / "submission" / "core" / "extra.h").write_text("/* new */\n")
    assert f"from commit {commit} with uncommitted changes;" in comment()


# --- faults are found where they are ----------------------------------------------------------------------


def append(path, text):
    """Appends text to a file; returns the text's line."""
    line = path.read_text().count("\n") + 1
    with path.open("a") as file:
        file.write(text)
    return line


@pytest.mark.parametrize(
    ("name", "text", "column", "message"),
    [
        ("submission/cpu/pack.c", "/* a Stream */\n", 6, "filtered-word: 'Stream' is refused in any case"),
        ("submission/custom_kernel.h", "/* /usr/include/x.h */\n", 4, "absolute-path: /usr/include"),
        ("submission/core/message.c", "#define PASTE(a, b) a##b\n", 22, "token-pasting: names are to be"),
        ("submission/submission.py", "if _call: import einops\n", 11, "import: the runner has no module 'einops'"),
        ("submission/submission.py", "_call[id(_call)]\n", 1, "pointer-key: a look-up by a tensor's address"),
        ("scripts/release/bundle_loader.py", "# upstream\n", 5, "filtered-word: 'stream' is refused in any case"),
    ],
)
def test_a_planted_fault_is_named_by_its_place_in_the_checkout(checkout, name, text, column, message):
    line = append(checkout / name, text)
    made = make_bundle("cpu", checkout)
    (finding,) = lint(made.text.encode())[0]
    assert locate(made, "out.py", finding).startswith(f"{name}:{line}:{column}: {message}")


def test_a_compiler_error_is_reported_with_its_place(checkout, tmp_path):
    """Runs the command with a compiler that only checks for errors."""
    environment = {**os.environ, "CC": compiler(tmp_path / "cc", 'exec cc "$@" -fsyntax-only')}
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", "out.py"]
    options = {"cwd": checkout, "env": environment, "capture_output": True, "text": True}
    path = checkout / "submission" / "cpu" / "pack.c"
    line = append(path, "int broken = ;\n")
    done = subprocess.run(command, **options)
    assert done.returncode == 1 and not (checkout / "out.py").exists()
    assert f"submission/cpu/pack.c:{line}:14: error" in done.stdout, done.stdout
    assert "1 finding(s), out.py not written" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"/* caf\xe9 */\n", "extra.h is not UTF-8"),
        (b"int x;", "extra.h does not end with a line feed"),
        (b"\"\"\" '''\n", "extra.h contains both kinds of triple quotes"),
    ],
)
def test_sources_that_cannot_be_packed_are_named(checkout, content, message):
    (checkout / "submission" / "core" / "extra.h").write_bytes(content)
    with pytest.raises(BundleError, match=message):
        make_bundle("cpu", checkout)


def test_lines_map_to_their_origin():
    made = make_bundle("cpu")
    lines = made.text.split("\n")
    sources = {*collect_sources("cpu"), "submission/shim.py", DEFAULT.submission, bundle.LOADER}
    mapped = 0
    for number, line in enumerate(lines, 1):
        origin = made.origin(number)
        if origin is not None:
            name, place = origin
            assert name in sources
            original = (bundle.ROOT / name).read_text().split("\n")[place - 1]
            assert line.removeprefix('r"""') == original or line == original, (number, origin)
            mapped += 1
    assert mapped > 0.9 * len(lines)
    unplaced = bundle.Finding(1, 1, "size", "too big")
    assert locate(made, "out.py", unplaced) == "out.py:1:1: size: too big"


# --- it stands alone --------------------------------------------------------------------------------------


def test_its_results_are_those_of_the_package(library_path, cpu_text, tmp_path, monkeypatch):
    from submission.submission import backends, custom_kernel

    path = tmp_path / "bundled.py"
    path.write_text(cpu_text)
    monkeypatch.setenv("NVFP4_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", compiler(tmp_path / "cc", 'exec cc "$@" -O1'))  # a fifth of -O3's time
    spec = importlib.util.spec_from_file_location("bundled", path)
    bundled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bundled)
    assert bundled.library._name.startswith(str(tmp_path / "cache"))
    data = generate_input(70, 90, 192, 2, full=True, device="cpu")
    wanted = custom_kernel(data).clone()
    data[9].fill_(0)
    assert torch.equal(bundled.custom_kernel(data).nan_to_num(-1), wanted.nan_to_num(-1))
    assert bundled.backends()[-1] == backends()[-1]


def test_check_runs_the_harness_on_it_from_an_empty_folder(root, copies, tmp_path):
    cases, output = tmp_path / "cases.txt", tmp_path / "build" / "out.py"
    cases.write_text(TINY)
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", str(output)]
    done = subprocess.run(
        [*command, "--check", "--cases", str(cases)],
        cwd=root,
        env={
            **os.environ,
            "CC": copies,
            "NVFP4_CACHE": str(tmp_path / "c"),
            "NVFP4_LIBRARY": str(tmp_path / "none.so"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"{output}: target cpu, {output.stat().st_size} bytes, first import \d+\.\d s", done.stdout)
    assert "1 of 1 tests pass" in done.stdout


def test_a_bundle_that_fails_the_harness_is_not_written(checkout, root, copies, tmp_path):
    shutil.copytree(root / "eval", checkout / "eval", ignore=shutil.ignore_patterns("__pycache__"))
    cases, output = tmp_path / "cases.txt", tmp_path / "out.py"
    cases.write_text(TINY)
    shim = checkout / "submission" / "submission.py"
    shim.write_text(shim.read_text().replace("    return c\n", "    return c.zero_()\n"))
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", str(output)]
    environment = {**os.environ, "CC": copies, "NVFP4_CACHE": str(tmp_path / "c"), "BUILD": str(BUILD)}
    options = {"cwd": checkout, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([*command, "--no-compile", "--check", "--cases", str(cases)], **options)
    assert done.returncode == 1 and not output.exists(), done.stdout + done.stderr
    assert "the harness ended with exit status 112" in done.stderr and "not written" in done.stderr


def test_a_compiler_that_the_bundle_would_not_find_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not has_compiler("cpu") and not has_compiler("h200")


@pytest.mark.skipif(not has_compiler("b200"), reason="no nvcc")
@pytest.mark.parametrize("target", [name for name in TARGETS if name != "cpu"])
def test_a_gpu_bundle_compiles_and_the_boards_well_within_its_limit(target, monkeypatch, tmp_path):
    """Without optimisation, except for the leaderboard's own card."""
    try:
        made = make_bundle(target)
    except BundleError as error:
        pytest.skip(str(error))
    if target != "b200":
        cc, nvcc = find_compilers(cuda=True)
        monkeypatch.setenv("CC", compiler(tmp_path / "cc", f'exec {cc} "$@" -O0'))
        monkeypatch.setenv("NVCC", compiler(tmp_path / "nvcc", f'exec {nvcc} "$@" -Xcicc -O0 -Xptxas -O0'))
    # CPU time of this process and the compilers counts: wall time depends on the machine's load.
    limit_s = bundle.COMPILE_LIMIT_S
    monkeypatch.setattr(bundle, "COMPILE_LIMIT_S", 4 * limit_s)
    before = os.times()
    seconds, output = bundle.try_bundle(made.text.replace(f"_LIMIT_S = {limit_s}", f"_LIMIT_S = {4 * limit_s}"))
    after = os.times()
    assert seconds is not None, output
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert 1 < spent < limit_s / 2
