"""Submissions that do more than compute: reaching for the harness fails, and harmless oddities pass."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
from pathlib import Path

import pytest
import torch

from eval import sandbox
from eval.cases import parse_case
from eval.output.text import clean
from eval.sandbox import kernel, landlock, lifetime
from eval.supervisor import Limits, run_test
from eval.workers.process import SURVIVED
from eval.workers.worker import Failure, _blamed

ADVERSARIAL = Path(__file__).resolve().parents[2] / "adversarial"
CASE = parse_case("m: 40; n: 72; k: 128; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(answer_s=300.0)
# Attacks that only Landlock prevents; the report says if it is lacking.
NEEDS_LANDLOCK = {"looks_around", "kills_all"}


def mounts_allowed():
    """Whether a process here may have mounts of its own."""
    program = (
        "import os; from pathlib import Path; from eval.sandbox import mounts; "
        "mounts.restrict(Path.cwd(), os.open(Path.cwd(), os.O_RDONLY), False)"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


def scopes_signals() -> bool:
    try:
        return landlock.abi() >= 6
    except kernel.Refused:
        return False


def judged(name, within_s=math.inf):
    """A submission's result, which must come in time in the best of some runs: a busy machine delays any."""
    (path,) = ADVERSARIAL.glob(f"*/{name}.py")
    for _ in range(4):
        begin = time.monotonic()
        result = run_test(path, CASE, CPU, LIMITS)
        if (seconds := time.monotonic() - begin) < within_s:
            break
    assert seconds < within_s
    if name in NEEDS_LANDLOCK and result.sandbox.lacking:
        pytest.skip(result.sandbox.text())
    return result


def test_each_result_reports_the_sandbox():
    result = judged("leaves_daemon")
    assert result.passed, result.error
    if mounts_allowed():
        assert "mounts" in result.sandbox.parts, "the keeper's own Landlock must not stand in the way"
    assert result.sandbox.parts.keys() >= {"limits", "capabilities", "no new privileges", "Landlock", "seccomp"}
    (pid,) = re.findall(r"daemon (\d+)", result.printed)
    assert not Path(f"/proc/{pid}").exists(), "it outlived the case"
    assert result.worst_error is not None and result.worst_error <= 1 and result.wrong is None


def test_a_short_timeout_does_not_limit_the_start_of_a_worker():
    result = run_test(ADVERSARIAL / "honest" / "honest.py", CASE, CPU, Limits(answer_s=1e-3))
    assert result.sandbox.parts and "the submission hangs" in result.error, result.error


def test_a_backend_that_names_itself_in_two_lines_forges_none(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(
        "from tests.adversarial.honest.honest import custom_kernel\n"
        "class Backend:\n    name, available, detail = 'cpu', True, 'x)\\nsandbox: all of it'\n"
        "def backends():\n    return [Backend]\n"
    )
    assert run_test(path, CASE, CPU, LIMITS).backend == "cpu (x) sandbox: all of it)"


def test_the_kernel_ends_a_submission_first_when_memory_runs_out(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(
        "from tests.adversarial.honest.honest import custom_kernel\nprint(open('/proc/self/oom_score_adj').read())\n"
    )
    assert run_test(path, CASE, CPU, LIMITS).printed.strip() == "1000"


def running(program):
    """The processes that run a program."""
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(program):
                found.append(link.parent.name)
    return found


def test_a_chain_of_forks_is_ended_or_fails_the_case():
    result = judged("forks_a_chain")
    (program,) = re.findall(r"program (\S+)", result.printed)
    left = running(program)
    if "signals" in result.sandbox.text():
        assert result.passed and not left, result.error
    assert result.error == (SURVIVED if left else "")


def test_libraries_that_hold_up_readers_are_listed_at_once():
    result = judged("holds_up_readers", within_s=30)
    assert result.passed, result.error
    listed = {library.name: library.sha256 for library in result.libraries}
    assert listed["leased.so"] and listed["library.so (deleted)"] == ""
    # Of the log nothing is read: of nothing, or where the user may not open it, none.
    assert listed["log.so (deleted)"] in (hashlib.sha256().hexdigest(), "")


def test_a_list_of_mappings_without_end_is_left_unread():
    result = judged("maps_without_end", within_s=30)
    assert result.passed and [library.name for library in result.libraries] == ["endless.so"], result.error


def test_nested_folders_do_not_stop_the_next_case_or_the_clean_up(root, tmp_path):
    cases, submission = tmp_path / "cases.txt", ADVERSARIAL / "reaching" / "nests_folders.py"
    cases.write_text(f"{CASE.spec}\n")
    done = subprocess.run(
        [sys.executable, root / "eval" / "eval.py", "test", cases, "--submission", submission],
        env={**os.environ, "TMPDIR": str(tmp_path)}, umask=0o777, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [cases]), done.stdout + done.stderr


def test_nothing_of_the_harness_is_within_reach(root, tmp_path):
    """Run as a program, with a secret and a case file whose name is searched for."""
    cases, record = tmp_path / "hidden-cases.txt", tmp_path / "out.json"
    cases.write_text(CASE.spec)
    before = {path: path.read_bytes() for path in (root / "eval").rglob("*.py")}
    submission = ADVERSARIAL / "reaching" / "looks_around.py"
    done = subprocess.run(
        [sys.executable, root / "eval" / "eval.py", "test", cases, "--submission", submission, "--json", record],
        env={**os.environ, "POPCORN_SEED": "424242424242"}, capture_output=True, text=True,
    )  # fmt: skip
    written = json.loads(record.read_text())
    if "LACKING" in written["sandbox"]:
        pytest.skip(written["sandbox"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert written["results"][0]["seed"] > 424242424242
    assert {path: path.read_bytes() for path in (root / "eval").rglob("*.py")} == before


def files_of(folder):
    return {str(path): (path.lstat().st_mode, path.is_symlink()) for path in [folder, *folder.rglob("*")]}


def test_no_cache_that_the_user_chose_is_a_way_to_a_later_run(monkeypatch, tmp_path):
    """Two runs: what the first one leaves, the second one would follow."""
    for index, name in enumerate(sandbox.SCRATCH_VARIABLES[:-1]):
        (tmp_path / "chosen" / f"cache-{index}" / "inner").mkdir(parents=True)
        monkeypatch.setenv(name, str(tmp_path / "chosen" / f"cache-{index}" / ("inner" if index % 2 else "")))
    monkeypatch.setenv("CHOSEN_BY_USER", str(tmp_path / "chosen"))
    before = files_of(tmp_path)
    for _ in range(2):
        result = judged("leaves_in_caches")
        assert result.passed and "the user's" not in result.printed, result
        assert result.printed.count("is the run's") >= len(sandbox.SCRATCH_VARIABLES) - 1
        assert "changed" not in result.printed or not mounts_allowed()
        assert files_of(tmp_path) == before or not mounts_allowed()


@pytest.mark.skipif(not scopes_signals(), reason="this kernel's Landlock is too old")
def test_what_others_wait_for_in_pipes_and_terminals_is_left_to_them(monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    ours, terminal = os.openpty()
    os.write(pipe, b"a message")
    os.write(ours, b"a line\n")
    monkeypatch.setenv("READ_BY_OTHERS", os.pathsep.join((str(tmp_path / "pipe"), os.ttyname(terminal))))
    result = judged("takes_from_readers")
    assert result.passed and "took" not in result.printed, result.printed
    assert (os.read(pipe, 100), os.read(terminal, 100)) == (b"a message", b"a line\n")
    for descriptor in (pipe, ours, terminal):
        os.close(descriptor)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_the_users_programs_stay_on_their_processors(monkeypatch):
    with subprocess.Popen(["sleep", "1000"]) as program:
        monkeypatch.setenv("PROGRAM_OF_USER", str(program.pid))
        result = judged("moves_programs")
        now = os.sched_getaffinity(program.pid)
        program.kill()
    assert result.passed and now == os.sched_getaffinity(0), result.printed


def test_a_submission_in_shared_memory_is_refused_with_the_reason(root):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "kernel.py"
        path.write_bytes((ADVERSARIAL / "honest" / "honest.py").read_bytes())
        command = [sys.executable, root / "eval" / "eval.py", "test", "--device", "cpu", "--submission", path]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and f"{path} lies in /dev, and a worker on a CPU has a /dev of its own" in done.stderr


def test_a_link_to_shared_memory_may_be_the_folder_for_temporary_files(tmp_path, monkeypatch):
    """A worker on a CPU has a /dev/shm of its own, in which its folder must lie."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (tmp_path / "link").symlink_to(folder)
        lifetime.remove_run_folder()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
        result = judged("settings")
        lifetime.remove_run_folder()
    assert result.passed, result.error


def test_a_submission_that_kills_whatever_it_can_kills_itself_alone():
    result = judged("kills_all", within_s=60)
    assert re.match("the worker ended by itself: signal SIGKILL, as when memory runs out", result.error), result.error


def test_a_log_without_end_and_a_spoilt_error_are_read_all_the_same():
    result = judged("fills_log")
    assert result.error == clean(result.error) and "\n" not in result.printed.strip("\n").splitlines()[-1]
    assert re.match(r"import failed: ValueError: \\x1b\]0;owned\\x07\\", result.error), result.error
    assert "(fills_log.py:" in result.error
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", result.printed)
    assert "ValueError" in result.printed


def test_what_is_odd_and_right_passes():
    result = judged("settings")
    assert result.passed, result.error
    assert result.printed.endswith("ptxas info    : 0 bytes gmem\n") and len(result.printed) <= 1 << 16


def test_a_pool_of_processes_finds_the_submission_by_its_name():
    result = judged("spawns_pool")
    assert result.passed, result.error


def blamed(error):
    with pytest.raises(Failure) as failure, _blamed("import failed"):
        raise error
    return str(failure.value)


def test_a_long_error_is_told_in_short_and_by_its_ends():
    log = "nvcc failed:\n" + "kernel.cu(1): error: no such thing\n" * 60_000 + "the end of the log"
    said = blamed(RuntimeError(log))
    assert said.startswith("import failed: RuntimeError: nvcc failed:") and len(said) < 5000
    assert "the end of the log (test_reaching.py:" in said and "characters ...]" in said


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            PermissionError(13, "Permission denied", "/tmp/kernel.cu"),
            "a submission writes only where tempfile.gettempdir() says, and",
        ),
        (OSError(30, "Read-only file system", "/home/x"), "a submission writes only where tempfile.gettempdir() says"),
        (PermissionError(1, "Operation not permitted"), "the sandbox refuses this call: sockets"),
        (PermissionError(1, "Operation not permitted", "x"), "a submission writes only where"),
        (FileNotFoundError(2, "No such file", "/dev/shm/x"), "on a CPU a worker's /dev and /dev/shm are its own"),
        (OSError(28, "No space left on device"), "the disk of the folder for temporary files is full; TMPDIR"),
        (ImportError("x.so: cannot open shared object file: Permission denied"), "a submission writes only where"),
        (FileNotFoundError(2, "No such file", "/x"), None),
        (ValueError("Permission denied"), None),
    ],
)
def test_a_refusal_of_the_sandbox_is_told_by_its_number(error, hint):
    said = blamed(error)
    assert f"; {hint}" in said if hint else ";" not in said


def test_an_error_that_wraps_a_refusal_is_told_by_the_refusals_number():
    try:
        try:
            raise PermissionError(1, "Operation not permitted")
        except OSError as refusal:
            raise urllib.error.URLError(refusal)  # noqa: B904  (as urllib does)
    except OSError as error:
        assert "; the sandbox refuses this call: sockets" in blamed(error)


def test_a_place_is_the_submissions_own_and_an_empty_message_is_none(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("import os\nos.makedirs('/proc/new', exist_ok=True)\n")
    assert "(kernel.py:2)" in run_test(path, CASE, CPU, LIMITS).error
    path.write_text("def custom_kernel(data):\n    raise KeyboardInterrupt\n")
    assert run_test(path, CASE, CPU, LIMITS).error == "custom_kernel failed: KeyboardInterrupt (kernel.py:2)"


def test_a_traceback_begins_and_the_place_ends_in_the_submissions_own_files(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("import json\n\n\ndef custom_kernel(data):\n    return json.loads('{')\n")
    result = run_test(path, CASE, CPU, LIMITS)
    assert "(kernel.py:5)" in result.error
    first, second, *_ = result.printed.splitlines()
    assert first == "Traceback (most recent call last):" and second.strip().startswith(f'File "{path}", line 5')
    assert "eval" not in result.printed.replace(str(path), "")
    path.write_text("def custom_kernel(data, more):\n    return more\n")  # no frame is its own
    result = run_test(path, CASE, CPU, LIMITS)
    assert result.error.endswith("missing 1 required positional argument: 'more'"), result.error
    assert "eval" not in result.printed


class Hostile(type):
    @property
    def __name__(cls):
        raise SystemExit


class Word(str):
    def __len__(self):
        raise SystemExit

    __format__ = __len__


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (lambda self: 1 / 0, {}, "Mute: (its message cannot be read) (test_reaching.py:"),
        (lambda self: sys.exit(), {}, "Mute: (its message cannot be read) (test_reaching.py:"),
        (lambda self: Word("a word"), {}, "Mute: a word (test_reaching.py:"),
        (lambda self: "a word", {"__traceback__": None}, "Mute: a word"),
    ],
)
def test_an_error_that_will_not_be_told_is_told_all_the_same(words, more, said):
    error = Hostile("Mute", (BaseException,), {"__str__": words, **more})
    assert blamed(error()).startswith(f"import failed: {said}")


def test_the_leaderboards_modules_are_there(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(
        "from reference import check_implementation, generate_input, ref_kernel\n"
        "from utils import make_match_reference, verbose_allclose, verbose_allequal\n"
        "data = generate_input(m=8, n=16, k=64, l=1, seed=5)\n"
        "right, wrong = ref_kernel(data), ref_kernel(data) + 9\n"
        "matches = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-3)\n"
        "print(check_implementation(data, right), check_implementation(data, wrong)[0])\n"
        "print(matches(data, right), matches(data, wrong)[0], verbose_allequal(right, right))\n"
        "print(verbose_allclose(right, wrong, atol=10.0)[0], verbose_allclose(right, wrong)[0])\n"
        "custom_kernel = ref_kernel\n"
    )
    result = run_test(path, CASE, CPU, LIMITS)
    assert result.passed, result.error
    assert result.printed.splitlines() == ["(True, '') False", "(True, '') False (True, [])", "True False"]


def test_a_submission_that_spoils_its_own_folder_is_told_so_in_the_next_case(root, tmp_path):
    (tmp_path / "kernel.py").write_text(
        "import os\nfrom pathlib import Path\nfrom tests.adversarial.honest.honest import custom_kernel\n"
        "cache = Path(os.environ['TRITON_CACHE_DIR'])\ncache.rmdir()\ncache.write_text('')\n"
    )
    (tmp_path / "cases.txt").write_text(f"{CASE.spec}\n{CASE.spec}\n")
    command = [sys.executable, root / "eval" / "eval.py", "test", tmp_path / "cases.txt", "--device", "cpu"]
    done = subprocess.run([*command, "--submission", tmp_path / "kernel.py"], capture_output=True, text=True)
    assert done.returncode == 112 and "1 of 2 tests pass" in done.stdout, done.stderr
    assert re.search(r"^FAIL 40 72 128: FileExistsError: .*triton_cache_dir'", done.stdout, re.MULTILINE), done.stdout


def test_a_utils_of_the_submissions_own_comes_first(tmp_path):
    (tmp_path / "utils.py").write_text("from reference import ref_kernel as mine\n")
    (tmp_path / "kernel.py").write_text("from utils import mine as custom_kernel\n")
    result = run_test(tmp_path / "kernel.py", CASE, CPU, LIMITS)
    assert result.passed, result.error


def test_the_text_of_a_submission_runs_and_not_what_lies_in_a_cache_beside_it(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("raise ValueError('the text')\n")
    cached = Path(importlib.util.cache_from_source(str(path)))
    cached.parent.mkdir()
    code = compile("from tests.adversarial.honest.honest import custom_kernel", str(path), "exec")
    seen = path.stat()
    pyc = importlib._bootstrap_external._code_to_timestamp_pyc(code, int(seen.st_mtime), seen.st_size)
    cached.write_bytes(pyc)
    assert "import failed: ValueError: the text" in run_test(path, CASE, CPU, LIMITS).error
