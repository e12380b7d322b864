"""Workers are forks of one template: quick to start, their end is reported, and they share no descriptors."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from eval.cases import parse_case
from eval.session import Session
from eval.workers import template
from eval.workers.worker import Failure
from tests.waiting import LONG_S, alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

HONEST = Path(__file__).resolve().parents[2] / "adversarial/honest/honest.py"
CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1")


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Running:
    """A worker that has begun: its own number, its keeper's and its template's."""

    def __init__(self) -> None:
        self.session = Session(HONEST, CASE, torch.device("cpu"), 1, 300.0)
        self.pid = self.session.pid
        self.keeper = parent_of(self.pid)
        self.template = parent_of(self.keeper)


@pytest.fixture(scope="module")
def two():
    """Two workers at a time, of one template."""
    running = Running(), Running()
    yield running
    for worker in running:
        worker.session.close()


def sockets(pid):
    """The sockets that a process holds, by their numbers in the kernel."""
    held = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.add(str(path.readlink()))
    return {name for name in held if name.startswith("socket:")}


def test_two_workers_have_one_template_and_keepers_of_their_own(two):
    first, second = two
    assert first.template == second.template
    assert len({first.pid, second.pid, first.keeper, second.keeper, first.template}) == 5
    assert parent_of(first.template) == os.getpid()


def test_a_worker_inherits_only_its_own_descriptors(two):
    first, second = two
    # The template and the keepers close theirs after the fork, while the worker already answers.
    for keeper in (first.keeper, second.keeper):
        assert until(lambda keeper=keeper: len(sockets(keeper)) == 1), "its lifeline alone"
    assert len(sockets(first.pid)) == len(sockets(second.pid)) == 1
    assert not sockets(first.pid) & sockets(second.pid)
    assert until(lambda: not (sockets(first.pid) | sockets(second.pid)) & sockets(first.template))
    assert not sockets(first.keeper) & (sockets(first.pid) | sockets(second.pid) | sockets(second.keeper))


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_the_template_keeps_no_descriptor_of_a_finished_worker():
    def worked():
        worker = Running()
        worker.session.close()
        return worker.template

    after_one = descriptors(worked())
    for _ in range(2):
        pid = worked()
        assert until(lambda pid=pid: descriptors(pid) <= after_one)


def test_a_worker_sees_the_environment_of_the_moment(two, monkeypatch):
    monkeypatch.setenv("NVFP4_OF_THE_MOMENT", "set")
    monkeypatch.setenv("POPCORN_SEED", "secret")
    template.prepare()
    prepared = template._template.process.pid
    worker = Running()
    assert worker.template == prepared
    environment = Path(f"/proc/{worker.template}/environ").read_bytes().split(b"\0")
    worker.session.close()
    assert worker.template != two[0].template
    assert b"NVFP4_OF_THE_MOMENT=set" in environment
    assert not any(entry.startswith(b"POPCORN_SEED") for entry in environment)


def test_a_worker_is_in_the_folder_of_the_moment_and_how_it_ended_is_told(two, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    worker = Running()
    assert Path(f"/proc/{worker.pid}/cwd").readlink() == tmp_path
    os.kill(worker.pid, signal.SIGSEGV)
    with pytest.raises(Failure, match="the worker ended by itself: signal SIGSEGV"):
        worker.session.load()
    worker.session.close()


def kill(pid):
    """Kills a process and waits until it has ended: on a busy machine one that is killed goes on for a while."""
    gone = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([gone], [], [], LONG_S)[0]
    os.close(gone)


def test_a_template_that_is_gone_is_replaced():
    before = Running()
    kill(before.template)
    before.session.close(patient=False)
    after = Running()
    after.session.close()
    assert after.template != before.template


def test_no_process_is_left_when_the_harness_is_killed(tmp_path):
    script = (
        "import sys, time; sys.path.insert(0, '.')\n"
        "from tests.eval.workers.test_template import Running\n"
        "worker = Running()\n"
        "print(worker.template, worker.keeper, worker.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    ) as harness:
        left = [int(pid) for pid in harness.stdout.readline().split()]
        harness.kill()
    assert len(left) == 3
    assert until(lambda: not any(map(alive, left)))


def test_a_keeper_that_is_gone_takes_its_worker_along():
    worker = Running()
    kill(worker.keeper)
    with pytest.raises(Failure, match="the worker ended by itself: exit code None"):
        worker.session.load()
    worker.session.close()
    assert until(lambda: not alive(worker.pid))
