"""A sample's origin, and the program that times several commits in one run."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys

import pytest

from scripts.bench import commits, compare, provenance
from scripts.common.options import named
from scripts.common.sources import commit_digest


def git(root, *words):
    command = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository whose `make library` copies a file; two commits that differ in one source."""
    root = tmp_path / "repository"
    (root / "submission" / "core").mkdir(parents=True)
    (root / "scripts").mkdir()
    (root / "scripts" / "x.sh").write_text("")
    (root / "submission" / "submission.py").write_text("import os\nfrom pathlib import Path\n"
        "def custom_kernel(data): return Path(os.environ['NVFP4_LIBRARY']).read_text()\n")  # fmt: skip
    (root / "Makefile").write_text("library:\n\tmkdir -p build; cp submission/core/a.c build/libcustom_kernel.so\n")
    for text in ("one\n", "two\n"):
        (root / "submission" / "core" / "a.c").write_text(text)
        git(root, "init", "-q") if text == "one\n" else None
        git(root, "add", "-A")
        git(root, "commit", "-qm", text.strip())
    return root


@pytest.fixture
def at_checkout(checkout, monkeypatch):
    monkeypatch.setattr(commits, "ROOT", checkout)
    monkeypatch.setattr(commits, "FOLDER", checkout / "build" / "commits")
    monkeypatch.setenv("NVFP4_LIBRARY", "as it was")  # and is again after the test
    return checkout


def test_a_folder_and_its_commit_have_one_digest(checkout):
    head, first = commit_digest(checkout, "HEAD"), commit_digest(checkout, "HEAD~1")
    assert provenance.checkout_digest(checkout) == head != first
    (checkout / "submission" / "core" / "notes.txt").write_text("no source")
    assert provenance.checkout_digest(checkout) == head
    (checkout / "submission" / "core" / "a.c").write_text("two \n")
    assert provenance.checkout_digest(checkout) not in (head, first)
    assert commit_digest(checkout, "0" * 40) is None


def test_a_digest_tells_where_one_file_ends(checkout):
    core = checkout / "submission" / "core"
    found = set()
    joined = b"xsubmission/core/b.c\0y"
    for files in ({"a.c": b"xy", "b.c": b""}, {"a.c": b"x", "b.c": b"y"}, {"a.c": b"xy"}, {"a.c": joined}):
        for path in core.iterdir():
            path.unlink()
        for name, content in files.items():
            (core / name).write_bytes(content)
        found.add(provenance.checkout_digest(checkout))
    assert len(found) == 4


def test_hosts_are_distinguished_without_their_names(monkeypatch):
    names = set()
    for name in ("alpha.example.org", "beta.example.org"):
        monkeypatch.setattr(provenance.platform, "node", lambda name=name: name)
        assert provenance.host() == provenance.host() and "example" not in provenance.host()
        names.add(provenance.host())
        assert re.fullmatch(rf"{re.escape(platform.machine())}-[0-9a-f]{{12}}", provenance.host())
    assert len(names) == 2


def test_the_simulator_is_no_chip(monkeypatch):
    monkeypatch.delenv("NVFP4_SIMULATE", raising=False)
    assert "processor" in provenance.chip_name("cpu").lower()
    monkeypatch.setenv("NVFP4_SIMULATE", "1")
    assert provenance.chip_name("cpu") == "PTX simulator"


def test_commits_are_fetched_built_and_timed_by_their_own_shims(at_checkout, monkeypatch, capsys):
    old, new = git(at_checkout, "rev-parse", "HEAD~1"), git(at_checkout, "rev-parse", "HEAD")
    commits.fetch(["HEAD~1", new[:9]])
    manifest = json.loads((commits.FOLDER / commits.MANIFEST).read_text())
    assert [entry["commit"] for entry in manifest["commits"].values()] == [old, new] and manifest["head"] == new
    seen = {}

    def main(words):
        import argparse

        parser = argparse.ArgumentParser()
        for name in ("--checkout", "--library"):
            parser.add_argument(name, type=named, action="append", default=[])
        options, seen["words"] = parser.parse_known_args(words)
        options.problem = "dual_gemm"
        seen["kernels"], seen["digests"] = compare.load_kernels(options)
        return 0

    monkeypatch.setattr(compare, "main", main)
    assert commits.time(False, ["--repeats", "3"]) == 0
    assert seen["words"] == ["--commit", new, "--repeats", "3"]
    assert seen["digests"][old[:7]] == commit_digest(at_checkout, old) != seen["digests"][new[:7]]
    monkeypatch.setenv("NVFP4_LIBRARY", str(commits.FOLDER / old[:7] / "build" / "libcustom_kernel.so"))
    assert seen["kernels"][old[:7]](()) == "one\n"


def test_changed_files_are_not_timed_as_a_commit(at_checkout):
    commits.fetch(["HEAD"])
    (folder,) = (path for path in commits.FOLDER.iterdir() if path.is_dir())
    (folder / "submission" / "core" / "a.c").write_text("other\n")
    with pytest.raises(SystemExit, match="the files are not those of the commit"):
        commits.time(False, [])


def test_a_failed_build_ends_the_run_with_the_builds_output(at_checkout):
    (at_checkout / "Makefile").write_text("library:\n\techo this is why; false\n")
    git(at_checkout, "commit", "-qam", "broken")
    commits.fetch(["HEAD"])
    with pytest.raises(SystemExit, match="this is why"):
        commits.time(False, [])


def test_the_ledgers_run_holds_its_steps_and_an_a_a(root, monkeypatch, capsys):
    variants = commits.ledger_variants("abcdef0")
    assert variants[0] == "e19e106/auto" and {"abcdef0/auto", "abcdef0/auto+again"} < set(variants)
    assert all("/" in name for name in variants) and len(set(variants)) == len(variants)
    monkeypatch.setattr(sys, "argv", ["commits", "fetch"])
    with pytest.raises(SystemExit):
        commits.main()
    assert "name commits, or give --ledger" in capsys.readouterr().err
