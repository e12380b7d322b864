"""`make install` for a C programmer: header, shared and static library, pkg-config file, the example."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from types import SimpleNamespace

import pytest

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """The library installed under a path with a space, with a strict umask."""
    staging, prefix = tmp_path_factory.mktemp("staging"), "/opt/our own"
    command = f'umask 077; make -s -C "{root}" install PREFIX="{prefix}" DESTDIR="{staging}"'
    done = run("sh", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    return SimpleNamespace(folder=staging / prefix[1:], staging=staging, prefix=prefix)


def test_the_shared_library_has_its_name_by_version_and_links_to_it(installed):
    libraries = installed.folder / "lib"
    assert str((libraries / "libcustom_kernel.so").readlink()) == "libcustom_kernel.so.1"
    assert str((libraries / "libcustom_kernel.so.1").readlink()) == "libcustom_kernel.so.1.7.0"
    dynamic = run("readelf", "-d", libraries / "libcustom_kernel.so.1.7.0").stdout
    assert "Library soname: [libcustom_kernel.so.1]" in dynamic


def test_everyone_may_read_what_was_installed(installed):
    paths = [path for path in installed.folder.rglob("*") if not path.is_symlink()]
    assert len(paths) == 7
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() or ".so" in path.name else 0o644), path


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config_gives_what_the_example_needs(root, installed, tmp_path):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed.folder / "lib" / "pkgconfig")}
    asked = run("pkg-config", "--cflags", "--libs", "custom_kernel", env=environment)
    assert asked.returncode == 0, asked.stderr
    flags = [word.replace(installed.prefix, str(installed.folder)) for word in shlex.split(asked.stdout)]
    found = f"-Wl,-rpath,{installed.folder / 'lib'}"
    example = root / "examples" / "minimal.c"
    done = run("cc", "-std=c11", *WARNINGS, example, *flags, found, "-o", tmp_path / "minimal")
    assert done.returncode == 0, done.stderr
    done = run(tmp_path / "minimal", env={})
    assert (done.returncode, done.stdout) == (0, "libcustom_kernel 1.7.0: all 1536 elements are 2048\n"), done.stderr
    assert run("pkg-config", "--modversion", "custom_kernel", env=environment).stdout == "1.7.0\n"


def test_the_static_library_stands_alone_and_keeps_its_names_to_itself(root, installed, tmp_path):
    folder = installed.folder / "lib"
    (private,) = [
        line.partition(": ")[2].split()
        for line in (folder / "pkgconfig" / "custom_kernel.pc").read_text().splitlines()
        if line.startswith("Libs.private")
    ]
    # The program's own functions, named like internal functions of the library.
    (tmp_path / "own.c").write_text("int validate(void);\nint validate(void) { return 7; }\n")
    command = ["cc", "-std=c11", *WARNINGS, "-I", installed.folder / "include", root / "examples" / "minimal.c"]
    done = run(*command, tmp_path / "own.c", folder / "libcustom_kernel.a", *private, "-o", tmp_path / "minimal")
    assert done.returncode == 0, done.stderr
    done = run(tmp_path / "minimal", env={})
    assert done.returncode == 0 and "all 1536 elements" in done.stdout, done.stderr
