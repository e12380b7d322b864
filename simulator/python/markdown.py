"""Markdown tables for generated pages."""

from __future__ import annotations


def table(head: list[str], rows: list[list[str]], numbers: int = 0) -> str:
    """A Markdown table; the last `numbers` columns are right-aligned."""
    rule = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])
