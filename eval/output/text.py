"""Makes untrusted text safe to print: it cannot move a cursor, change colours or hide."""

from __future__ import annotations

import os
import re
import unicodedata

# Control, format (bidirectional overrides, zero width), surrogate, private and unassigned characters, and the two
# separators at which some terminals break lines.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
_NUL_RUN = re.compile("\0{2,}")
LOG_BYTES_READ = 1 << 16
ERROR_CHARACTERS = 4000
TOLD_CHARACTERS = 1000  # the longest message


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _KEPT or unicodedata.category(character) not in _UNSAFE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str) -> str:
    """The text with an escape for every character that a terminal would act on or that is not printable."""
    text = _NUL_RUN.sub("\0", text.replace("\r\n", "\n"))
    return _SUSPECT.sub(_escaped, text)


def one_line(text: object) -> str:
    """The text, clean and without line breaks: it cannot forge lines of its own."""
    return clean(" / ".join(str(text).splitlines()))


def shortened(text: str, limit: int = ERROR_CHARACTERS) -> str:
    """The text, cut to its beginning and end if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    part = limit // 2
    return f"{text[:part]} [... {len(text) - 2 * part} characters ...] {text[-part:]}"


def tail_of(descriptor: int, limit: int = LOG_BYTES_READ) -> str:
    """The last `limit` bytes of an open file as clean text; a longer file is cut at a line."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - limit)
    text = os.pread(descriptor, limit, begin).decode(errors="replace")
    if begin and "\n" in text:
        text = text.partition("\n")[2]
    return clean(text)
