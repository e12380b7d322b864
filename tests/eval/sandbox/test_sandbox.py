"""The sandbox: what a submission can and cannot reach, as root and as an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

INSIDE = (Path(__file__).parent / "programs" / "attempts.py").read_text()
OTHER_USER = 65534  # one without rights on every Linux
# What an ordinary user may not do to a process that has shielded itself, sandbox or no sandbox, and what the kernel
# may allow no one here.
NEEDS_PTRACE = {"read its environment", "open its memory", "look at its descriptors", "write to its descriptors"}
OWN_LIMITS = {"write a core", "make a file of a terabyte", "change a flag of its folder"}
SOCKETS = {"connect to an abstract socket", "connect to a socket with a path", "send to a path from a pair"} | {
    "have a socket of the network",
    "take a name from others' sockets",
}
SIGNALS = {"signal it", "signal its group", "signal its thread", "signal it by descriptor"}
ELSEWHERE = {
    "write elsewhere", "change a file elsewhere", "remove a file elsewhere", "make a folder elsewhere",
    "link elsewhere",
}  # fmt: skip
DEVICES = "read a device's files"
PIPES = {
    "read from a pipe elsewhere", "read from a pipe beside it", "read from another program's temporary file",
    "read from a pipe deep in the home folder", "read a file of the user", DEVICES,
}  # fmt: skip
KERNELS, A_DEVICES = "change a mode of the kernel's", "change a mode of a device's"
ATTRIBUTES = {"change a mode elsewhere", "change times elsewhere", KERNELS, A_DEVICES}


def attempt(root, how, user=None):
    """The results of a process's attempts inside the sandbox, as `user` if given."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        folder = Path(name)
        listener.bind(f"\0{folder.name}")
        listener.listen()
        scratch, elsewhere, beside = folder / "run" / "scratch", folder / "elsewhere", folder / "submission"
        home = folder / "home"
        for path in (scratch, elsewhere, beside / "more", home / "deep" / "in"):
            path.mkdir(parents=True)
            path.chmod(0o777)
        for path in (elsewhere / "pipe", beside / "pipe", home / "deep" / "in" / "pipe"):
            os.mkfifo(path)
            path.chmod(0o666)
        for path in (beside / "beside.py", beside / "more" / "file", home / "deep" / "file"):
            path.write_text("")
        _, terminal = (stack.enter_context(os.fdopen(end, "r+b", buffering=0)) for end in os.openpty())
        os.fchmod(terminal.fileno(), 0o666)
        folder.chmod(0o755)
        path_socket = stack.enter_context(socket.socket(socket.AF_UNIX))
        path_socket.bind(str(folder / "socket"))
        path_socket.listen()
        (folder / "socket").chmod(0o777)
        (elsewhere / "there").write_text("")
        (elsewhere / "gone").write_text("")
        (elsewhere / "there").chmod(0o666)
        environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"HOME": str(home), "TRITON_CACHE_DIR": str(elsewhere), "XDG_CACHE_HOME": str(elsewhere)}
        # Another user may not reach a Python of ours; one of the system's will do.
        python = "/usr/bin/python3" if user else sys.executable
        done = subprocess.run(
            [python, "-c", PARENT, INSIDE, how, scratch, elsewhere, folder.name, beside / "submission.py",
             os.ttyname(terminal.fileno())],
            env=environment, user=user, capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


# The harness's part: shields itself and starts the worker.
PARENT = """
import subprocess, sys
from eval import sandbox
sandbox.shield()
sys.exit(subprocess.run([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.DEVNULL).returncode)
"""


@pytest.fixture(scope="module")
def outside(root):
    return attempt(root, "outside")


@pytest.fixture(scope="module")
def inside(root):
    return attempt(root, "inside")


@pytest.fixture(scope="module")
def ordinary(root):
    if os.getuid() != 0:
        pytest.skip("needs root, to be someone else")
    try:
        return attempt(root, "inside", OTHER_USER)
    except (OSError, AssertionError) as error:
        pytest.skip(f"no other user can run Python here: {error}")


def lacks_landlock(seen):
    return any("Landlock" in what for what in seen["lacking"])


def test_everything_tried_works_outside(outside):
    """Otherwise a refusal inside would prove nothing."""
    refused = {name for name in outside["tried"] if outside["said"][name]}
    # An ordinary user's shielded process is out of reach as it is; a limit may stand already.
    of_user = NEEDS_PTRACE | {"read its maps", KERNELS, A_DEVICES} if os.getuid() else set()
    assert refused <= of_user | OWN_LIMITS, outside["said"]


def refused_inside(seen):
    if lacks_landlock(seen):
        pytest.skip(seen["text"])
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert works == set(), works
    broken = {name: seen["said"][name] for name in seen["works"] if seen["said"][name]}
    assert broken == {}


def test_nothing_of_it_works_inside_and_honest_work_does(inside):
    refused_inside(inside)


def test_nor_for_an_ordinary_user(ordinary):
    refused_inside(ordinary)


def test_a_missing_part_is_reported_and_the_others_hold(root):
    seen = attempt(root, "without Landlock")
    assert [line.partition(",")[0] for line in seen["lacking"]] == ["Landlock (not in this kernel)"]
    assert "LACKING: Landlock" in seen["text"]
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert works == SIGNALS | PIPES or "mounts" not in seen["parts"], works
    seen = attempt(root, "without mounts")
    assert "mounts (not in this kernel), so that modes and times of the user's files can be changed" in seen["lacking"]
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert works == ATTRIBUTES | {"leave a file in shared memory"}, works
    seen = attempt(root, "without seccomp")
    assert [line.partition(",")[0] for line in seen["lacking"]] == ["seccomp (not in this kernel)"]
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert not works & (NEEDS_PTRACE | ELSEWHERE | ATTRIBUTES | {"signal it", "signal its group"}), works
    assert {"trace a child", "limit it", "make a namespace", "keep System V memory"} <= works


def test_an_older_landlock_says_what_it_does_not_do(root, inside):
    if lacks_landlock(inside):
        pytest.skip(inside["text"])
    seen = attempt(root, "an old Landlock")
    assert "signals (Landlock ABI 6)" in seen["lacking"]
    assert seen["parts"]["Landlock"] == "ABI 1: files"
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert works <= SIGNALS, works


def test_on_cuda_memory_can_be_lent_until_sockets_are_closed(root, inside):
    if lacks_landlock(inside):
        pytest.skip(inside["text"])
    seen = attempt(root, "on CUDA")
    works = {name for name in seen["tried"] if not seen["said"][name]}
    assert works == {*SOCKETS, "leave a file in shared memory", DEVICES, KERNELS}, works


def test_on_cuda_a_worker_names_its_threads_as_the_driver_does(root, inside):
    if lacks_landlock(inside):
        pytest.skip(inside["text"])
    assert re.search("Permission denied|Read-only", inside["said"]["name its threads"])
    assert attempt(root, "on CUDA")["said"]["name its threads"] == ""


def test_temporary_files_and_caches_lie_in_the_scratch_folder_whatever_the_user_chose(inside):
    names = ("TMPDIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR")
    paths = {Path(inside["environment"][name]) for name in names}
    assert len(paths) == len(names) and {path.parent.name for path in paths} == {"scratch"}


def test_a_worker_sees_no_other_devices_than_it_needs(inside):
    if "mounts" not in inside["parts"]:
        pytest.skip(inside["text"])
    assert inside["devices"] == ["full", "null", "random", "shm", "urandom", "zero"]
