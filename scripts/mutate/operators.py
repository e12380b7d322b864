"""The faults: edits of a syntax tree, for C and CUDA, Python, shell and make.

One engine over tree-sitter's grammars serves all languages.  Packaged mutation tools were looked at first:
universalmutator rewrites lines by regular expression (comments, strings and asm text included) and knows no
statement or argument; mutmut and cosmic-ray know Python only, and neither drops a list element or swaps arguments.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import tree_sitter
import tree_sitter_bash
import tree_sitter_cuda
import tree_sitter_python

Node = tree_sitter.Node

COMMUTATIVE = re.compile(r"(?:^|_|\bf)(?:max|min|add|mul)(?:f?$|_)")  # max(a, b) is max(b, a)
CONVERTS = {"argument_list", "init_declarator", "assignment_expression", "return_statement", "initializer_list"}
CONVERTS |= {"initializer_pair", "cast_expression"}
NARROW = re.compile(r"\b(?:u?int(?:8|16)_t|bool|char|float)\b")


class _Span:
    """Neighbouring nodes as one."""

    def __init__(self, first: Node, last: Node) -> None:
        self.start_byte, self.end_byte, self.start_point = first.start_byte, last.end_byte, first.start_point


Edit = tuple[str, Node | _Span, str]  # operator, whose text goes, the text that comes

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
SHELL_TESTS = {
    "-n": "-z",
    "-z": "-n",
    "=": "!=",
    "!=": "=",
    "-f": "-d",
    "-d": "-f",
    "-x": "-d",
    "-eq": "-ne",
    "-ne": "-eq",
}

C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}
# Nothing is planted below these: text that no compiler or interpreter acts on, and what only the compiler checks.
SKIPPED_TYPES = {"comment", "type", "static_assert_declaration", "preproc_include", "import_statement"}
SKIPPED_TYPES |= {"import_from_statement", "future_import_statement", "string_literal", "system_lib_string"}
SKIPPED_CALLS = re.compile(rb"_?[Ss]tatic_assert\b|static_assert\b")


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
        """The file with the fault; C keeps its line numbers, so that equal objects stay equal."""
        return source[: self.start] + self.text + source[self.end :]

    def identity(self, source: bytes) -> str:
        """A name that stays while the file's text does."""
        return hashlib.sha256(self.path.encode() + b"\0" + self.apply(source)).hexdigest()[:12]


def faults(path: str, source: bytes) -> list[Fault]:
    """Every fault that can be planted in a file, in the order of its text."""
    suffix = Path(path).suffix
    if suffix in C_SUFFIXES:
        edits = _c_edits
    elif suffix == ".py":
        edits = _python_edits
    elif suffix == ".sh":
        edits = _shell_edits
    else:
        return _make_faults(path, source)
    found: dict[tuple[int, int, bytes], Fault] = {}
    for operator, node, text in edits(_parser(suffix).parse(source).root_node):
        old = source[node.start_byte : node.end_byte]
        new = text.encode()
        if suffix != ".py":
            new += b"\n" * (old.count(b"\n") - new.count(b"\n"))
        if new != old:
            fault = Fault(path, node.start_point.row + 1, operator, node.start_byte, node.end_byte, new)
            found.setdefault((fault.start, fault.end, fault.text), fault)
    return sorted(found.values(), key=lambda f: (f.start, f.end, f.operator, f.text))


@cache
def _parser(suffix: str) -> tree_sitter.Parser:
    grammar = {".py": tree_sitter_python, ".sh": tree_sitter_bash}.get(suffix, tree_sitter_cuda)
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def _text(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def _walk(node: Node) -> Iterator[Node]:
    """A node and what lies below it, without what is skipped."""
    if node.type in SKIPPED_TYPES or node.type == "ERROR" or SKIPPED_CALLS.match(node.text or b""):
        return
    if node.type in {"expression_statement", "declaration"} and "static_assert" in _text(node):
        return
    yield node
    for child in node.children:
        yield from _walk(child)


def _operators(node: Node) -> Iterator[Edit]:
    """Another operator for each one of an expression."""
    if any(child.type in {"string", "concatenated_string"} for child in node.children) and "==" not in _text(node):
        return  # `folder / "name"`, `"text" + more`: a TypeError is no realistic fault
    for child in node.children:
        kind = child.type
        for other in SWAPPED.get(kind, ()) if not child.is_named else ():
            name = "comparison" if kind in COMPARISONS else "logic" if kind in LOGIC else "arithmetic"
            yield name, child, other


def _operands(node: Node) -> Iterator[Edit]:
    """One operand alone, of `a && b` and `a or b`."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        yield "operand", node, _text(left)
        yield "operand", node, _text(right)


def _numbers(node: Node) -> Iterator[Edit]:
    """One more and one less; what is no integer, twice as much."""
    text = _text(node)
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


def _swapped_neighbours(node: Node, items: list[Node]) -> Iterator[Edit]:
    function = node.parent and node.parent.child_by_field_name("function")
    if len(items) == 2 and COMMUTATIVE.search(_text(function)):
        return
    for first, second in pairwise(items):
        if _text(first) != _text(second):
            swapped = _text(second) + _between(node, first, second) + _text(first)
            yield "swap", _Span(first, second), swapped


def _between(node: Node, first: Node, second: Node) -> str:
    whole = node.text or b""
    return whole[first.end_byte - node.start_byte : second.start_byte - node.start_byte].decode()


def _dropped_items(node: Node, items: list[Node], operator: str, least: int = 2) -> Iterator[Edit]:
    """A list without one of its items, the comma behind it (or before the last) included."""
    if len(items) < least:
        return
    for number, item in enumerate(items):
        if number + 1 < len(items):
            span = _Span(item, items[number + 1])
            yield operator, span, _text(items[number + 1])
        elif number:
            span = _Span(items[number - 1], item)
            # `(a, b)` without b stays a tuple.
            yield operator, span, _text(items[number - 1]) + ("," if node.type == "tuple" else "")


def _fields(root: Node, function_type: str, kinds: set[str], object_field: str, name_field: str) -> Iterator[Edit]:
    """Another member of the same object, of those that the same function names: the slip of copy and paste."""
    for function in _walk(root):
        if function.type != function_type:
            continue
        uses: dict[str, list[Node]] = defaultdict(list)
        for node in _walk(function):
            called = node.parent is not None and node.parent.type in {"call", "call_expression"}
            if node.type in kinds and not (called and node.parent.child_by_field_name("function") == node):
                uses[_text(node.child_by_field_name(object_field))].append(node.child_by_field_name(name_field))
        for names in uses.values():
            spelled = sorted({_text(name) for name in names})
            for name in names:
                place = spelled.index(_text(name))
                if len(spelled) > 1:
                    yield "member", name, spelled[(place + 1) % len(spelled)]


def _c_edits(root: Node) -> Iterator[Edit]:
    yield from _fields(root, "function_definition", {"field_expression"}, "argument", "field")
    for node in _walk(root):
        kind = node.type
        if kind in {"binary_expression", "assignment_expression", "update_expression"}:
            yield from _operators(node)
            if _text(node.child_by_field_name("operator")) in {"&&", "||"}:
                yield from _operands(node)
        elif kind == "unary_expression":
            operand = node.child_by_field_name("argument")
            if _text(node.child_by_field_name("operator")) in {"!", "-", "~"} and operand is not None:
                yield "unary", node, _text(operand)
        elif kind == "conditional_expression":
            first, second = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            if first is not None and second is not None:
                yield "branch", node, _text(first)
                yield "branch", node, _text(second)
        elif kind == "number_literal":
            yield from _numbers(node)
        elif kind in {"true", "false"}:
            yield "constant", node, "false" if kind == "true" else "true"
        elif kind == "argument_list":
            yield from _swapped_neighbours(node, [n for n in node.named_children if n.type != "comment"])
        elif kind == "initializer_list":
            yield from _dropped_items(node, [n for n in node.named_children if n.type != "comment"], "element")
        elif kind == "cast_expression":
            value, name = node.child_by_field_name("value"), _text(node.child_by_field_name("type"))
            # What is passed, stored or returned is converted without the cast, too; another width shows in arithmetic.
            converted = node.parent is not None and node.parent.type in CONVERTS and not NARROW.search(name)
            if value is not None and "void" not in name and not converted:
                yield "cast", node, _text(value)
        elif kind == "call_expression":
            function = node.child_by_field_name("function")
            if _text(function) in OPPOSITES and function is not None:
                yield "opposite", function, OPPOSITES[_text(function)]
        elif kind in {"if_statement", "while_statement", "do_statement"}:
            condition = node.child_by_field_name("condition")
            if condition is not None and _text(condition).startswith("("):
                yield "condition", condition, f"(!{_text(condition)})"
        elif kind in {"expression_statement", "return_statement", "break_statement", "continue_statement"}:
            if _text(node) != ";":
                yield "statement", node, ";"
            if kind in {"break_statement", "continue_statement"}:
                yield "jump", node, "break;" if kind == "continue_statement" else "continue;"
        elif kind == "preproc_arg" and re.fullmatch(r"\(?-?[0-9][0-9a-fA-FxX]*[uU]?\)?", _text(node).strip()):
            number = re.sub(r"[0-9]+(?=[uU]?\)?$)", lambda found: str(int(found[0]) + 1), _text(node))
            yield "constant", node, number


def _python_edits(root: Node) -> Iterator[Edit]:
    yield from _fields(root, "function_definition", {"attribute"}, "object", "attribute")
    for node in _walk(root):
        kind = node.type
        if "__name__" in _text(node) and kind in {"if_statement", "comparison_operator"}:
            continue
        if kind in {"binary_operator", "augmented_assignment", "comparison_operator", "boolean_operator"}:
            yield from _operators(node)
            if kind == "boolean_operator":
                yield from _operands(node)
            if kind == "comparison_operator" and len(node.named_children) == 3:
                low, middle, high = node.named_children
                first, second = _between(node, low, middle), _between(node, middle, high)
                yield "operand", node, _text(low) + first + _text(middle)
                yield "operand", node, _text(middle) + second + _text(high)
        elif kind in {"not_operator", "unary_operator"}:
            operand = node.child_by_field_name("argument")
            if operand is not None:
                yield "unary", node, _text(operand)
        elif kind == "conditional_expression":
            first, _, second = node.named_children
            yield "branch", node, _text(first)
            yield "branch", node, _text(second)
        elif kind in {"integer", "float"}:
            yield from _numbers(node)
        elif kind in {"true", "false"}:
            yield "constant", node, "False" if kind == "true" else "True"
        elif kind == "argument_list" and node.parent is not None and node.parent.type == "call":
            yield from _python_arguments(node)
        elif kind in {"list", "tuple", "set", "dictionary"}:
            yield from _dropped_items(node, [n for n in node.named_children if n.type != "comment"], "element")
        elif kind == "call":
            function = node.child_by_field_name("function")
            if _text(function) in OPPOSITES and function is not None:
                yield "opposite", function, OPPOSITES[_text(function)]
        elif kind in {"if_statement", "elif_clause", "while_statement"}:
            condition = node.child_by_field_name("condition")
            if condition is not None:
                yield "condition", condition, f"not ({_text(condition)})"
        elif kind == "if_clause":
            yield "condition", node, f"if not ({_text(node.named_children[0])})"
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
    yield from _swapped_neighbours(node, positional)
    for number, item in enumerate(items):
        if item.type != "keyword_argument":
            continue
        if number:
            yield "keyword", _Span(items[number - 1], item), _text(items[number - 1])
        elif len(items) > 1:
            yield "keyword", _Span(item, items[1]), _text(items[1])
        else:
            yield "keyword", node, "()"


def _python_statement(node: Node) -> Iterator[Edit]:
    """A statement gone.  Not a plain assignment to a name: the NameError that follows is no realistic fault."""
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


def _shell_edits(root: Node) -> Iterator[Edit]:
    for node in _walk(root):
        if node.type == "list":
            for child in node.children:
                if child.type in {"&&", "||"}:
                    yield "logic", child, SWAPPED[child.type][0]
        elif node.type == "negated_command":
            yield "unary", node, _text(node)[1:].lstrip()
        elif _text(node) in SHELL_TESTS and node.parent is not None and node.parent.type != "variable_assignment":
            yield "comparison", node, SHELL_TESTS[_text(node)]
        elif node.type in {"command", "redirected_statement"}:
            if node.parent is not None and node.parent.type != "command_substitution":
                yield "statement", node, ":"
        elif node.type == "number":
            yield from _numbers(node)
        elif node.type == "word" and node.parent is not None and node.parent.type == "command":
            yield "element", node, ""


def _make_faults(path: str, source: bytes) -> list[Fault]:
    """A makefile without one word of a variable, a prerequisite list or a recipe."""
    found: list[Fault] = []
    at = 0
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        body = line.split(b"##")[0]
        head = re.match(rb"(?:override\s+)?[\w$()%./ -]*?(?:[:?+]?=|:)\s*|\t[@-]*", body)
        if head and not line.startswith((b"#", b".PHONY", b"-include", b"include")):
            for word in re.finditer(rb"\S+", body[head.end() :]):
                start, end = head.end() + word.start(), head.end() + word.end()
                if word[0] != b"\\":
                    found.append(Fault(path, number, "element", at + start, at + end, b""))
        at += len(line)
    return found
