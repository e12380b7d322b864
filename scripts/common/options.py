"""Types of the programs' options: each takes an option's text and says what it expects of it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from pathlib import Path


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}'; expected a whole number from 1 on")
    return int(text)


def output_file(text: str) -> Path:
    """A file that can be written, whose folder is made: found out before the work, not after it."""
    path = Path(text)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK):
            return path
    raise argparse.ArgumentTypeError(f"'{text}'; expected a file that can be written")


def named(text: str) -> tuple[str, str]:
    """NAME=PLACE."""
    name, equals, place = text.partition("=")
    if not (name and equals and place):
        raise argparse.ArgumentTypeError(f"'{text}'; expected a name, an equals sign and a path")
    return name, place


def sizes(form: str, separator: str = ",") -> Callable[[str], list[tuple[int, ...]]]:
    """Texts such as 256x4096x7168,512x4096x7168 for the form MxNxK; an empty text has no sizes."""

    def read(text: str) -> list[tuple[int, ...]]:
        found = [part.split("x") for part in text.split(separator) if part]
        for parts in found:
            if len(parts) != form.count("x") + 1 or not all(part.isdecimal() and int(part) for part in parts):
                raise argparse.ArgumentTypeError(f"'{'x'.join(parts)}'; expected {form}, each a whole number from 1 on")
        return [tuple(map(int, parts)) for parts in found]

    return read
