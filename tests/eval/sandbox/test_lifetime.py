"""How the harness ends: signals, leftover processes, its folder, and what /proc shows of its command line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import LONG_S, alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by Linux's sub-reapers and signals")

# A harness in small: a keeper with a worker that starts a daemon and then does as it is told.
PROGRAM = """
import multiprocessing, os, signal, socket, subprocess, sys, time
from eval.sandbox import keeper, lifetime

if sys.argv[1] == "a survivor":
    keeper.GIVE_UP_S, keeper._confine_signals, keeper._kill_children = 0.2, bool, bool

def work(lifeline, connection, how):
    keeper.keep(lifeline, [])
    # Out of the worker's session and adopted at once: a daemon.
    subprocess.run("setsid sh -c 'setsid sleep 1000 & echo $! > %s/daemon' &" % sys.argv[2], shell=True)
    while not os.path.exists(sys.argv[2] + "/daemon") or not open(sys.argv[2] + "/daemon").read():
        time.sleep(0.01)
    connection.send_bytes(str(os.getpid()).encode())
    if how == "a signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how in ("an exit", "a survivor"):
        os._exit(7)
    if how == "a family":  # that goes on growing
        for _ in range(4):
            os.fork()
        while True:
            if os.fork() == 0:
                time.sleep(0.1)
                os._exit(0)
            time.sleep(0.001)
    time.sleep(1000)

def main():
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    read, write = socket.socketpair()
    process = context.Process(target=work, args=(read, theirs, sys.argv[1]))
    with lifetime.signals_held():
        process.start()
    theirs.close()
    read.close()
    worker = int(mine.recv_bytes())
    print(worker, process.pid, lifetime.run_folder(), open(sys.argv[2] + "/daemon").read().strip(), flush=True)
    sys.stdin.readline()  # what follows must not be in the reader's buffer
    if sys.argv[1] in ("a word", "a family"):
        time.sleep(0.1)
        write.shutdown(socket.SHUT_WR)
    if sys.argv[1] in ("nothing", "a call without end"):
        if sys.argv[1] == "a call without end":
            # The handler's C part runs in another thread; this one sleeps on and its Python part never comes.
            signal.pthread_sigmask(signal.SIG_BLOCK, lifetime.ENDING_SIGNALS)
        time.sleep(1000)
    process.join()
    code, left = keeper.LAST_WORD.unpack(write.recv(9))
    print(code, "survivors" if left else "", flush=True)
    return 5

if __name__ == "__main__":
    sys.exit(lifetime.run_to_the_end(main))
"""


def as_from_a_terminal():
    """Ending signals as a shell leaves them in the foreground: these tests may run under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Run:
    """The program under way: its worker, keeper, folder and daemon, which all have to be gone in the end."""

    def __init__(self, root, folder, how):
        path = folder / "program.py"
        path.write_text(PROGRAM)
        self.process = subprocess.Popen(
            [sys.executable, path, how, folder],
            env={**os.environ, "PYTHONPATH": str(root)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=as_from_a_terminal,
        )  # fmt: skip
        worker, keeper, folder, daemon = self.process.stdout.readline().split()
        print(file=self.process.stdin, flush=True)
        self.pids, self.folder = [int(worker), int(keeper), int(daemon)], Path(folder)

    def ended(self):
        """The exit code, what else was printed, and what is left."""
        out, err = self.process.communicate(timeout=LONG_S)
        until(lambda: not any(map(alive, self.pids)))
        return self.process.returncode, out, err, [pid for pid in self.pids if alive(pid)]


@pytest.mark.parametrize(
    ("how", "code"),
    [("a signal", -signal.SIGSEGV), ("an exit", 7), ("a word", -signal.SIGKILL), ("a family", -signal.SIGKILL)],
)
def test_what_a_worker_started_ends_with_it(root, tmp_path, how, code):
    run = Run(root, tmp_path, how)
    assert run.ended() == (5, f"{code} \n", "", [])
    assert not run.folder.exists()


def test_a_process_that_outlives_the_keeper_is_reported(root, tmp_path):
    run = Run(root, tmp_path, "a survivor")
    try:
        assert run.process.stdout.readline() == "7 survivors\n"
    finally:
        os.kill(run.pids[-1], signal.SIGKILL)
    assert run.ended() == (5, "", "", [])


def in_time(interrupted):
    """Whether it takes less than the promised five seconds, in the best of some runs: a busy machine delays it."""
    return any(interrupted() < 5 for _ in range(4))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", ["once", "until it ends"])
def test_a_signal_ends_it_in_time_in_one_line_with_nothing_left(root, tmp_path, number, times):
    def interrupted():
        run = Run(root, tmp_path, "nothing")
        begin = time.monotonic()
        run.process.send_signal(number)
        while times != "once" and run.process.poll() is None:
            run.process.send_signal(number)
        assert run.ended() == (128 + number, "", f"nvfp4 eval: ended by {number.name}\n", [])
        assert not run.folder.exists()
        return time.monotonic() - begin

    assert in_time(interrupted)


AT_THE_END = """
import os, signal, sys
from eval.sandbox import lifetime

def say(number, said=lifetime._say):
    print(*(callable(signal.getsignal(each)) for each in lifetime.ENDING_SIGNALS), flush=True)
    os.kill(os.getpid(), number)
    said(number)

lifetime._say = say
sys.exit(lifetime.run_to_the_end(lambda: os.kill(os.getpid(), signal.SIGHUP)))
"""


def test_a_second_signal_finds_a_handler_of_pythons_until_the_last_line(root):
    """Where it went in between, Python would print that one was ignored due to a race condition."""
    command = [sys.executable, "-c", AT_THE_END]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=as_from_a_terminal)
    assert (done.returncode, done.stdout, done.stderr) == (129, "True True True\n", "nvfp4 eval: ended by SIGHUP\n")


def test_a_call_that_lets_no_handler_run_is_ended_too(root, tmp_path):
    def interrupted():
        run = Run(root, tmp_path, "a call without end")
        begin = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        assert run.ended() == (143, "", "nvfp4 eval: ended by SIGTERM\n", [])
        assert not run.folder.exists()
        return time.monotonic() - begin

    assert in_time(interrupted)


def test_when_the_harness_is_killed_its_workers_end(root, tmp_path):
    run = Run(root, tmp_path, "nothing")
    run.process.kill()
    assert run.ended() == (-signal.SIGKILL, "", "", [])
    shutil.rmtree(run.folder)  # nobody else is left to do it


def test_a_signal_that_was_ignored_stays_so(root, tmp_path):
    program = (
        "import os, signal; from eval.sandbox import lifetime\n"
        "lifetime.run_to_the_end(lambda: (os.kill(os.getpid(), signal.SIGHUP), print('goes on'))[0])"
    )
    done = subprocess.run(
        ["nohup", sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(root)}, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "goes on" in done.stdout, done.stderr


def test_what_others_see_of_the_command_line_and_the_secret(root, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys; from pathlib import Path; from eval.sandbox import lifetime\n"
        "lifetime.hide_command_line(('POPCORN_SEED',))\n"
        "seen = Path('/proc/self/cmdline').read_bytes() + Path('/proc/self/environ').read_bytes()\n"
        "print(b'benchmark' in seen, b'4711' in seen, b'KEPT=1234' in seen, sys.argv[1:], os.environ['POPCORN_SEED'])"
    )
    done = subprocess.run(
        [sys.executable, program, "benchmark", "cases.txt"],
        env={**os.environ, "PYTHONPATH": str(root), "POPCORN_SEED": "4711", "KEPT": "1234"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "False False True ['benchmark', 'cases.txt'] 4711\n", done.stderr


def test_the_runs_folder_is_removed_however_it_was_left(tmp_path, monkeypatch):
    from eval.sandbox import lifetime

    monkeypatch.setattr(lifetime.tempfile, "tempdir", str(tmp_path))
    for name, value in (("_folder", None), ("_descriptor", -1), ("_scratch", {})):  # not an earlier test's
        monkeypatch.setattr(lifetime, name, value)
    opened = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  (numbers alone)
    folder = lifetime.run_folder()
    assert folder == lifetime.run_folder() and folder.parent == tmp_path
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("")
    (folder / "a" / "link").symlink_to(tmp_path)
    (folder / "a" / "b").chmod(0)
    here = Path.cwd()
    os.chdir(folder / "a")
    for _ in range(2100):  # deeper than recursion goes, and longer than a path may be
        Path("d").mkdir()
        os.chdir("d")
    os.chdir(here)
    folder.chmod(0)
    os.lseek(lifetime._descriptor, (1 << 63) - 1, os.SEEK_SET)  # as on btrfs, it lists nothing later than itself
    assert os.listdir(lifetime._descriptor) == []  # noqa: PTH208  (a descriptor)
    os.lseek(lifetime._descriptor, (1 << 63) - 1, os.SEEK_SET)
    assert lifetime.run_folder().stat().st_mode & 0o777 == 0o700
    lifetime.remove_run_folder()
    assert list(tmp_path.iterdir()) == []
    assert lifetime.run_folder() != folder
    lifetime.remove_run_folder()
    assert sorted(os.listdir("/proc/self/fd")) == opened  # noqa: PTH208


def test_a_run_folder_that_was_replaced_by_a_link_is_emptied_by_descriptor(tmp_path, monkeypatch, capfd):
    from eval.sandbox import lifetime

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("")
    monkeypatch.setattr(lifetime.tempfile, "tempdir", str(tmp_path))
    for name, value in (("_folder", None), ("_descriptor", -1), ("_scratch", {})):  # not an earlier test's
        monkeypatch.setattr(lifetime, name, value)
    folder = lifetime.run_folder()
    (folder / "file").write_text("")
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "elsewhere")
    lifetime.remove_run_folder()
    assert (tmp_path / "elsewhere" / "kept").exists() and not list((tmp_path / "moved").iterdir())
    assert f"cannot remove {folder}" in capfd.readouterr().err


def test_only_the_first_signal_interrupts(root):
    code = """
import os, signal
from eval.sandbox import lifetime
with lifetime._handled_signals():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        print("not interrupted")
    except lifetime.Interrupted as first:
        for number in lifetime.ENDING_SIGNALS:
            os.kill(os.getpid(), number)
        print(first.number == signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
print("ignored behind it")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=500)
    assert (done.stdout, done.returncode) == ("True\nignored behind it\n", 0), done.stderr


@pytest.mark.parametrize(
    ("first", "now", "kept"),
    [
        ((1 << 40, 0), ((1 << 40) - (200 << 20), 0), True),  # bytes and files; files are not counted on this disk
        ((1 << 40, 0), (1 << 35, 0), False),  # much to write out while the next one is timed
        ((1 << 33, 0), ((1 << 33) - (1 << 20), 0), False),
        ((200 << 20, 0), (66 << 20, 0), False),  # a small disk: less is free than at the start
        ((66 << 20, 0), (67 << 20, 0), True),
        ((1 << 40, 1 << 20), (1 << 40, (1 << 20) - 9000), True),
        ((1 << 40, 1 << 20), (1 << 40, 9), False),
    ],
)
def test_what_takes_room_from_the_next_worker_goes_before_it_starts(tmp_path, monkeypatch, first, now, kept):
    from eval.sandbox import lifetime

    def free(room):
        count, files = room
        found = SimpleNamespace(f_bavail=count >> 12, f_frsize=4096, f_files=files, f_favail=files)
        monkeypatch.setattr(lifetime.os, "fstatvfs", lambda folder: found)

    monkeypatch.setattr(lifetime.tempfile, "tempdir", str(tmp_path))
    for name, value in (("_folder", None), ("_descriptor", -1), ("_scratch", {})):  # not an earlier test's
        monkeypatch.setattr(lifetime, name, value)
    try:
        free(first)
        written = [lifetime.scratch_folder(name)[0] / "written" for name in ("one", "other")]
        for path in written:
            path.write_text("all of it")
        free(now)
        assert lifetime.scratch_folder("other")[0] == written[1].parent
        assert [path.exists() for path in written] == [kept, kept]
        if not kept:
            written[0].write_text("more than can be removed")
            os.lseek(lifetime._scratch["one"][1], (1 << 63) - 1, os.SEEK_SET)  # as on btrfs, it does not list this
            free(tuple(count // 2 for count in now))
            monkeypatch.setattr(lifetime, "REMOVE_S", -1.0)
            with pytest.raises(OSError, match="left more files than can be removed in time: 'one'"):
                lifetime.scratch_folder("other")
            monkeypatch.setattr(lifetime, "REMOVE_S", 10.0)
    finally:
        lifetime.remove_run_folder()
