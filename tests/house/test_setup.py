"""scripts/setup.sh with Pythons that are shell scripts, and download_size.py: no torch, no network, no rights."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from types import SimpleNamespace

import pytest

from scripts import download_size
from scripts.download_size import describe, size_of

MODULES = "torch pytest pytest_timeout xdist hypothesis jsonschema matplotlib rich kernelguard transformers"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# --- Python ------------------------------------------------------------------------------------------------------

PYTHON = """
printf '%s\\n' "$(echo "$*" | tr '\\n' ' ')" >> {log}
modules="$0.modules"
case "$*" in
*version_info*) exit {old} ;;
*find_spec*) shift 2; for name; do grep -qx "$name" "$modules" || exit 1; done ;;
*tomllib*) exec {real} "$@" ;;
*download_size.py*) echo "fetching" >&2; exit {reachable} ;;
"-m venv"*) for last; do :; done
  [ -z "${{BROKEN:-}}" ] || {{ mkdir "$last"; echo "no ensurepip" >&2; exit 1; }}
  mkdir -p "$last/bin" && cp "$0" "$last/bin/python"
  case "$*" in *--system-site-packages*) cp "$modules" "$last/bin/python.modules" ;;
  *) : > "$last/bin/python.modules" ;; esac ;;
"-m pip"*) {pip} ;;
esac
"""
INSTALLS = """for last; do :; done; last=$(cat "$last")
  case "$last" in *torch*) echo torch >> "$modules" ;; esac
  case "$last" in *pytest*) for name in {modules}; do echo $name >> "$modules"; done ;; esac"""
OFFLINE = 'echo "ERROR: connection broken" >&2; exit 1'
# An index that lacks kernelguard: installing all at once fails, one by one all but that one succeed.
LACKING = """for last; do :; done; read name rest < "$last"
  case "$last $name" in *dev.lock* | *kernelguard*) echo "ERROR: no kernelguard" >&2; exit 1 ;; esac
  name=$(echo "$name" | sed 's/=.*//; s/pytest-xdist/xdist/; s/-/_/g'); echo $name >> "$modules" """


@pytest.fixture
def setup(root, tmp_path):
    """Runs setup.sh in a copy: run(tier, modules of the Python at hand) -> status, path, messages, calls of pip."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("setup.sh", "download_size.py", "dev.lock"):
        shutil.copy(root / "scripts" / name, checkout / "scripts")
    shutil.copy(root / "pyproject.toml", checkout)
    log = tmp_path / "log"

    def run(tier, modules, pip=INSTALLS, old=0, venv=None, reachable=0, **environment):
        at_hand = tmp_path / "bin" / "python3"
        pip = pip.replace("{modules}", MODULES)
        text = PYTHON.format(log=log, old=old, real=sys.executable, pip=pip, reachable=reachable)
        for path, held in ((at_hand, modules), *([(checkout / ".venv/bin/python", venv)] if venv is not None else [])):
            program(path, text)
            path.with_name(f"{path.name}.modules").write_text("\n".join(held.split()) + "\n")
        log.write_text("")
        done = subprocess.run(
            [checkout / "scripts" / "setup.sh", tier],
            env={"PATH": os.environ["PATH"], "PYTHON": str(at_hand)} | environment,
            capture_output=True,
            text=True,
        )
        calls = [line.strip() for line in log.read_text().splitlines() if line.startswith(("-m pip", "-m venv"))]
        path = done.stdout.strip().replace(str(at_hand), "AT_HAND").replace(str(checkout / ".venv/bin/python"), "VENV")
        return SimpleNamespace(status=done.returncode, python=path, said=done.stderr, calls=calls)

    run.checkout, run.folder = checkout, tmp_path
    return run


TAMPERED = 'echo "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE." >&2; exit 1'


def test_a_failure_to_make_the_environment_shows_the_pythons_message(setup):
    done = setup("run", "numpy", BROKEN="1")
    assert done.status == 1 and "no ensurepip" in done.said and "python3-venv" in done.said
    assert not (setup.checkout / ".venv").exists()


def test_a_python_with_every_module_is_used_as_it_is(setup):
    for tier, modules in (("run", "torch"), ("test", MODULES)):
        done = setup(tier, modules)
        assert (done.status, done.python, done.calls, done.said) == (0, "AT_HAND", [], "")


def test_an_environment_with_torch_is_preferred_to_the_python_at_hand(setup):
    done = setup("run", "torch", venv="torch")
    assert (done.python, done.calls) == ("VENV", [])
    assert setup("run", "torch", venv="numpy").python == "AT_HAND"


def test_an_old_python_is_refused(setup):
    done = setup("run", "torch", old=1)
    assert done.status == 1 and done.python == "" and "not Python 3.11 or later" in done.said


def test_missing_torch_is_installed_after_the_download_size_is_printed(setup):
    done = setup("run", "numpy")
    assert (done.status, done.python) == (0, "VENV")
    assert done.calls[0] == f"-m venv {setup.checkout / '.venv'}"
    listed = setup.checkout / ".venv" / "requirements.txt"
    assert done.calls[1] == f"-m pip install --quiet --disable-pip-version-check -r {listed}"
    assert "torch==" in listed.read_text() and "pytest" not in listed.read_text()
    assert len(done.calls) == 2 and "setup: no torch in " in done.said and "\nfetching\n" in done.said


def test_without_torch_and_index_setup_fails_and_leaves_nothing(setup):
    done = setup("run", "numpy", reachable=1)
    assert done.status == 1 and done.python == "" and not (setup.checkout / ".venv").exists()
    assert "torch could not be installed" in done.said and "PYTHON" in done.said and "PIP_FIND_LINKS" in done.said
    assert [call[:7] for call in done.calls] == ["-m venv"], "pip is not run when the index is unreachable"


def test_an_unknown_tier_is_refused(setup):
    done = setup("tests", "torch")
    assert (done.status, done.python, done.calls) == (2, "", [])
    assert "'tests'" in done.said


def test_find_changes_nothing(setup):
    done = setup("find", "numpy")
    assert (done.status, done.python, done.calls) == (1, "", [])
    assert "`make setup`" in done.said and "PYTHON" in done.said
    assert setup("find", "torch").python == "AT_HAND"
    assert (setup("help", "numpy").python, setup("help", "numpy").calls) == ("AT_HAND", [])  # --help needs no torch


def test_nvfp4_venv_names_the_environments_folder(setup):
    place = setup.folder / "a folder" / "of its own" / "env"  # neither exists yet
    done = setup("run", "numpy", NVFP4_VENV=str(place))
    assert (done.status, done.python) == (0, f"{place}/bin/python")
    assert not (setup.checkout / ".venv").exists()


def test_an_environment_that_cannot_be_written_is_reported(setup):
    place = setup.folder / "file" / "below" / "env"  # below a file no folder can be made
    (setup.folder / "file").touch()
    done = setup("run", "numpy", NVFP4_VENV=str(place))
    assert done.status == 1 and done.python == "" and not any(call.startswith("-m venv") for call in done.calls)
    assert f"cannot write {place}" in done.said and "NVFP4_VENV" in done.said and "BUILD" in done.said


@pytest.mark.parametrize(
    ("held", "taken"),
    [
        ({"python3": "old", "python3.11": "", "python3.13": ""}, "python3.13"),
        ({"python3": "old", "python3.11": "torch", "python3.13": ""}, "python3.11"),
        ({"python3": "", "python3.12": ""}, "python3"),
        ({"python3": "old"}, None),
    ],
)
def test_a_newer_python_is_found_in_path(root, tmp_path, held, taken):
    for name, has in held.items():
        answers = f'*version_info*) exit {int(has == "old")} ;; *" torch"*) exit {int(has != "torch")} ;;'
        program(tmp_path / "bin" / name, f'case "$*" in {answers} esac\nexit 1')
    for tool in ("dirname", "sh"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    done = subprocess.run(
        [root / "scripts" / "setup.sh", "find"],
        env={"PATH": str(tmp_path / "bin"), "NVFP4_VENV": str(tmp_path / "none")},
        capture_output=True,
        text=True,
    )
    if taken is None:
        assert done.returncode == 1 and "3.11 or later" in done.stderr
    elif "torch" in held.values():
        assert done.stdout.strip() == str(tmp_path / "bin" / taken)
    else:
        assert done.returncode == 1 and f"no torch in {tmp_path / 'bin' / taken} or " in done.stderr


LOCKED = "-m pip install --quiet --disable-pip-version-check --require-hashes -r {}"


@pytest.mark.parametrize("missing", MODULES.split()[1:])
def test_a_missing_package_is_installed_from_the_lock(setup, missing):
    done = setup("test", " ".join(name for name in MODULES.split() if name != missing))
    assert (done.status, done.python) == (0, "VENV")
    assert done.calls[0] == f"-m venv --system-site-packages {setup.checkout / '.venv'}" and len(done.calls) == 2
    assert done.calls[1] == LOCKED.format(setup.checkout / "scripts" / "dev.lock")


def test_an_existing_environment_gets_the_missing_packages(setup):
    done = setup("test", "", venv="torch")
    assert (done.status, done.python) == (0, "VENV") and [call[:6] for call in done.calls] == ["-m pip"]


def test_without_a_network_the_installed_packages_are_used(setup):
    done = setup("test", "torch pytest", pip=OFFLINE)
    assert (done.status, done.python) == (0, "VENV") and len(done.calls) == 2  # packages are not tried one by one
    assert "connection broken" in done.said
    done = setup("test", "torch", pip=OFFLINE, venv="torch")
    assert done.status == 1 and "pytest is missing" in done.said


def test_an_index_without_one_package_still_serves_the_others(setup):
    done = setup("test", "torch", pip=LACKING)
    assert (done.status, done.python) == (0, "VENV")
    assert "setup: could not install kernelguard==" in done.said and "could not install pytest" not in done.said
    assert all("--require-hashes" in call for call in done.calls[1:]), "every install checks hashes"
    alone = [call for call in done.calls if "dev.lock" not in call and call.startswith("-m pip")]
    assert len(alone) > 9 and all(" --no-deps " in call for call in alone), (
        "no package is fetched as a dependency of another"
    )


def test_a_package_with_a_wrong_hash_ends_the_set_up(setup):
    done = setup("test", "torch pytest", pip=TAMPERED)
    assert (done.status, done.python) == (1, "") and len(done.calls) == 2, "the rest is not tried"
    assert "DO NOT MATCH THE HASHES" in done.said and "none was installed" in done.said


def test_the_lock_has_an_allowed_version_and_hashes_of_every_tool(root):
    requirements = pytest.importorskip("packaging.requirements")
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    locked = {}
    for block in re.split(r"\n(?=\S)", (root / "scripts" / "dev.lock").read_text().strip()):
        name, version = re.match(r"([\w.-]+)==(\S+)", block).groups()
        locked.setdefault(name, []).append(version)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name
    for requirement in map(requirements.Requirement, wanted):
        versions = locked.get(requirement.name, [])
        assert versions and all(version in requirement.specifier for version in versions), f"{requirement}: `make lock`"


# --- download sizes ----------------------------------------------------------------------------------------


def test_the_largest_download_is_named_first():
    said = describe([("a 1", 2_400_000), ("torch 2", 192_000_000), ("tiny 3", 999), ("b 4", None)], 7_000_000_000)
    assert re.search(r"4 packages, 194 MB, and 1 of unknown size: torch 2 \(192 MB\), a 1 \(2 MB\), b 4\b", said)
    assert "7000 MB" in said and "tiny" not in said


def test_the_size_of_a_missing_file_is_unknown(tmp_path):
    (tmp_path / "a wheel").write_bytes(b"12345")
    assert size_of((tmp_path / "a wheel").as_uri()) == 5
    assert size_of((tmp_path / "none").as_uri()) is None


@pytest.mark.parametrize(
    ("version", "place", "knows_parts", "asked"),
    [
        ("23.0.1", "environment", True, ["--upgrade pip>=25.1", "parts"]),
        ("24.3", "elsewhere", True, ["parts"]),  # pip of another Python is not upgraded
        ("25.1b2", "environment", True, ["parts"]),
        ("26.3", "environment", False, ["parts", "whole files"]),
    ],
)
def test_sizes_are_found_without_downloading_files(monkeypatch, tmp_path, capsys, version, place, knows_parts, asked):
    calls = []

    def pip(*arguments):
        said = " ".join(arguments)
        assert said.startswith("--upgrade") or said.endswith(f"-r {tmp_path / 'list'}")
        parts = "--use-feature=fast-deps" in arguments
        calls.append(said if "--upgrade" in arguments else "parts" if parts else "whole files")
        assert said.startswith("--upgrade") or "--dry-run" in arguments
        return SimpleNamespace(returncode=2 if parts and not knows_parts else 0, stdout='{"install": []}', stderr="")

    monkeypatch.setattr(download_size, "pip", pip)
    monkeypatch.setattr(download_size.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    assert download_size.main([str(tmp_path / "list"), str(tmp_path / place)]) == 0
    assert calls == asked
    assert capsys.readouterr().err


def test_an_index_that_does_not_answer_is_reported_within_a_minute(root, tmp_path):
    pytest.importorskip("pip")
    (tmp_path / "list").write_text("torch==2.13.0\n")
    index = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_IGNORE_INSTALLED": "1"}
    command = [sys.executable, "-m", "scripts.download_size", tmp_path / "list", tmp_path]
    for _ in range(4):  # the best of some runs: a busy machine delays any
        begin = time.monotonic()
        done = subprocess.run(
            command, cwd=root, env={"PATH": os.environ["PATH"]} | index, capture_output=True, text=True
        )
        assert done.returncode == 1 and "network?" in done.stderr
        if (seconds := time.monotonic() - begin) < 60:
            break
    assert seconds < 60
