"""The faults of C, CUDA and Python: edits of a syntax tree.

Packaged mutation tools do not serve: universalmutator rewrites lines by regular expression, comments, strings and asm
text included, and knows no statement or argument; mutmut and cosmic-ray know Python only, and neither drops a list
element or swaps arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tree_sitter
import tree_sitter_cuda
import tree_sitter_python

from scripts.mutate.edits import (
    OPPOSITES,
    Edit,
    Node,
    Span,
    between,
    dropped_items,
    fields,
    numbers,
    operands,
    other_operators,
    swapped_neighbours,
    text_of,
    walk,
)

CONVERTS = {"argument_list", "init_declarator", "assignment_expression", "return_statement", "initializer_list"}
CONVERTS |= {"initializer_pair", "cast_expression"}
NARROW = re.compile(r"\b(?:u?int(?:8|16)_t|bool|char|float)\b")
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}


@dataclass(frozen=True)
class Fault:
    """One edit of one file: bytes start to end become text."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    text: bytes

    def apply(self, source: bytes) -> bytes:
        """The file with the fault."""
        return source[: self.start] + self.text + source[self.end :]


def faults(path: str, source: bytes) -> list[Fault]:
    """Every fault that can be planted in a file, by position."""
    suffix = Path(path).suffix
    edits = _python_edits if suffix == ".py" else _c_edits
    found: dict[tuple[int, int, bytes], Fault] = {}
    for operator, node, text in edits(_parser(suffix).parse(source).root_node):
        old = source[node.start_byte : node.end_byte]
        new = text.encode()
        if suffix in C_SUFFIXES:  # line numbers stay, so that equal objects stay equal
            new += b"\n" * (old.count(b"\n") - new.count(b"\n"))
        if new != old:
            fault = Fault(path, node.start_point.row + 1, operator, node.start_byte, node.end_byte, new)
            found.setdefault((fault.start, fault.end, fault.text), fault)
    return sorted(found.values(), key=lambda f: (f.start, f.end, f.operator, f.text))


@cache
def _parser(suffix: str) -> tree_sitter.Parser:
    grammar = tree_sitter_python if suffix == ".py" else tree_sitter_cuda
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def _c_edits(root: Node) -> Iterator[Edit]:
    yield from fields(root, "function_definition", {"field_expression"}, "argument", "field")
    for node in walk(root):
        kind = node.type
        if kind in {"binary_expression", "assignment_expression", "update_expression"}:
            yield from other_operators(node)
            if text_of(node.child_by_field_name("operator")) in {"&&", "||"}:
                yield from operands(node)
        elif kind == "unary_expression":
            operand = node.child_by_field_name("argument")
            if text_of(node.child_by_field_name("operator")) in {"!", "-", "~"} and operand is not None:
                yield "unary", node, text_of(operand)
        elif kind == "conditional_expression":
            first, second = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            if first is not None and second is not None:
                yield "branch", node, text_of(first)
                yield "branch", node, text_of(second)
        elif kind == "number_literal":
            found = list(numbers(node))
            yield from found[1:] if _is_room(node) else found
        elif kind in {"true", "false"}:
            yield "constant", node, "false" if kind == "true" else "true"
        elif kind == "argument_list":
            yield from swapped_neighbours(node, [n for n in node.named_children if n.type != "comment"])
        elif kind == "initializer_list":
            yield from dropped_items(node, [n for n in node.named_children if n.type != "comment"], "element")
        elif kind == "cast_expression":
            value, name = node.child_by_field_name("value"), text_of(node.child_by_field_name("type"))
            # A value that is passed, stored or returned is converted without the cast, too.
            converted = node.parent is not None and node.parent.type in CONVERTS and not NARROW.search(name)
            if value is not None and "void" not in name and not converted:
                yield "cast", node, text_of(value)
        elif kind == "call_expression":
            function = node.child_by_field_name("function")
            if text_of(function) in OPPOSITES and function is not None:
                yield "opposite", function, OPPOSITES[text_of(function)]
        elif kind in {"if_statement", "while_statement", "do_statement"}:
            condition = node.child_by_field_name("condition")
            if condition is not None and text_of(condition).startswith("("):
                yield "condition", condition, f"(!{text_of(condition)})"
        elif kind in {"expression_statement", "return_statement", "break_statement", "continue_statement"}:
            if text_of(node) != ";":
                yield "statement", node, ";"
            if kind in {"break_statement", "continue_statement"}:
                yield "jump", node, "break;" if kind == "continue_statement" else "continue;"
        elif kind == "preproc_arg" and re.fullmatch(r"\(?-?[0-9][0-9a-fA-FxX]*[uU]?\)?", text_of(node).strip()):
            number = re.sub(r"[0-9]+(?=[uU]?\)?$)", lambda found: str(int(found[0]) + 1), text_of(node))
            yield "constant", node, number


def _is_room(number: Node) -> bool:
    """True for the first extent of a local array without a sizeof: one element more is never used."""
    declarator = number.parent
    name = (
        declarator.child_by_field_name("declarator") if declarator and declarator.type == "array_declarator" else None
    )
    if name is None or name.type != "identifier":
        return False
    function = declarator
    while function is not None and function.type != "function_definition":
        if function.type in {"init_declarator", "parameter_declaration", "field_declaration"}:
            return False  # initialised, a parameter, or a member whose size others may ask for
        function = function.parent
    asked = rf"sizeof\W+{re.escape(text_of(name))}\b"
    return function is not None and not re.search(asked, text_of(function))


def _python_edits(root: Node) -> Iterator[Edit]:
    yield from fields(root, "function_definition", {"attribute"}, "object", "attribute")
    for node in walk(root):
        kind = node.type
        if "__name__" in text_of(node) and kind in {"if_statement", "comparison_operator"}:
            continue
        if kind in {"binary_operator", "augmented_assignment", "comparison_operator", "boolean_operator"}:
            yield from other_operators(node)
            if kind == "boolean_operator":
                yield from operands(node)
            if kind == "comparison_operator" and len(node.named_children) == 3:
                low, middle, high = node.named_children
                first, second = between(node, low, middle), between(node, middle, high)
                yield "operand", node, text_of(low) + first + text_of(middle)
                yield "operand", node, text_of(middle) + second + text_of(high)
        elif kind in {"not_operator", "unary_operator"}:
            operand = node.child_by_field_name("argument")
            if operand is not None:
                yield "unary", node, text_of(operand)
        elif kind == "conditional_expression":
            first, _, second = (part for part in node.named_children if part.type != "comment")
            yield "branch", node, text_of(first)
            yield "branch", node, text_of(second)
        elif kind in {"integer", "float"}:
            yield from numbers(node)
        elif kind in {"true", "false"}:
            yield "constant", node, "False" if kind == "true" else "True"
        elif kind == "argument_list" and node.parent is not None and node.parent.type == "call":
            yield from _python_arguments(node)
        elif kind in {"list", "tuple", "set", "dictionary"}:
            yield from dropped_items(node, [n for n in node.named_children if n.type != "comment"], "element")
        elif kind == "call":
            function = node.child_by_field_name("function")
            if text_of(function) in OPPOSITES and function is not None:
                yield "opposite", function, OPPOSITES[text_of(function)]
        elif kind in {"if_statement", "elif_clause", "while_statement"}:
            condition = node.child_by_field_name("condition")
            if condition is not None:
                yield "condition", condition, f"not ({text_of(condition)})"
        elif kind == "if_clause":
            yield "condition", node, f"if not ({text_of(node.named_children[0])})"
            yield "condition", node, "if True"
        elif kind in {
            "expression_statement",
            "raise_statement",
            "return_statement",
            "break_statement",
            "continue_statement",
        }:
            yield from _python_statement(node)


def _python_arguments(node: Node) -> Iterator[Edit]:
    items = [n for n in node.named_children if n.type != "comment"]
    positional = [n for n in items if n.type not in {"keyword_argument", "dictionary_splat", "list_splat"}]
    yield from swapped_neighbours(node, positional)
    for number, item in enumerate(items):
        if item.type != "keyword_argument":
            continue
        if number:
            yield "keyword", Span(items[number - 1], item), text_of(items[number - 1])
        elif len(items) > 1:
            yield "keyword", Span(item, items[1]), text_of(items[1])
        else:
            yield "keyword", node, "()"


def _python_statement(node: Node) -> Iterator[Edit]:
    """Removes a statement, but no assignment to a plain name: the NameError that follows is no realistic fault."""
    inner = node.named_children[0] if node.named_children else None
    if node.type == "expression_statement":
        if inner is None or inner.type in {"string", "concatenated_string", "ellipsis"}:
            return
        target = inner.child_by_field_name("left") if inner.type == "assignment" else None
        if target is not None and target.type in {"identifier", "pattern_list", "tuple_pattern"}:
            return
    yield "statement", node, "pass"
    if node.type in {"break_statement", "continue_statement"}:
        yield "jump", node, "break" if node.type == "continue_statement" else "continue"
