"""The one-file submission: what is in it, that it stands alone, and that its faults are found where they are."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time

import pytest
import torch

from reference.reference import generate_input
from scripts.release import bundle, bundle_loader
from scripts.release.bundle import TARGETS, BundleError, collect_sources, has_compiler, lint, locate, make_bundle

TINY = "m: 40; n: 72; k: 64; l: 2; seed: 7\n"
IMPORT = "import submission; print(submission._library._name)"


@pytest.fixture(scope="module")
def cpu_text():
    return make_bundle("cpu").text


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    """One cache for the tests to which compiling does not matter."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def alone(tmp_path, cpu_text):
    """An empty folder with the CPU bundle in it; returns a function that imports it in a process of its own."""
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "submission.py").write_text(cpu_text)

    def start(cache=tmp_path / "cache", code=IMPORT, **environment):
        variables = {**os.environ, "NVFP4_CACHE": str(cache), **environment}
        variables.pop("PYTHONPATH", None)
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(*args, **kwargs):
        process = start(*args, **kwargs)
        output, errors = process.communicate()
        return process.returncode, output.strip(), errors

    run.start, run.folder, run.cache = start, folder, tmp_path / "cache"
    return run


@pytest.fixture
def checkout(root, tmp_path):
    """A copy of what the bundler reads, to change."""
    copy = tmp_path / "checkout"
    for folder in ("submission", "scripts", "reference"):
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def compiler(path, script):
    """A C compiler that is this shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def entries(cache):
    return sorted(path.name for path in cache.iterdir())


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
    wanted = [*root.glob("submission/*.h"), *root.glob("submission/c*/*.[ch]")]
    assert packed == {path.relative_to(root).as_posix(): path.read_text() for path in wanted}


def test_every_target_here_is_clean(root):
    for target in TARGETS:
        try:
            made = make_bundle(target)
        except BundleError as error:
            folder = {"b200": "blackwell", "h200": "hopper"}[target]
            assert folder in str(error) and not (root / "submission" / folder).exists()
            continue
        assert lint(made.text.encode())[0] == []


def test_a_target_without_its_sources_says_which(checkout):
    shutil.rmtree(checkout / "submission" / "hopper", ignore_errors=True)
    with pytest.raises(BundleError, match=r"target h200 needs submission/hopper/\*\.c, which does not exist"):
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
    [(None, True, "b200"), (None, False, "cpu"), (9, True, "h200"), (10, True, "b200"), (8, True, "cpu")],
)
def test_the_target_fits_the_machine(checkout, monkeypatch, capability, nvcc, wanted):
    for folder in ("blackwell", "hopper"):
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


def test_flags_are_the_makefiles(root):
    makefile = (root / "Makefile").read_text()
    optional = [flag for _, flags, _ in TARGETS["cpu"].optional for flag in flags]
    for flag in (*bundle.C_FLAGS, *bundle.LINK_FLAGS, *optional):
        assert re.search(rf"(?<!\S){re.escape(flag)}(?!\S)", makefile), flag
    for name, folder in (("h200", "hopper"), ("b200", "blackwell")):
        build = root / "submission" / folder / "build.mk"
        if build.exists():
            for flag in TARGETS[name].nvcc_flags:
                assert flag in build.read_text(), flag
            assert TARGETS[name].c_flags[-1] in build.read_text()


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


def plant(checkout, name, text):
    """Appends text to the file; returns its line, what the bundler says and whether it wrote a bundle."""
    path = checkout / name
    line = path.read_text().count("\n") + 1
    with path.open("a") as file:
        file.write(text)
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", "out.py"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    return line, done, (checkout / "out.py").exists()


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
    line, done, written = plant(checkout, name, text)
    assert done.returncode == 1 and not written
    assert f"{name}:{line}:{column}: {message}" in done.stdout, done.stdout + done.stderr
    assert "1 finding(s), out.py not written" in done.stderr


def test_a_source_that_does_not_compile_is_refused_with_the_compilers_words(checkout):
    line, done, written = plant(checkout, "submission/cpu/pack.c", "int broken = ;\n")
    assert done.returncode == 1 and not written
    assert f"submission/cpu/pack.c:{line}:14: error" in done.stdout, done.stdout


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
    sources = {**collect_sources("cpu"), bundle.SHIM: None, bundle.LOADER: None}
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


def test_the_harness_passes_it_from_an_empty_folder(root, alone, tmp_path):
    (alone.folder / "cases.txt").write_text(TINY)
    done = subprocess.run(
        [sys.executable, str(root / "eval/eval.py"), "test", "cases.txt", "--submission", "submission.py"],
        cwd=alone.folder,
        env={**os.environ, "NVFP4_CACHE": str(alone.cache), "NVFP4_LIBRARY": str(tmp_path / "none.so")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 tests pass" in done.stdout


def test_its_results_are_those_of_the_package(library_path, cpu_text, warm_cache, tmp_path, monkeypatch):
    from submission.submission import backends, custom_kernel

    path = tmp_path / "bundled.py"
    path.write_text(cpu_text)
    monkeypatch.setenv("NVFP4_CACHE", str(warm_cache))
    spec = importlib.util.spec_from_file_location("bundled", path)
    bundled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bundled)
    assert bundled._library._name.startswith(str(warm_cache))
    data = generate_input(70, 90, 192, 2, full=True, device="cpu")
    wanted = custom_kernel(data).clone()
    data[9].fill_(0)
    assert torch.equal(bundled.custom_kernel(data).nan_to_num(-1), wanted.nan_to_num(-1))
    assert bundled.backends()[-1] == backends()[-1]


def test_check_runs_the_harness_on_what_was_written(root, tmp_path):
    cases, output = tmp_path / "cases.txt", tmp_path / "build" / "out.py"
    cases.write_text(TINY)
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", str(output)]
    done = subprocess.run([*command, "--check", "--cases", str(cases)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"{output}: target cpu, {output.stat().st_size} bytes, first import \d+\.\d s", done.stdout)
    assert "1 of 1 tests pass" in done.stdout


def test_a_bundle_that_fails_the_harness_is_not_written(checkout, root, tmp_path):
    shutil.copytree(root / "eval", checkout / "eval", ignore=shutil.ignore_patterns("__pycache__"))
    cases, output = tmp_path / "cases.txt", tmp_path / "out.py"
    cases.write_text(TINY)
    shim = checkout / "submission" / "submission.py"
    shim.write_text(shim.read_text().replace("    return c\n", "    return c.zero_()\n"))
    command = [sys.executable, "-m", "scripts.release.bundle", "--target", "cpu", "--output", str(output)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 1 and not output.exists(), done.stdout + done.stderr
    assert "trial: wrong result for M N K L = (128, 256, 256, 1) on cpu: " in done.stdout, "tried without being asked"
    more = ["--no-compile", "--check", "--cases", str(cases)]
    done = subprocess.run([*command, *more], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 1 and not output.exists(), done.stdout + done.stderr
    assert "the harness ended with exit status 112" in done.stderr and "not written" in done.stderr


def test_a_compiler_that_the_bundle_would_not_find_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not has_compiler("cpu") and not has_compiler("h200")


@pytest.mark.skipif(not has_compiler("h200"), reason="no nvcc")
def test_the_hopper_bundle_compiles_well_within_the_limit():
    try:
        made = make_bundle("h200")
    except BundleError as error:
        pytest.skip(str(error))
    seconds, output = bundle.try_bundle(made.text)
    assert seconds is not None, output
    assert seconds < bundle.COMPILE_LIMIT_S / 2


# --- the cache --------------------------------------------------------------------------------------------


def test_a_second_import_compiles_nothing(alone, tmp_path):
    log = tmp_path / "log"
    cc = compiler(tmp_path / "cc-log", f'echo "$@" >> {log}; exec cc "$@"')
    code, first, errors = alone(CC=cc)
    assert code == 0, errors
    assert any(" -c -o " in call for call in log.read_text().splitlines())
    log.write_text("")
    assert alone(CC=cc) == (0, first, "")
    assert log.read_text().splitlines() == ["--version"]
    assert len(entries(alone.cache)) == 1, "one library and no left-overs"


def test_another_compiler_version_flag_or_source_compiles_anew(tmp_path, monkeypatch):
    version = tmp_path / "version"
    cc = compiler(tmp_path / "cc", f"cat {version}")
    digests = []
    for number, flags, source in ((1, ("-O3",), "x"), (2, ("-O3",), "x"), (2, ("-O2",), "x"), (2, ("-O2",), "y")):
        version.write_text(f"cc {number}\n")
        monkeypatch.setattr(bundle_loader, "_C_FLAGS", flags)
        monkeypatch.setattr(bundle_loader, "_SOURCES", {"a.c": source})
        digests.append(bundle_loader._digest([cc]))
        assert bundle_loader._digest([cc]) == digests[-1]
    digests.append(bundle_loader._digest([compiler(tmp_path / "cc2", f"cat {version}")]))
    assert len(set(digests)) == 5


def test_processes_that_import_at_once_share_one_library(alone):
    processes = [alone.start() for _ in range(3)]
    results = [(process.communicate(), process.returncode) for process in processes]
    assert [code for _, code in results] == [0, 0, 0], results
    assert len({output for (output, _), _ in results}) == 1
    assert len(entries(alone.cache)) == 1


def test_a_failing_compiler_gives_its_output_and_leaves_nothing(alone, tmp_path):
    cc = compiler(tmp_path / "cc", 'echo "pack.c:1:1: internal compiler error: boom" >&2; exit 4')
    code, _, errors = alone(CC=cc)
    assert code != 0
    assert "ImportError: compilation failed: " in errors and "pack.c:1:1: internal compiler error: boom" in errors
    assert entries(alone.cache) == []


def test_a_compiler_that_hangs_is_ended(alone, cpu_text, tmp_path):
    (alone.folder / "submission.py").write_text(cpu_text.replace("_COMPILE_LIMIT_S = 120", "_COMPILE_LIMIT_S = 1"))
    late = tmp_path / "late"  # what a child of the compiler would write if it lived on
    script = f'case "$*" in *" -c "*) (sleep 4; touch {late}) & wait;; *) exec cc "$@";; esac'
    cc = compiler(tmp_path / "cc", script)
    start = time.monotonic()
    code, _, errors = alone(CC=cc)
    assert time.monotonic() - start < 30, "it was not waited for"
    time.sleep(max(0.0, start + 7 - time.monotonic()))
    assert not late.exists(), "its children ended with it"
    assert code != 0 and "compilation took more than 1 s and was ended" in errors
    assert entries(alone.cache) == []


def test_a_missing_compiler_is_named(alone):
    code, _, errors = alone(CC="no-such-compiler")
    assert code != 0 and "the C compiler 'no-such-compiler' is not in PATH; install gcc or set CC" in errors


def test_a_compiler_without_avx_gives_a_portable_library(alone, tmp_path):
    cc = compiler(tmp_path / "cc", 'case "$*" in *-mavx*) exit 1;; *) exec cc "$@";; esac')
    code, output, errors = alone(CC=cc, code="import submission as s; print(s.backends()[-1].detail)")
    assert code == 0, errors
    assert "portable" in output.lower()


def test_the_cache_is_this_users_alone(alone, tmp_path):
    assert alone()[0] == 0
    assert alone.cache.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    code, _, errors = alone(cache=shared)
    assert code != 0 and f"{shared} is not this user's alone" in errors
    link = tmp_path / "link"
    link.symlink_to(alone.cache)
    assert "is not this user's alone" in alone(cache=link)[2]


def test_without_the_variable_the_cache_is_in_the_temporary_folder(alone, tmp_path):
    code = "import os; del os.environ['NVFP4_CACHE']; import submission; print(submission._library._name)"
    status, output, errors = alone(code=code, TMPDIR=str(tmp_path))
    assert status == 0, errors
    assert output.startswith(f"{tmp_path}/nvfp4-dual-gemm-{os.getuid()}/")
