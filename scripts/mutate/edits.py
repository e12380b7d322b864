"""Edits of a syntax tree that C and Python share: another operator, number, order or member, one item less."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import tree_sitter

Node = tree_sitter.Node

COMMUTATIVE = re.compile(r"(?:^|_|\bf)(?:max|min|later|add|mul)(?:f?$|_)")  # max(a, b) is max(b, a)


class Span:
    """The text from the start of one node to the end of another."""

    def __init__(self, first: Node, last: Node) -> None:
        self.start_byte, self.end_byte, self.start_point = first.start_byte, last.end_byte, first.start_point


Edit = tuple[str, Node | Span, str]  # name of the operator, text to replace, replacement

SWAPPED = {
    "<": ("<=", ">="),
    "<=": ("<", ">="),
    ">": (">=", "<="),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/", "+"),
    "/": ("*",),
    "//": ("*",),
    "%": ("/",),
    "**": ("*",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "&&": ("||",),
    "||": ("&&",),
    "and": ("or",),
    "or": ("and",),
    "+=": ("-=", "="),
    "-=": ("+=",),
    "*=": ("/=",),
    "//=": ("*=",),
    "/=": ("*=",),
    "|=": ("&=", "="),
    "&=": ("|=",),
    "^=": ("|=",),
    "<<=": (">>=",),
    ">>=": ("<<=",),
    "++": ("--",),
    "--": ("++",),
    "in": ("not in",),
    "not in": ("in",),
    "is": ("is not",),
    "is not": ("is",),
}
COMPARISONS = {"<", "<=", ">", ">=", "==", "!=", "in", "not in", "is", "is not"}
LOGIC = {"&&", "||", "and", "or"}
# Functions with an opposite that takes the same arguments.
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
OPPOSITES |= {"fmin": "fmax", "fmax": "fmin", "fminf": "fmaxf", "fmaxf": "fminf", "floorf": "ceilf", "ceilf": "floorf"}
# Nodes without faults: comments, strings, types, imports and compile-time assertions.
SKIPPED_TYPES = {"comment", "type", "static_assert_declaration", "preproc_include", "import_statement"}
SKIPPED_TYPES |= {"import_from_statement", "future_import_statement", "string_literal", "system_lib_string"}
SKIPPED_CALLS = re.compile(rb"_?[Ss]tatic_assert\b|static_assert\b")


def text_of(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """A node and its descendants, without those skipped."""
    if node.type in SKIPPED_TYPES or node.type == "ERROR" or SKIPPED_CALLS.match(node.text or b""):
        return
    if node.type in {"expression_statement", "declaration"} and "static_assert" in text_of(node):
        return
    yield node
    for child in node.children:
        yield from walk(child)


def other_operators(node: Node) -> Iterator[Edit]:
    """Replaces each operator of an expression."""
    if any(child.type in {"string", "concatenated_string"} for child in node.children) and "==" not in text_of(node):
        return  # `folder / "name"`, `"text" + more`: a TypeError is no realistic fault
    for child in node.children:
        kind = child.type
        for other in SWAPPED.get(kind, ()) if not child.is_named else ():
            name = "comparison" if kind in COMPARISONS else "logic" if kind in LOGIC else "arithmetic"
            yield name, child, other


def operands(node: Node) -> Iterator[Edit]:
    """Keeps one operand of `a && b` or `a or b`."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        yield "operand", node, text_of(left)
        yield "operand", node, text_of(right)


def numbers(node: Node) -> Iterator[Edit]:
    """An integer plus one and minus one; any other number doubled."""
    text = text_of(node)
    match = re.fullmatch(r"(0[xX][0-9a-fA-F_]+|[0-9][0-9_']*)([uUlLzZ]*)", text)
    if match:
        value = int(match[1].replace("_", "").replace("'", ""), 0 if match[1][:2] in ("0x", "0X") else 10)
        for other in (value + 1, value - 1) if value else (1,):
            yield (
                "constant",
                node,
                f"{other:#x}{match[2]}" if match[1].lower().startswith("0x") else f"{other}{match[2]}",
            )
    elif re.fullmatch(r"[0-9.eE+-]+[fF]?", text) and text.rstrip("fF"):
        suffix = text[len(text.rstrip("fF")) :]
        yield "constant", node, f"{float(text.rstrip('fF')) * 2 or 1.0!r}{suffix}"


def swapped_neighbours(node: Node, items: list[Node]) -> Iterator[Edit]:
    function = node.parent and node.parent.child_by_field_name("function")
    if len(items) == 2 and COMMUTATIVE.search(text_of(function)):
        return
    for first, second in pairwise(items):
        if text_of(first) != text_of(second):
            swapped = text_of(second) + between(node, first, second) + text_of(first)
            yield "swap", Span(first, second), swapped


def between(node: Node, first: Node, second: Node) -> str:
    whole = node.text or b""
    return whole[first.end_byte - node.start_byte : second.start_byte - node.start_byte].decode()


def dropped_items(node: Node, items: list[Node], operator: str, least: int = 2) -> Iterator[Edit]:
    """Removes one item of a list with its comma."""
    if len(items) < least:
        return
    for number, item in enumerate(items):
        if number + 1 < len(items):
            span = Span(item, items[number + 1])
            yield operator, span, text_of(items[number + 1])
        elif number:
            span = Span(items[number - 1], item)
            # `(a, b)` without b stays a tuple.
            yield operator, span, text_of(items[number - 1]) + ("," if node.type == "tuple" else "")


def fields(root: Node, function_type: str, kinds: set[str], object_field: str, name_field: str) -> Iterator[Edit]:
    """Another member of the same object that the function also uses: the slip of copy and paste."""
    for function in walk(root):
        if function.type != function_type:
            continue
        uses: dict[str, list[Node]] = defaultdict(list)
        for node in walk(function):
            called = node.parent is not None and node.parent.type in {"call", "call_expression"}
            if node.type in kinds and not (called and node.parent.child_by_field_name("function") == node):
                uses[text_of(node.child_by_field_name(object_field))].append(node.child_by_field_name(name_field))
        for names in uses.values():
            spelled = sorted({text_of(name) for name in names})
            for name in names:
                place = spelled.index(text_of(name))
                if len(spelled) > 1:
                    yield "member", name, spelled[(place + 1) % len(spelled)]
