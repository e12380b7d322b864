"""Importing a bundle: it compiles once, into the user's own cache, and reports errors."""

from __future__ import annotations

import os
import time

from scripts.release import bundle_loader
from tests.release.bundle_kit import compiler, copying_compiler
from tests.waiting import alive, until


def entries(cache):
    return sorted(path.name for path in cache.iterdir())


def test_a_second_import_compiles_nothing(alone, library_path, tmp_path):
    log = tmp_path / "log"
    cc = copying_compiler(tmp_path / "cc", library_path, f'echo "$@" >> {log}')
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
    others = {"_LINK_FLAGS": ("-x",), "_NVCC_FLAGS": ("-x",), "_OPTIONAL": {"_x.c": (("-m",), "X")}}
    for name, value in others.items():
        monkeypatch.setattr(bundle_loader, name, value)
        digests.append(bundle_loader._digest([cc]))
    assert len(set(digests)) == 8


def test_processes_that_import_at_once_share_one_library(alone, library_path, tmp_path):
    cc = copying_compiler(tmp_path / "cc", library_path, 'case "$*" in *-shared*) sleep 0.5 ;; esac')
    processes = [alone.start(CC=cc) for _ in range(3)]
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
    children = tmp_path / "children"
    children.mkdir()
    script = f"""case "$*" in *" -c "*) sh -c 'echo > {children}/$$; exec sleep 1000' & wait;; esac"""
    cc = compiler(tmp_path / "cc", script)
    for limit in (1, 5, 25):  # a busy machine may not start a compiler in the first one
        text = cpu_text.replace("_COMPILE_LIMIT_S = 120", f"_COMPILE_LIMIT_S = {limit}")
        (alone.folder / "submission.py").write_text(text)
        start = time.monotonic()
        code, _, errors = alone(CC=cc)
        assert time.monotonic() - start < 1000, "it was not waited for"
        assert code != 0 and f"compilation took more than {limit} s and was ended" in errors
        assert entries(alone.cache) == []
        if started := [int(path.name) for path in children.iterdir()]:
            break
    assert started and until(lambda: not any(map(alive, started))), "its children ended with it"


def test_a_missing_compiler_is_named(alone):
    code, _, errors = alone(CC="no-such-compiler")
    assert code != 0 and "the C compiler 'no-such-compiler' is not in PATH; install gcc or set CC" in errors


def test_a_compiler_without_avx_gives_a_portable_library(alone, tmp_path):
    cc = compiler(tmp_path / "cc", 'case "$*" in *-mavx*) exit 1;; *) exec cc "$@" -O0;; esac')
    code, output, errors = alone(CC=cc, code="import submission as s; print(s.backends()[-1].detail)")
    assert code == 0, errors
    assert "portable" in output.lower()


def test_the_cache_is_this_users_alone(alone, copies, tmp_path):
    assert alone(CC=copies)[0] == 0
    assert alone.cache.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    code, _, errors = alone(cache=shared, CC=copies)
    assert code != 0 and f"{shared} is not owned and writable by this user alone" in errors
    link = tmp_path / "link"
    link.symlink_to(alone.cache)
    assert "writable by this user alone" in alone(cache=link, CC=copies)[2]


def test_without_the_variable_the_cache_is_in_the_temporary_folder(alone, copies, tmp_path):
    code = "import os; del os.environ['NVFP4_CACHE']; import submission; print(submission.library._name)"
    status, output, errors = alone(code=code, CC=copies, TMPDIR=str(tmp_path))
    assert status == 0, errors
    assert output.startswith(f"{tmp_path}/nvfp4-dual-gemm-{os.getuid()}/")
