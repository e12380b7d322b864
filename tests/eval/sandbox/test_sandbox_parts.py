"""The sandbox's parts one by one: numbers as the kernel's headers have them, the filter run by hand, what they ask.

What they do together is in test_sandbox.py.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval import sandbox
from eval.sandbox import kernel, landlock, mounts, places, privileges, seccomp

ALLOW, REFUSE, ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": (0, 62 | 3 << 30), "aarch64": (1, 183 | 3 << 30)}  # column, ELF's machine, 64 bits, little


def macros(*headers):
    """The numeric macros of the C compiler's headers."""
    words = [word for header in headers for word in ("-include", header)]
    done = subprocess.run(["cc", "-E", "-dM", *words, "-x", "c", "/dev/null"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no {' or '.join(headers)} here")
    found = {}
    for name, value in re.findall(r"^#define (\w+) (.+)$", done.stdout, re.MULTILINE):
        if number := re.fullmatch(r"\(?(0x[0-9a-fA-F]+|[1-9]\d*|0)U?L*(?: << (\d+))?\)?", value):
            found[name] = int(number[1], 0) << int(number[2] or 0)
    return found


@pytest.mark.skipif(not shutil.which("cc"), reason="no cc")
@pytest.mark.parametrize(("header", "column"), [("asm/unistd_64.h", 0), ("asm-generic/unistd.h", 1)])
def test_each_system_call_has_the_number_of_the_kernels_headers(header, column):
    told = macros(header)
    known = {name: numbers[column] for name, numbers in kernel._NUMBERS.items() if f"__NR_{name}" in told}
    assert known == {name: told[f"__NR_{name}"] for name in known} and len(known) > 35
    assert set(kernel._NUMBERS) == {
        *(*seccomp.REFUSED, *seccomp._OWN_ONLY, *seccomp._VALUES, "seccomp", "capset", "sched_setaffinity"),
        *("clone", "clone3", "socket", "socketpair", "bind"),
        *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"),
        *("mount", "mount_setattr", "move_mount", "open_tree"),
    }


@pytest.mark.skipif(not shutil.which("cc"), reason="no cc")
def test_constants_are_those_of_the_headers():
    told = macros("linux/prctl.h", "linux/landlock.h", "linux/seccomp.h", "linux/filter.h", "linux/capability.h")
    assert (kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL) == (47, 4)
    for name in ("SET_PDEATHSIG", "SET_DUMPABLE", "CAPBSET_DROP", "SET_CHILD_SUBREAPER", "SET_NO_NEW_PRIVS"):
        assert getattr(kernel, f"PR_{name}") == told[f"PR_{name}"], name
    rights = {name: value for name, value in told.items() if name.startswith("LANDLOCK_ACCESS_FS_")}
    changes = sum(value for name, value in rights.items() if re.search("_REMOVE_|_MAKE_", name))
    assert changes == landlock._CHANGE_FOLDERS and rights["LANDLOCK_ACCESS_FS_WRITE_FILE"] == landlock._WRITE_FILE
    assert rights["LANDLOCK_ACCESS_FS_READ_FILE"] == landlock._READ_FILE
    for name in ("REFER", "TRUNCATE", "IOCTL_DEV"):
        value = rights.get(f"LANDLOCK_ACCESS_FS_{name}", getattr(landlock, f"_{name}"))  # of an older kernel's headers
        assert getattr(landlock, f"_{name}") == value, name
    assert told["LANDLOCK_CREATE_RULESET_VERSION"] == landlock._CREATE_RULESET_VERSION
    assert told["_LINUX_CAPABILITY_VERSION_3"] == privileges._CAPABILITY_VERSION_3
    assert told["SECCOMP_SET_MODE_FILTER"] == seccomp._SET_MODE_FILTER
    assert told["SECCOMP_FILTER_FLAG_TSYNC"] == seccomp._FILTER_FLAG_TSYNC


# --- the filter -------------------------------------------------------------------------------------------------


def run_filter(program, machine_bits, number, arguments=()):
    """Runs classic BPF on struct seccomp_data: number, architecture, address, six arguments."""
    data = [number, machine_bits, 0, 0, *(word for value in (*arguments, *[0] * 6)[:6] for word in (value, 0))]
    at = word = 0
    while True:
        one = program[at]
        at += 1
        if one.code == 0x20:
            word = data[one.k // 4] & 0xFFFFFFFF
        elif one.code == 0x05:
            at += one.k
        elif one.code == 0x15:
            at += one.jt if word == one.k else one.jf
        elif one.code == 0x25:
            at += one.jt if word > one.k else one.jf
        elif one.code == 0x45:
            at += one.jt if word & one.k else one.jf
        elif one.code == 0x54:
            word &= one.k
        else:
            assert one.code == 0x06
            return one.k


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_refuses_its_list_and_what_it_does_not_know(monkeypatch, machine):
    column, bits = ARCHITECTURES[machine]
    monkeypatch.setattr(kernel, "_COLUMN", column)
    program = seccomp.program(machine, 99)
    refused = {kernel._NUMBERS[name][column] for name in seccomp.REFUSED}
    assert len(refused) == len(seccomp.REFUSED)
    by_argument = (*seccomp._OWN_ONLY, *seccomp._VALUES, "clone", "clone3", "sched_setaffinity")
    special = {kernel._NUMBERS[name][column] for name in by_argument}
    assert run_filter(program, bits, 463) == run_filter(program, bits, 9999) == ABSENT, "later than the filter"
    for number in set(range(463)) - special:
        for arguments in ((5, 5, 5), (4321, 0, 0)):
            assert run_filter(program, bits, number, arguments) == (REFUSE if number in refused else ALLOW), number
        assert run_filter(program, bits ^ 1, number) == ABSENT
    assert run_filter(program, bits, 0x40000000 | 39) == ABSENT, "x32"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("prlimit64", (0, 7), "allow"), ("prlimit64", (99, 7), "allow"), ("prlimit64", (98, 7), "refuse"),
        ("sched_setaffinity", (0,), "allow"), ("sched_setaffinity", (99,), "allow"),
        ("sched_setaffinity", (98,), "pass"),
        ("sched_setscheduler", (0,), "allow"), ("sched_setattr", (5,), "refuse"), ("sched_setparam", (99,), "allow"),
        # PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS 1: groups and users are refused, whoever is meant.
        ("setpriority", (0, 0), "allow"), ("setpriority", (0, 5), "refuse"), ("setpriority", (2, 0), "refuse"),
        ("ioprio_set", (1, 99), "allow"), ("ioprio_set", (2, 0), "refuse"), ("ioprio_set", (3, 0), "refuse"),
        ("clone", (17,), "allow"), ("clone", (0x003D0F00,), "allow"),  # fork, and a thread of glibc's
        ("clone", (17 | 0x10000000,), "refuse"), ("clone", (0x20000,), "refuse"), ("clone", (0x40000000,), "refuse"),
        ("clone", (0x20000000,), "refuse"), ("clone", (0x8000000,), "refuse"), ("clone3", (), "absent"),
        # F_SETFD and F_SETLK, F_SETOWN and F_SETLEASE; TCGETS, FIOSETOWN.
        ("kill", (-1, 9), "refuse"), ("kill", (0, 9), "allow"), ("kill", (98, 9), "allow"),
        ("fcntl", (3, 2), "allow"), ("fcntl", (3, 6, 8), "allow"), ("fcntl", (3, 8, 77), "refuse"),
        ("fcntl", (3, 1024, 1), "refuse"), ("ioctl", (3, 0x5401), "allow"), ("ioctl", (3, 0x8901), "refuse"),
        # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, BTRFS_IOC_SUBVOL_CREATE; NV_ESC_CARD_INFO, DRM_IOCTL_VERSION, TIOCGWINSZ.
        ("ioctl", (3, 0x40086602), "refuse"), ("ioctl", (3, 0x401C5820), "refuse"),
        ("ioctl", (3, 0x5000940E), "refuse"), ("ioctl", (3, 0xC8404600 | 200), "allow"),
        ("ioctl", (3, 0xC0406400), "allow"), ("ioctl", (3, 0x5413), "allow"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_are_limited_to_the_worker_and_make_no_namespace(monkeypatch, machine, name, arguments, code):
    column, bits = ARCHITECTURES[machine]
    monkeypatch.setattr(kernel, "_COLUMN", column)
    want = {"allow": ALLOW, "refuse": REFUSE, "absent": ABSENT, "pass": 0x00050000}[
        code
    ]  # an error of 0: it does nothing
    assert run_filter(seccomp.program(machine, 99), bits, kernel.number(name), arguments) == want


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("socket", (1, 1), False), ("socket", (1, 2), False), ("socket", (2, 1), False), ("socket", (16, 3), False),
        ("socketpair", (1, 1), True), ("socketpair", (1, 5 | 0o2000000), True), ("socketpair", (1, 2), False),
        ("socketpair", (1, 3), False), ("socketpair", (30, 5), False), ("bind", (3,), False),
        ("clone", (0x10000000,), True), ("prlimit64", (98,), True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_unix_sockets_are_refused_except_connected_pairs(monkeypatch, machine, name, arguments, allowed):
    column, bits = ARCHITECTURES[machine]
    monkeypatch.setattr(kernel, "_COLUMN", column)
    found = run_filter(seccomp.sockets_program(machine), bits, kernel.number(name), arguments)
    assert found == (ALLOW if allowed else REFUSE)


def test_the_filter_is_put_on_every_thread(monkeypatch):
    asked = []

    def call(name, *words):
        filled = words[2]._obj
        asked.append((name, words[:2], filled.length, filled.instructions[filled.length - 1].k))
        return 0

    monkeypatch.setattr(kernel, "call", call)
    monkeypatch.setattr(kernel, "MACHINE", "x86_64")
    monkeypatch.setattr(kernel, "_COLUMN", 0)
    assert seccomp.restrict() == f"{len(seccomp.REFUSED)} system calls refused"
    assert asked == [("seccomp", (1, 1), len(seccomp.program("x86_64", 1)), ALLOW)]
    monkeypatch.setattr(kernel, "MACHINE", "riscv64")
    with pytest.raises(kernel.Refused, match=r"^no filter for riscv64$"):
        seccomp.restrict()
    monkeypatch.setattr(kernel, "_COLUMN", None)
    with pytest.raises(kernel.Refused, match=r"^ptrace: its number is unknown on riscv64$"):
        kernel.number("ptrace")


# --- Landlock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "held", "lacking", "rights", "scoped"),
    [
        (1, "files", [6, 3, 5], 0x1FF6, None),
        (2, "files", [6, 3, 5], 0x3FF6, None),
        (4, "files, truncation", [6, 5], 0x7FF6, None),
        (5, "files, truncation, ioctl of devices", [6], 0xFFF6, None),
        (7, "files, signals, truncation, ioctl of devices", [], 0xFFF6, 2),
    ],
)
def test_landlock_is_asked_for_what_its_version_knows(monkeypatch, tmp_path, version, held, lacking, rights, scoped):
    (tmp_path / "folder").mkdir()
    (tmp_path / "read").mkdir()
    (tmp_path / "file").touch()
    rulesets, rules, ended = [], [], []
    ruleset = os.open(tmp_path, os.O_PATH)

    def call(name, *words):
        if name == "landlock_create_ruleset" and words == (0, 0, 1):
            return version
        if name == "landlock_create_ruleset":
            one = words[0]._obj
            rulesets.append((one.handled_access_fs, one.handled_access_net, one.scoped, *words[1:]))
            return ruleset
        if name == "landlock_add_rule":
            one = words[2]._obj
            where = Path(f"/proc/self/fd/{one.parent_fd}").readlink().name
            rules.append((words[0] == ruleset, words[1], where, one.allowed_access, words[3]))
        else:
            ended.append((name, words))
        return 0

    monkeypatch.setattr(kernel, "call", call)
    writable = [tmp_path / name for name in ("none", "folder", "file")]
    missing = []
    said = landlock.restrict(writable, [tmp_path / "read"], missing)
    assert said == f"ABI {version}: {held}"
    words = {6: "signals", 3: "truncation", 5: "ioctl of devices"}
    assert missing == [f"{words[since]} (Landlock ABI {since})" for since in lacking]
    assert rulesets == [(rights, 0, scoped or 0, 8 if scoped is None else 24, 0)]
    of_file = rights & (2 | 4 | 1 << 14 | 1 << 15)
    assert rules == [(True, 1, "read", 4, 0), (True, 1, "folder", rights, 0), (True, 1, "file", of_file, 0)]
    assert ended == [("landlock_restrict_self", (ruleset, 0))]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(ruleset)
    assert ctypes.sizeof(landlock._PathBeneath) == 12


# --- what may be read -------------------------------------------------------------------------------------------


def test_only_what_a_submission_needs_is_readable_and_no_pipe_beside_it(monkeypatch, tmp_path):
    """tmp_path is the folder for temporary files here, and the other folders lie in it or beside it."""
    root, temporary = tmp_path / "root", tmp_path / "root" / "temporary"
    for folder in (
        "system/own/more", "system/other", "temporary/own/more", "temporary/python/bin", "temporary/other",
        "home/config", "work",
    ):  # fmt: skip
        (root / folder).mkdir(parents=True)
    for file in ("system/file", "home/profile", "temporary/own/beside.py", "temporary/loose", "work/file"):
        (root / file).touch()
    for pipe in ("system/pipe", "system/own/pipe", "home/pipe", "temporary/own/pipe", "temporary/pipe"):
        os.mkfifo(root / pipe)
    (root / "temporary" / "own" / "link").symlink_to(root / "home")
    monkeypatch.setattr(places, "_OF_SYSTEM", (str(root / "system"),))
    monkeypatch.setattr(places, "_needed", lambda: {temporary / "python", temporary})
    monkeypatch.setattr(places.Path, "home", lambda: root / "home")
    monkeypatch.chdir(root / "work")

    def found(beside):
        return sorted(str(one.relative_to(root)) for one in set(places.readable(root / beside / "k.py", temporary)))

    needed = ["temporary/loose", "temporary/python"]
    assert found("temporary/own") == [
        "system", needed[0], "temporary/own/beside.py", "temporary/own/more", needed[1],
    ]  # fmt: skip
    assert found("system/own") == ["system/file", "system/other", "system/own/more", *needed]
    assert found("home") == ["home/profile", "system", *needed]
    monkeypatch.setattr(places, "_own", lambda: {root / "home"})
    assert found("home") == ["home/config", "home/profile", "system", *needed], "a checkout that is the home folder"


def test_a_build_and_compilers_among_temporary_files_are_readable(monkeypatch, tmp_path):
    for folder in ("build", "compiler/bin", "compiler/lib"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(places.Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv(
        "PATH", os.pathsep.join((str(tmp_path / "compiler" / "bin"), "/bin", str(tmp_path / "home/bin")))
    )
    needed = places._needed()
    assert not needed & {Path("/"), tmp_path / "home"}, "no more than the programs there"
    assert needed >= {tmp_path / "build", tmp_path / "compiler", places.ROOT, Path(sys.prefix).resolve()}


# --- privileges and limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "dropped"), [(errno.EINVAL, 3), (errno.EPERM, 0)])
def test_every_capability_is_dropped(monkeypatch, error, dropped):
    asked = []

    def prctl(option, *words):
        asked.append((option, *words))
        if option == kernel.PR_CAPBSET_DROP and words[0] == dropped:
            raise kernel.Refused(error, "no")
        if option == kernel.PR_CAP_AMBIENT:
            raise kernel.Refused(errno.EINVAL, "an old kernel")
        return 0

    def call(name, header, sets):
        asked.append((name, list(header), list(sets)))
        return 0

    monkeypatch.setattr(kernel, "prctl", prctl)
    monkeypatch.setattr(kernel, "call", call)
    assert privileges.drop_capabilities() == "none"
    drops = [(24, capability) for capability in range(dropped + 1)]
    assert asked == [*drops, (47, 4), ("capset", [0x20080522, 0], [0] * 6)]
    asked.clear()
    assert privileges.forbid_new_privileges() == "on" and asked == [(38, 1)]


def test_a_kernel_that_refuses_the_first_capability_raises(monkeypatch):
    def prctl(option, *words):
        raise kernel.Refused(errno.EINVAL, "no")

    monkeypatch.setattr(kernel, "prctl", prctl)
    with pytest.raises(kernel.Refused):
        privileges.drop_capabilities()


def test_a_worker_that_has_ended_is_no_error_where_it_should_end_first():
    privileges.let_end_first(0)  # no process has this number


@pytest.mark.parametrize("on_cpu", [True, False])
def test_limits_are_lowered_and_never_raised(monkeypatch, on_cpu):
    hard = {resource.RLIMIT_CORE: resource.RLIM_INFINITY, resource.RLIMIT_FSIZE: 5, resource.RLIMIT_NPROC: 10**6}
    put = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1, hard.get(kind, resource.RLIM_INFINITY)))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: put.append((kind, pair)))
    monkeypatch.setattr(privileges, "_threads", lambda: 40)
    monkeypatch.setattr(privileges.os, "sysconf", {"SC_PHYS_PAGES": 3 << 20, "SC_PAGE_SIZE": 4096}.get)
    said = privileges.limit_resources(on_cpu)
    assert said == "files 16 GiB, 8192 more processes" + (", data 12 GiB" if on_cpu else "")
    none = [(kind, (0, 0)) for kind in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE)]
    wanted = [(resource.RLIMIT_CORE, (1, 1)), *none]
    wanted += [(resource.RLIMIT_SIGPENDING, (1024, 1024)), (resource.RLIMIT_FSIZE, (5, 5))]
    wanted.append((resource.RLIMIT_NPROC, (8232, 8232)))
    assert put == wanted + ([(resource.RLIMIT_DATA, (12 << 30, 12 << 30))] if on_cpu else [])


def test_no_fewer_threads_are_counted_than_this_user_has():
    own = sum(
        len(list(task.iterdir())) for task in Path("/proc").glob("[0-9]*/task") if task.stat().st_uid == os.getuid()
    )
    assert privileges._threads() + 50 > own > 0


# --- together ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_sandbox_is_entered_part_by_part(monkeypatch, tmp_path, device):
    dev = tmp_path / "dev"
    (dev / "shm").mkdir(parents=True)
    names = ("null", "tty", "nvidia0", "nvidiactl", "dri", "infiniband", "gdrdrv", "sda", "urandom", "zero")
    for name in (*names, "full", "random"):
        (dev / name).touch()
    tasks = tmp_path / "tasks"
    for thread in ("1", "2", "3"):
        (tasks / thread).mkdir(parents=True)
    places_of = {"/dev": dev, "/proc/self/task": tasks}
    asked = []
    for name in sandbox.SCRATCH_VARIABLES:
        monkeypatch.setenv(name, "/of/the/user")
    monkeypatch.setattr(sandbox, "Path", lambda path: places_of.get(path) or Path(path))
    monkeypatch.setattr(mounts, "restrict", lambda *given: asked.append(("mounts", *given)) or "read-only")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(places, "readable", lambda *given: asked.append(("places", *given)) or [Path("/usr")])
    monkeypatch.setattr(privileges, "limit_resources", lambda on_cpu: asked.append(("limits", on_cpu)) or "some")
    monkeypatch.setattr(privileges, "drop_capabilities", lambda: "none")
    monkeypatch.setattr(privileges, "forbid_new_privileges", lambda: "on")

    def files(writable, readable, lacking):
        paths = [one for one in writable if one != 71]
        asked.append(("files", sorted(str(path.relative_to(tmp_path)) if path.is_relative_to(tmp_path)
            else str(path) for path in paths), 71 in writable, readable))  # fmt: skip
        lacking.append("ioctl")
        return "ABI 6: files, signals"

    monkeypatch.setattr(landlock, "restrict", files)
    monkeypatch.setattr(seccomp, "restrict", lambda: asked.append("seccomp") or "thirty")
    state = sandbox.enter(tmp_path / "scratch", device, 71, Path("kernel.py"))
    devices = ["full", "null", "random", "shm", "urandom", "zero"]
    more = ["dri", "gdrdrv", "infiniband", "nvidia0", "nvidiactl"] if device == "cuda" else []
    own = ["/proc/self"] if device == "cuda" else []
    writable = sorted([*(f"dev/{name}" for name in [*devices, *more]), *own])
    assert asked == [
        ("mounts", tmp_path / "scratch", 71, device == "cuda"),
        ("places", Path("kernel.py"), tmp_path.parent),
        ("limits", device == "cpu"),
        ("files", writable, True, [Path("/usr"), *[Path("/sys/devices")] * (device == "cuda")]),
        "seccomp",
    ]
    assert state.text() == (
        "mounts (read-only); limits (some); capabilities (none); no new privileges (on); "
        "Landlock (ABI 6: files, signals); seccomp (thirty); LACKING: 2 threads started before the sandbox; ioctl"
    )
    made = [name.lower() for name in sandbox.SCRATCH_VARIABLES]
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {*made}
    for name in made:
        folder = tmp_path / "scratch" / name
        assert dict(os.environ)[name.upper()] == str(folder) and folder.stat().st_mode & 0o777 == 0o700


def test_refused_parts_are_reported_and_dependent_parts_skipped(monkeypatch, tmp_path):
    for name in sandbox.SCRATCH_VARIABLES:
        monkeypatch.setenv(name, "/of/the/user")

    def refuse(*_):
        raise kernel.Refused(errno.EPERM, "not here")

    def wrong(*_):
        raise ValueError("wrong")

    monkeypatch.setattr(privileges, "limit_resources", wrong)
    monkeypatch.setattr(privileges, "drop_capabilities", lambda: "none")
    monkeypatch.setattr(privileges, "forbid_new_privileges", refuse)
    monkeypatch.setattr(seccomp, "restrict", lambda: pytest.fail("without no_new_privs"))
    monkeypatch.setattr(seccomp, "refuse_sockets", lambda: pytest.fail("without no_new_privs"))
    monkeypatch.setattr(mounts, "restrict", refuse)
    (tmp_path / "scratch").mkdir()
    state = sandbox.enter(tmp_path / "scratch", "cpu", 71, tmp_path / "kernel.py")
    sandbox.close_sockets(state)
    assert state.parts == {"capabilities": "none"}
    lacking = [line for line in state.lacking if "threads started" not in line]
    assert lacking == [
        "mounts (not here), so that modes and times of the user's files can be changed",
        "limits (wrong), so that files and processes have no bounds",
        "no new privileges (not here)",
    ]
    assert sandbox.State().text() == "" and sandbox.State(lacking=["all"]).text() == "nothing; LACKING: all"
    monkeypatch.setattr(sandbox.sys, "platform", "plan9")
    assert sandbox.enter(tmp_path / "other", "cpu", 71, tmp_path).lacking == ["everything: not built for plan9"]
    assert not (tmp_path / "other").exists()


def test_a_part_that_was_on_stays_on_or_the_run_ends(monkeypatch):
    monkeypatch.setattr(sandbox, "_first", {})
    both, one = {"mounts": "read-only", "limits": "some"}, {"limits": "others"}
    sandbox.hold("cpu", sandbox.State(both, ["Landlock: none"]))
    sandbox.hold("cpu", sandbox.State({**both, "more": "x"}))
    sandbox.hold("cuda", sandbox.State(one))
    with pytest.raises(sandbox.Weakened, match=r"lost a part .* \(mounts\): mounts: File name too long\."):
        sandbox.hold("cpu", sandbox.State(one, ["mounts: File name too long"]))
    sandbox.hold("cuda", sandbox.State(one))


def test_the_harness_itself_is_not_to_be_looked_into(monkeypatch):
    asked = []
    monkeypatch.setattr(kernel, "prctl", lambda *words: asked.append(words))
    sandbox.shield()
    monkeypatch.setattr(sandbox.sys, "platform", "plan9")
    sandbox.shield()
    assert asked == [(4, 0)]


MOVES_BETWEEN_FOLDERS = """
import sys
from pathlib import Path
from eval.sandbox import landlock, privileges
folder = Path(sys.argv[1])
privileges.forbid_new_privileges()
landlock.scope_signals()
landlock.restrict([folder], [Path("/")], lacking=[])
(folder / "below").mkdir()
(folder / "file").write_text("moved")
(folder / "file").rename(folder / "below/file")
print((folder / "below/file").read_text())
"""


def scopes_signals() -> bool:
    try:
        return landlock.abi() >= 6
    except kernel.Refused:
        return False


@pytest.mark.skipif(not scopes_signals(), reason="this kernel's Landlock cannot scope signals")
def test_files_move_between_folders_of_the_scratch_folder(tmp_path):
    command = [sys.executable, "-c", MOVES_BETWEEN_FOLDERS, tmp_path]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.stdout == "moved\n", done.stderr
