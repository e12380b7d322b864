"""JSON with filled lines: a reader and a diff see a row a line, not a number a line."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 120


def dumps(value: Any, indent: int = 0) -> str:
    """JSON whose lines are filled up to WIDTH; a container that does not fit on one line is indented by one space."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(line) + indent < WIDTH:
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {dumps(item, indent + 1)}" for key, item in value.items()]
    else:
        items = [dumps(item, indent + 1) for item in value]
    lines: list[str] = []
    for item in items:
        filled = f"{lines[-1]}, {item}" if lines else ""
        if lines and "\n" not in filled and indent + len(filled) + 2 < WIDTH:
            lines[-1] = filled
        else:
            lines.append(item)
    begin, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return begin + f",\n{' ' * (indent + 1)}".join(lines) + end
