"""The bundle's loader: finding compilers, running them, and the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from types import SimpleNamespace

import pytest

from scripts.release import bundle_loader
from tests.release.bundle_kit import configure, macros

# --- the loader's compilers ----------------------------------------------------------------------------------------


def program(folder, name, text="exit 0"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def empty_path(monkeypatch, tmp_path):
    """An empty folder as PATH, no variable set; returns the folder."""
    for name in ("CC", "NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def test_the_c_compiler_is_the_one_set_else_cc_else_gcc(empty_path, monkeypatch):
    with pytest.raises(ImportError, match="the C compiler 'cc' is not in PATH"):
        bundle_loader.find_compilers(False)
    gcc = program(empty_path, "gcc")
    assert bundle_loader.find_compilers(False) == [gcc]
    cc = program(empty_path, "cc")
    assert bundle_loader.find_compilers(False) == [cc]
    clang = program(empty_path, "clang")
    monkeypatch.setenv("CC", "clang")
    assert bundle_loader.find_compilers(False) == [clang]
    monkeypatch.setenv("CC", "none")  # a compiler that the user chose is not replaced by another
    with pytest.raises(ImportError, match="'none' is not in PATH; install gcc or set CC"):
        bundle_loader.find_compilers(False)


def test_nvcc_is_the_one_set_else_in_path_else_of_the_toolkit(empty_path, monkeypatch, tmp_path):
    extension = SimpleNamespace(CUDA_HOME=None)
    monkeypatch.setitem(sys.modules, "torch.utils.cpp_extension", extension)
    cc = program(empty_path, "cc")
    assert bundle_loader.find_compilers(False) == [cc]
    with pytest.raises(ImportError, match="nvcc is neither in PATH nor in CUDA_HOME"):
        bundle_loader.find_compilers(True)
    places = {name: tmp_path / name for name in ("torch", "CUDA_PATH", "CUDA_HOME")}
    found = {name: program(folder / "bin", "nvcc") for name, folder in places.items()}
    extension.CUDA_HOME = str(places["torch"])
    assert bundle_loader.find_compilers(True) == [cc, found["torch"]]
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.setenv(name, str(places[name]))
        assert bundle_loader.find_compilers(True) == [cc, found[name]]
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    assert bundle_loader.find_compilers(True) == [cc, found["CUDA_PATH"]]
    in_path = program(empty_path, "nvcc")
    assert bundle_loader.find_compilers(True) == [cc, in_path]
    monkeypatch.setenv("NVCC", "/the/one")
    assert bundle_loader.find_compilers(True) == [cc, "/the/one"]


def test_the_toolkit_is_where_nvcc_says(tmp_path):
    toolkit = tmp_path / "cuda"
    asked = 'test "$*" = "--dryrun -c -o empty.o empty.cu" && test -f empty.cu && ! test -s empty.cu || exit 1'
    nvcc = program(
        tmp_path, "nvcc", f"{asked}; echo '#$ _SPACE_= ' >&2; echo '#$ TOP={toolkit}' >&2; echo '#$ PATH=x' >&2"
    )
    with pytest.raises(ImportError, match=r"nvcc, .* has no libcudart_static\.a"):
        bundle_loader._cuda_toolkit(nvcc, tmp_path)
    for libraries in ("targets/x86_64-linux/lib", "lib", "lib64"):  # the reverse order of the search
        runtime = toolkit / libraries / "libcudart_static.a"
        runtime.parent.mkdir(parents=True)
        runtime.write_text("")
        assert bundle_loader._cuda_toolkit(nvcc, tmp_path) == (toolkit / "include", runtime)
    silent = program(tmp_path, "silent", "echo broken >&2; exit 1")
    with pytest.raises(ImportError, match=r"silent --dryrun` does not name its toolkit .*:\nbroken"):
        bundle_loader._cuda_toolkit(silent, tmp_path)


def test_optional_parts_are_those_whose_flags_are_taken(monkeypatch, tmp_path):
    parts = {"_a.c": (("-ma", "-mb"), "A"), "_b.c": (("-mc",), "B")}
    monkeypatch.setattr(bundle_loader, "_OPTIONAL", parts)
    log = tmp_path / "log"
    cc = program(tmp_path, "cc", f'echo "$@" >> {log}; case "$*" in *-mb*) exit 1;; esac')
    assert bundle_loader._accepted(cc, tmp_path) == {"_b.c": parts["_b.c"]}
    assert log.read_text().splitlines() == ["-ma -mb -fsyntax-only probe.c", "-mc -fsyntax-only probe.c"]
    assert "__m512i" in (tmp_path / "probe.c").read_text()


def test_a_part_that_is_not_taken_is_neither_compiled_nor_announced(monkeypatch, tmp_path):
    configure(monkeypatch, "cpu")
    monkeypatch.setattr(bundle_loader, "_accepted", lambda compiler, folder: {})
    batches = []
    monkeypatch.setattr(bundle_loader, "_run_all", lambda commands, folder, deadline: batches.append(commands))
    bundle_loader._build(tmp_path, "cc", None)
    assert not [command for command in batches[0] if "_avx" in command[-1] or macros(command)]


# --- running compilers -----------------------------------------------------------------------------------------------


def test_compilations_run_side_by_side(tmp_path):
    commands = [["sh", "-c", f"touch {i}; while [ ! -e {1 - i} ]; do sleep 0.01; done"] for i in range(2)]
    bundle_loader._run_all(commands, tmp_path, time.monotonic() + 20)


def test_a_failure_ends_the_others_and_shows_so_much_output(tmp_path):
    begin = time.monotonic()
    broken = ["sh", "-c", "yes x | head -c 9000; exit 3"]
    with pytest.raises(ImportError) as caught:
        bundle_loader._run_all([broken, ["sh", "-c", "sleep 30; touch late"]], tmp_path, begin + 60)
    assert time.monotonic() - begin < 15
    command, _, output = str(caught.value).partition("\n")
    assert command == f"compilation failed: {' '.join(broken)}" and len(output) == 8000


# --- the cache -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "safe"), [(0o700, True), (0o755, True), (0o720, False), (0o702, False)])
def test_a_cache_that_others_can_write_to_is_refused(monkeypatch, tmp_path, mode, safe):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("NVFP4_CACHE", str(folder))
    if safe:
        assert bundle_loader._cache_root() == folder
    else:
        with pytest.raises(
            ImportError, match="is not owned and writable by this user alone; remove it or set NVFP4_CACHE"
        ):
            bundle_loader._cache_root()


def test_a_cache_that_cannot_be_made_is_reported_with_the_cure(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "cache", tmp_path / "file"):
        monkeypatch.setenv("NVFP4_CACHE", str(place))
        with pytest.raises(ImportError, match=r"cannot be used .*; set NVFP4_CACHE to a folder of your own"):
            bundle_loader._cache_root()


def test_a_cache_that_anyone_can_replace_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("NVFP4_CACHE", str(tmp_path / "open" / "cache"))
    bundle_loader._cache_root()
    (tmp_path / "open").chmod(0o1777)
    bundle_loader._cache_root()  # a sticky folder: only the owner can replace it
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ImportError, match="lies in a folder where anyone can replace it"):
        bundle_loader._cache_root()


def test_a_cache_of_another_user_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("NVFP4_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    monkeypatch.setattr(bundle_loader.os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ImportError, match="writable by this user alone"):
        bundle_loader._cache_root()


class TestLibraryPath:
    """library_path() with a stand-in for the build that only writes a file."""

    @pytest.fixture
    def cache(self, monkeypatch, tmp_path):
        monkeypatch.setenv("NVFP4_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(bundle_loader, "find_compilers", lambda cuda: ["cc", "nvcc"][: 1 + cuda])
        monkeypatch.setattr(bundle_loader, "_version", lambda compiler: "1")
        return tmp_path / "cache"

    @staticmethod
    def build(calls, text="library", before=lambda: None):
        def build(folder, compiler, nvcc):
            calls.append((compiler, nvcc))
            before()
            path = folder / "libcustom_kernel.so"
            path.write_text(text)
            return path

        return build

    def test_it_is_built_once(self, cache, monkeypatch):
        calls = []
        monkeypatch.setattr(bundle_loader, "_build", self.build(calls))
        path = bundle_loader.library_path()
        assert path == cache / bundle_loader._digest(["cc"]) / "libcustom_kernel.so"
        assert bundle_loader.library_path() == path and path.read_text() == "library"
        assert calls == [("cc", None)] and [entry.name for entry in cache.iterdir()] == [path.parent.name]

    def test_cuda_sources_bring_their_compiler(self, cache, monkeypatch):
        calls = []
        monkeypatch.setattr(bundle_loader, "_NVCC_FLAGS", ("-x",))
        monkeypatch.setattr(bundle_loader, "_build", self.build(calls))
        assert bundle_loader.library_path().parent.name == bundle_loader._digest(["cc", "nvcc"])
        assert calls == [("cc", "nvcc")]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda library: library.write_bytes(b""),
            lambda library: library.write_text("libr"),
            lambda library: library.write_text("lybrary"),
            lambda library: library.unlink(),
            lambda library: library.with_name("sha256").unlink(),
            lambda library: library.with_name("sha256").write_bytes(b"\xff\x00"),
            lambda library: library.chmod(0o666),
            lambda library: library.parent.chmod(0o777),
            lambda library: (library.rename(library.with_name("x")), library.symlink_to("x")),
            lambda library: (shutil.rmtree(library.parent), library.parent.mkdir()),
        ],
    )
    def test_a_cached_library_damaged_or_open_to_others_is_rebuilt(self, cache, monkeypatch, damage):
        calls = []
        monkeypatch.setattr(bundle_loader, "_build", self.build(calls))
        library = bundle_loader.library_path()
        damage(library)
        assert bundle_loader.library_path() == library and library.read_text() == "library"
        assert bundle_loader.library_path() == library and len(calls) == 2, "and it stays"
        assert [path.name for path in cache.iterdir()] == [library.parent.name]

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
    def test_permissions_do_not_follow_the_umask(self, cache, monkeypatch, umask):
        monkeypatch.setattr(bundle_loader, "_build", self.build([]))
        before = os.umask(umask)
        try:
            library = bundle_loader.library_path()
            assert os.umask(umask) == umask, "the process's own is put back"
        finally:
            os.umask(before)
        modes = [path.stat().st_mode & 0o777 for path in (cache, library.parent, library)]
        assert modes == [0o700, 0o700, 0o600]

    def test_killed_builds_and_libraries_long_unused_are_swept(self, cache, monkeypatch):
        monkeypatch.setattr(bundle_loader, "_build", self.build([]))
        cache.mkdir(mode=0o700)
        hour_old = time.time() - bundle_loader._SWEEP_AFTER_S - 1
        for number in range(bundle_loader._LIBRARIES_KEPT + 2):
            (cache / f"{number:032x}").mkdir()
            os.utime(cache / f"{number:032x}", (hour_old + number, hour_old + number))
        for name, age in (("build-killed", hour_old), ("build-running", time.time())):
            (cache / name / "submission").mkdir(parents=True)
            os.utime(cache / name, (age, age))
        library = bundle_loader.library_path()
        left = {path.name for path in cache.iterdir()}
        assert "build-running" in left and "build-killed" not in left and library.is_file()
        numbers = sorted(int(name, 16) for name in left - {"build-running", library.parent.name})
        assert numbers == list(range(3, bundle_loader._LIBRARIES_KEPT + 2)), "those used last stay"
        os.utime(cache / "build-running", (hour_old, hour_old))
        assert bundle_loader.library_path() == library and not (cache / "build-running").exists(), "nor is it built for"

    @pytest.mark.parametrize(("seconds", "kept"), [(3590, True), (3610, False)])
    def test_a_build_is_taken_for_killed_after_an_hour(self, cache, seconds, kept):
        (cache / "build-other").mkdir(parents=True)
        os.utime(cache / "build-other", (time.time() - seconds,) * 2)
        bundle_loader._sweep(cache, cache / "mine")
        assert (cache / "build-other").exists() == kept

    def test_a_file_removed_by_another_process_is_no_error(self, cache, monkeypatch):
        cache.mkdir()
        gone = [cache / "build-gone", *(cache / f"{number:032x}" for number in range(20))]
        monkeypatch.setattr(bundle_loader.Path, "iterdir", lambda folder: iter(gone))
        bundle_loader._sweep(cache, cache / "mine")

    def test_the_library_of_a_process_that_was_first_is_taken(self, cache, monkeypatch):
        entry = cache / bundle_loader._digest(["cc"])

        def other():
            entry.mkdir()
            (entry / "libcustom_kernel.so").write_text("first")
            (entry / "sha256").write_text(hashlib.sha256(b"first").hexdigest())

        monkeypatch.setattr(bundle_loader, "_build", self.build([], before=other))
        assert bundle_loader.library_path().read_text() == "first"
        assert [path.name for path in cache.iterdir()] == [entry.name]
