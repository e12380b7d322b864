"""scripts/find_nvcc.sh and scripts/setup.sh, with compilers and Pythons that are shell scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

WORKS = 'echo "$@" >> "$0.log"; exit 0'
MODULES = "torch pytest pytest_timeout xdist hypothesis jsonschema matplotlib rich kernelguard tree_sitter"
MODULES += " tree_sitter_cuda"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# --- nvcc ------------------------------------------------------------------------------------------------------


@pytest.fixture
def find(root, tmp_path):
    """find_nvcc.sh, its usual folder in tmp_path; returns (exit status, what it found, the reason)."""
    usual = tmp_path / "usual" / "bin" / "nvcc"
    script = tmp_path / "find_nvcc.sh"
    text = (root / "scripts" / "find_nvcc.sh").read_text()
    assert text.count("/usr/local/cuda/bin/nvcc") == 1
    script.write_text(text.replace("/usr/local/cuda/bin/nvcc", str(usual)))
    script.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(*arguments, **environment):
        base = {"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)}
        done = subprocess.run([script, *arguments], env=base | environment, capture_output=True, text=True)
        assert list(scratch.iterdir()) == []
        return done.returncode, done.stdout.removesuffix("\n"), done.stderr.removesuffix("\n")

    run.usual = usual
    return run


@pytest.fixture
def places(find, tmp_path):
    """Where an nvcc may be, the first looked at first, and the settings that make the script look there."""
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvcc"
    python = program(tmp_path / "python", f'PYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"')
    files = [
        tmp_path / "set" / "nvcc",
        tmp_path / "path" / "nvcc",
        tmp_path / "home" / "bin" / "nvcc",
        find.usual,
        wheel,
    ]
    settings = {
        "NVCC": str(files[0]),
        "PATH": f"{files[1].parent}:/usr/bin:/bin",
        "CUDA_HOME": str(tmp_path / "home"),
    }
    return SimpleNamespace(files=files, settings=settings, python=str(python))


def test_nvcc_is_looked_for_in_order_down_to_the_wheel_and_made_to_compile_for_hopper(find, places):
    for place in reversed(places.files):
        program(place, WORKS)
        assert find(places.python, **places.settings) == (0, str(place), "")
        (log,) = place.with_name("nvcc.log").read_text().splitlines()
        assert log.startswith("-gencode=arch=compute_90a,code=sm_90a -c -o ") and log.endswith("probe.cu")


# --- Python ------------------------------------------------------------------------------------------------------

PYTHON = """
printf '%s\\n' "$(echo "$*" | tr '\\n' ' ')" >> {log}
modules="$0.modules"
case "$*" in
*version_info*) exit {old} ;;
*find_spec*) shift 2; for name; do grep -qx "$name" "$modules" || exit 1; done ;;
*tomllib*) exec {real} "$@" ;;
"-m venv"*) for last; do :; done
  mkdir -p "$last/bin" && cp "$0" "$last/bin/python"
  case "$*" in *--system-site-packages*) cp "$modules" "$last/bin/python.modules" ;;
  *) : > "$last/bin/python.modules" ;; esac ;;
"-m pip"*) {pip} ;;
esac
"""
INSTALLS = """for last; do :; done; [ "$last" != /dev/stdin ] || last=$(cat)
  case "$last" in *torch*) echo torch >> "$modules" ;; esac
  case "$last" in *pytest*) for name in {modules}; do echo $name >> "$modules"; done ;; esac"""
OFFLINE = 'cat > /dev/null; echo "ERROR: connection broken" >&2; exit 1'
# An index that lacks one of the requirements: all at once fails, one at a time all but that one.
LACKING = """for last; do :; done
  case "$last" in /dev/stdin | kernelguard*) cat > /dev/null; echo "ERROR: no kernelguard" >&2; exit 1 ;; esac
  name=$(echo "$last" | sed 's/[>=;].*//; s/pytest-xdist/xdist/; s/-/_/g'); echo $name >> "$modules" """


@pytest.fixture
def setup(root, tmp_path):
    """setup.sh of a checkout of its own; run(tier, modules at hand) gives its answer and the commands of pip."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(root / "scripts" / "setup.sh", checkout / "scripts")
    shutil.copy(root / "pyproject.toml", checkout)
    log = tmp_path / "log"

    def run(tier, modules, pip=INSTALLS, old=0, venv=None):
        at_hand = tmp_path / "bin" / "python3"
        text = PYTHON.format(log=log, old=old, real=sys.executable, pip=pip.replace("{modules}", MODULES))
        for path, held in ((at_hand, modules), *([(checkout / ".venv/bin/python", venv)] if venv is not None else [])):
            program(path, text)
            path.with_name(f"{path.name}.modules").write_text("\n".join(held.split()) + "\n")
        log.write_text("")
        done = subprocess.run(
            [checkout / "scripts" / "setup.sh", tier],
            env={"PATH": os.environ["PATH"], "PYTHON": str(at_hand)},
            capture_output=True,
            text=True,
        )
        calls = [line.strip() for line in log.read_text().splitlines() if line.startswith(("-m pip", "-m venv"))]
        path = done.stdout.strip().replace(str(at_hand), "AT_HAND").replace(str(checkout / ".venv/bin/python"), "VENV")
        return SimpleNamespace(status=done.returncode, python=path, said=done.stderr, calls=calls)

    return run


def test_a_python_with_all_is_used_as_it_is(setup):
    for tier, modules in (("run", "torch"), ("test", MODULES)):
        done = setup(tier, modules)
        assert (done.status, done.python, done.calls, done.said) == (0, "AT_HAND", [], "")


def test_a_venv_with_torch_comes_before_the_python_at_hand(setup):
    done = setup("run", "torch", venv="torch")
    assert (done.python, done.calls) == ("VENV", [])
    assert setup("run", "torch", venv="numpy").python == "AT_HAND"


def test_a_python_that_is_too_old_is_refused(setup):
    done = setup("run", "torch", old=1)
    assert done.status == 1 and done.python == "" and "is not Python 3.11 or later; set PYTHON to one" in done.said


def test_without_torch_it_is_installed_into_a_venv(setup):
    done = setup("run", "numpy")
    assert (done.status, done.python) == (0, "VENV")
    assert done.calls[0].startswith("-m venv /") and "--system-site-packages" not in done.calls[0]
    assert done.calls[1].endswith("-m pip install --quiet --disable-pip-version-check -r /dev/stdin")
    assert len(done.calls) == 2 and "setup: installing into .venv: torch==" in done.said and "pytest>=" not in done.said


@pytest.mark.parametrize("missing", MODULES.split()[1:])
def test_every_package_of_the_tests_is_asked_for(setup, missing):
    done = setup("test", " ".join(name for name in MODULES.split() if name != missing))
    assert (done.status, done.python) == (0, "VENV")
    assert "--system-site-packages" in done.calls[0] and len(done.calls) == 2
    assert done.calls[1].endswith("-m pip install --quiet --disable-pip-version-check -r /dev/stdin")


def test_a_venv_that_is_there_is_added_to(setup):
    done = setup("test", "", venv="torch")
    assert (done.status, done.python) == (0, "VENV") and [call[:6] for call in done.calls] == ["-m pip"]


def test_without_a_network_what_is_there_is_used(setup):
    done = setup("test", "torch pytest", pip=OFFLINE)
    assert (done.status, done.python) == (0, "VENV") and len(done.calls) == 2  # nothing tried one by one
    assert "connection broken" in done.said
    done = setup("test", "torch", pip=OFFLINE, venv="torch")
    assert done.status == 1 and "setup: pytest is missing and could not be installed" in done.said


def test_of_an_index_that_lacks_some_the_rest_is_installed(setup):
    done = setup("test", "torch", pip=LACKING)
    assert (done.status, done.python) == (0, "VENV")
    assert "setup: could not install kernelguard==" in done.said and "could not install pytest" not in done.said
    assert any(call.endswith("pytest>=8") for call in done.calls)
