"""A digest of the library's sources, from a folder or from a commit."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

SOURCE_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".mk", ".py")


def source_digest(files: Iterable[tuple[str, bytes]]) -> str:
    """sha256 in hexadecimal over (path from the root, content) pairs in the order of their paths."""
    digest = hashlib.sha256()
    for path, content in sorted(files):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@lru_cache(maxsize=128)
def commit_digest(root: Path, commit: str) -> str | None:
    """The digest of submission/ at a commit of the repository at `root`; None if git does not know the commit."""
    listed = _git(root, "ls-tree", "-r", "-z", commit, "submission/")
    if not listed:
        return None
    blobs = {}
    for entry in listed.decode().split("\0")[:-1]:
        head, path = entry.split("\t", 1)
        if Path(path).suffix in SOURCE_SUFFIXES:
            blobs[path] = head.split()[2]
    contents = _git(root, "cat-file", "--batch", feed="\n".join(blobs.values()) + "\n")
    if contents is None:
        return None
    files, at = [], 0
    for path in blobs:  # each answer: NAME TYPE SIZE, a newline, the content, a newline
        head, _, _ = contents[at:].partition(b"\n")
        size, at = int(head.split()[2]), at + len(head) + 1
        files.append((path, contents[at : at + size]))
        at += size + 1
    return source_digest(files)


def _git(root: Path, *words: str, feed: str = "") -> bytes | None:
    done = subprocess.run(["git", "-C", str(root), *words], input=feed.encode(), capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None
