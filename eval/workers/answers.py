"""Parses a worker's answers strictly: the only place where bytes from the submission's process become values.

Anything but the exact expected form raises Garbled, and no other exception.
"""

from __future__ import annotations

import json
from typing import Any

from eval.output.text import clean, shortened

MESSAGE_BYTES = 1 << 20  # the longest message; the worker shortens long texts
_LARGEST = 2.0**64
# Eleven days.
_LONGEST_US = 1e12


class Garbled(ValueError):
    """An answer that does not have the requested form."""


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise Garbled(f"{shortened(text, 40)} is no number of ordinary size")
    return value if "." in text or "e" in text.lower() else int(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Garbled("a name occurs twice")
    return found


def strict_json(raw: bytes) -> Any:
    """Parses JSON: UTF-8, finite numbers of ordinary length, no repeated names, moderate depth. Raises Garbled."""
    if len(raw) > MESSAGE_BYTES:
        raise Garbled(f"{len(raw)} bytes; expected at most {MESSAGE_BYTES}")
    try:
        return json.loads(
            raw.decode(), parse_constant=_number, parse_int=_number, parse_float=_number, object_pairs_hook=_once
        )
    except Garbled:
        raise
    except RecursionError:
        raise Garbled("nested too deeply") from None
    except ValueError as error:
        raise Garbled(shortened(clean(str(error)), 200)) from None


def tagged(raw: bytes, kinds: frozenset[str]) -> tuple[str, Any]:
    """The kind and content of a message {kind: content} of one of these kinds. Raises Garbled."""
    value = strict_json(raw)
    if type(value) is not dict or len(value) != 1:
        raise Garbled("expected an object with one name")
    ((kind, content),) = value.items()
    if kind not in kinds:
        raise Garbled(f"'{shortened(clean(kind), 40)}' is unknown")
    return kind, content


def text_in(content: Any) -> str:
    """A string, escaped and shortened. Raises Garbled."""
    if type(content) is not str:
        raise Garbled(f"a {type(content).__name__} instead of a string")
    return shortened(clean(content))


def time_us(content: Any) -> float:
    """A time in us, positive and finite. Raises Garbled."""
    if type(content) not in (int, float):
        raise Garbled(f"a {type(content).__name__} instead of a time")
    if not 0 < content <= _LONGEST_US:
        raise Garbled(f"a time of {content:g} us")
    return float(content)
