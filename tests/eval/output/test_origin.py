"""Where a run took place: digests of files that a submission names."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from eval.output import origin


def test_a_regular_file_has_a_digest_and_its_size(tmp_path):
    (tmp_path / "file").write_bytes(b"pass")
    assert origin.digest(tmp_path / "file") == (hashlib.sha256(b"pass").hexdigest(), 4)
    before = (tmp_path / "file").stat()
    (tmp_path / "file").write_bytes(b"fail")
    os.utime(tmp_path / "file", ns=(before.st_atime_ns, before.st_mtime_ns))  # to look unchanged
    assert origin.digest(tmp_path / "file")[0] == hashlib.sha256(b"fail").hexdigest()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing", "huge"])
def test_what_cannot_be_hashed_in_bounded_time_has_no_digest(tmp_path, kind):
    path = tmp_path / "library.so"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.touch()
        os.truncate(path, origin.MOST_HASHED_BYTES + 1)
    found = []
    thread = threading.Thread(target=lambda: found.append(origin.digest(path)), daemon=True)
    thread.start()
    thread.join(10)
    assert found == [("", 0)]


def test_the_libraries_of_a_process_share_one_bound(tmp_path, monkeypatch):
    (tmp_path / "maps").write_text("".join(f"0-1 r--p 0 00:00 {i} {tmp_path}/{i}.so\n" for i in range(4)))
    for i in range(4):
        (tmp_path / f"{i}.so").write_bytes(bytes(40))
    monkeypatch.setattr(origin, "Path", lambda name: tmp_path / "maps" if str(name) == "/proc/7/maps" else Path(name))
    monkeypatch.setattr(origin, "MOST_HASHED_BYTES", 100)
    monkeypatch.setattr(origin, "MOST_LIBRARIES", 3)
    assert [(one.name, bool(one.sha256)) for one in origin.libraries(origin.mapped_libraries(7))] == [
        ("0.so", True),
        ("1.so", True),
        ("2.so", False),
    ]


def test_a_known_library_that_a_build_replaced_is_not_the_submissions(tmp_path, monkeypatch):
    (tmp_path / "maps").write_text(
        f"0-1 r--p 0 00:00 1 {tmp_path}/0.so (deleted)\n0-1 r--p 0 00:00 2 {tmp_path}/1.so\n"
    )
    monkeypatch.setattr(origin, "Path", lambda name: tmp_path / "maps" if str(name) == "/proc/7/maps" else Path(name))
    assert origin.mapped_libraries(7, {tmp_path / "0.so"}) == [tmp_path / "1.so"]
    assert origin.mapped_libraries(7, {tmp_path / "1.so"}) == [Path(f"{tmp_path}/0.so (deleted)")]
