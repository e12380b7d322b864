"""Where reports and records go: what is found closed, refused or broken, in the words that a person gets."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import sys
from types import SimpleNamespace

import pytest

from eval.output import outlets
from eval.output.outlets import OutletError, RecordFile


def test_what_is_told_is_one_line_to_standard_error_that_may_be_gone(capsys, monkeypatch):
    outlets.tell("a\x1b[31m line")
    assert capsys.readouterr().err.startswith("nvfp4 eval: a") and "\x1b" not in capsys.readouterr().err
    outlets.tell("x" * 5000)
    assert len(capsys.readouterr().err) < 1200
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    outlets.tell("to no one")


def test_null_devices_take_the_places_of_closed_streams(monkeypatch):
    made, places = [], []

    def fstat(descriptor):
        if descriptor in (0, 2):
            raise OSError(errno.EBADF, "closed")

    def opened(path, flags):
        made.append((path, flags))
        return 0 if len(made) == 1 else 7

    monkeypatch.setattr(
        outlets,
        "os",
        SimpleNamespace(
            fstat=fstat, open=opened, devnull=os.devnull, O_RDWR=os.O_RDWR,
            dup2=lambda of, to: places.append(("dup2", of, to)), close=lambda of: places.append(("close", of)),
        ),
    )  # fmt: skip
    monkeypatch.setattr(sys, "stderr", None)
    assert outlets.closed_streams() == {0, 2}
    assert made == [(os.devnull, os.O_RDWR)] * 2 and places == [("dup2", 7, 2), ("close", 7)]
    assert sys.stderr is not None and sys.stderr.name == os.devnull and sys.stderr.writable()
    sys.stderr.close()


def test_a_standard_output_that_takes_no_report_is_refused(monkeypatch):
    with pytest.raises(OutletError) as error:
        outlets.prepare_stdout({1})
    assert (error.value.errno, error.value.strerror) == (errno.EBADF, "standard output is closed")
    outlets.prepare_stdout({0, 2})
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutletError, match="standard output is closed"):
        outlets.prepare_stdout(set())
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", errors="strict") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        outlets.prepare_stdout(set())
        assert pipe.errors == "backslashreplace"
        os.close(reader)
        with pytest.raises(OutletError) as error:
            outlets.prepare_stdout(set())
        assert (error.value.errno, error.value.strerror) == (
            errno.EPIPE,
            "standard output is a pipe that no process reads",
        )
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        outlets.prepare_stdout(set())  # without a descriptor


def test_a_line_that_cannot_be_printed_is_told(monkeypatch, capsys):
    outlets.say("a line")
    assert capsys.readouterr().out == "a line\n"

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(outlets, "print", full, raising=False)
    with pytest.raises(OutletError) as error:
        outlets.say("a line")
    assert (error.value.errno, error.value.strerror) == (errno.ENOSPC, "standard output: No space left on device")


def test_a_broken_standard_output_is_replaced_by_the_null_device(monkeypatch, tmp_path):
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        gc.collect()  # what other tests have left must not be closed while descriptors are counted
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        outlets.abandon(sys.stdout)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        file.write("lost")
        file.flush()
        assert os.fstat(file.fileno()).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116
    assert (tmp_path / "out").read_text() == ""
    monkeypatch.setattr(sys, "stdout", None)
    outlets.abandon(sys.stdout)


def test_a_record_is_rescued_into_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(outlets.tempfile, "gettempdir", lambda: str(tmp_path))
    path = tmp_path / f"eval-record-{os.getpid()}.json"
    assert outlets.rescue({"a": [1]}) == f"the record is in {path}"
    assert path.read_text() == '{\n  "a": [\n    1\n  ]\n}\n'
    monkeypatch.setattr(outlets.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    path = tmp_path / "none" / path.name
    assert outlets.rescue({}) == f"{path}: No such file or directory; the record is lost"


@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        ("folder", errno.EISDIR, "Is a directory"),
        ("none/x.json", errno.ENOENT, "No such file or directory"),
        ("fifo", errno.ENXIO, "No such device or address"),
        ("nul\0", None, "embedded null byte"),
    ],
)
def test_a_record_that_could_not_be_written_is_refused_at_once(tmp_path, name, number, words):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OutletError) as error:
        RecordFile(tmp_path / name)
    assert error.value.errno == number and words in error.value.strerror


def test_a_file_that_got_nothing_is_removed_and_what_was_there_stays(tmp_path):
    RecordFile(tmp_path / "new").close()
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").write_text("what it held")
    old = RecordFile(tmp_path / "old")
    old.close()
    assert (tmp_path / "old").read_text() == "what it held"
    for name in ("new", "old"):
        file = RecordFile(tmp_path / name)
        file.write({"long": "x" * 200_000}, False)
        file.write({"n": 1}, False)
        file.close()
        assert json.loads((tmp_path / name).read_text()) == {"n": 1}


def test_a_record_file_that_breaks_is_told_by_its_name(tmp_path):
    file = RecordFile(tmp_path / "x")
    os.close(file._file)
    with pytest.raises(OutletError) as error:
        file.write({}, True)
    assert (error.value.errno, error.value.strerror) == (errno.EBADF, f"{tmp_path / 'x'}: Bad file descriptor")


def test_a_rescued_record_follows_no_link(tmp_path, monkeypatch):
    monkeypatch.setattr(outlets.tempfile, "tempdir", str(tmp_path))
    name = tmp_path / f"eval-record-{os.getpid()}.json"
    for _ in range(2):  # every case that is lost writes it anew
        assert str(name) in outlets.rescue({"results": [1]}) and json.loads(name.read_text()) == {"results": [1]}
    name.unlink()
    (tmp_path / "theirs").write_text("kept")
    name.symlink_to(tmp_path / "theirs")
    assert "lost" in outlets.rescue({}) and (tmp_path / "theirs").read_text() == "kept"
