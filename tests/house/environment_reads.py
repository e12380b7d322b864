"""Which environment variables the tracked sources read, by their text: C and CUDA, Python, shell, make.

`reads(sources)` gives {name: parts}, where a part is the top-level folder or file that reads it, and the places whose
variable cannot be told: code that builds a name is to be written so that its names stand in the text.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

C_ENDS, MAKE_ENDS = (".c", ".h", ".cu", ".cuh"), (".mk", "Makefile")
# Set by make for itself, and shell variables that are no one's to set.
OF_MAKE = {"MAKE", "MAKECMDGOALS", "MAKEFILE_LIST", "MAKEFLAGS", "MAKELEVEL", "CURDIR"}
FUNCTION = re.compile(r"^[\w ][\w \*]*?\b(\w+)\(([^;{}]*)\)\s*\{", re.M)
STRING = re.compile(r'"(\w+)"')


class Unknown(Exception):
    """An expression that is no variable's name that this module can tell."""


# --- C ------------------------------------------------------------------------------------------------


def arguments_at(text: str, opening: int) -> list[str]:
    """The arguments between the parenthesis at `opening` and its partner."""
    depth, found = 0, [""]
    for character in text[opening:]:
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            break
        if character == "," and depth == 1:
            found.append("")
        elif depth > 1 or character not in "([{":
            found[-1] += character
    return [argument.strip() for argument in found]


class CSources:
    """All C and CUDA sources; names are followed through macros, members and parameters."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def resolve(self, path: str, at: int, expression: str, depth: int = 0) -> set[str]:
        """The strings that an expression at a place can be."""
        text = self.texts[path]
        if literal := STRING.fullmatch(expression):
            return {literal[1]}
        if macro := re.search(rf'#define {re.escape(expression)}\s+"(\w+)"', text):
            return {macro[1]}
        if member := re.search(r"(?:->|\.)(\w+)$", expression):
            pattern = re.compile(rf"\.{member[1]} = (\w+|\"\w+\")")
            return self.any_of(pattern, depth)
        header = [match for match in FUNCTION.finditer(text) if match.start() < at]
        parameters = arguments_at(f"({header[-1][2]})", 0) if header else []
        place = [i for i, parameter in enumerate(parameters) if re.search(rf"\b{re.escape(expression)}$", parameter)]
        if not place or depth > 4:
            raise Unknown(f"{path}: getenv of {expression}")
        return self.of_calls(header[-1][1], place[0], depth)

    def any_of(self, pattern: re.Pattern[str], depth: int) -> set[str]:
        found = [
            self.resolve(path, match.start(), match[1], depth + 1)
            for path, text in self.texts.items()
            for match in pattern.finditer(text)
        ]
        return set().union(*found)

    def of_calls(self, function: str, place: int, depth: int) -> set[str]:
        """What is handed to a function's parameter in all of its calls."""
        found: set[str] = set()
        for path, text in self.texts.items():
            for match in re.finditer(rf"\b{function}\(", text):
                given = arguments_at(text, match.end() - 1)[place]
                if "const char" not in given:  # a call, no declaration
                    found |= self.resolve(path, match.start(), given, depth + 1)
        return found

    def reads(self, path: str) -> Iterator[str]:
        for match in re.finditer(r"\bgetenv\(", self.texts[path]):
            yield from self.resolve(path, match.start(), arguments_at(self.texts[path], match.end() - 1)[0])


# --- Python -------------------------------------------------------------------------------------------


def _is_environ(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def _constants(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Strings, and tuples of strings, that a module assigns to a name: by name alone, whichever the module."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                try:
                    found[node.targets[0].id] |= _strings(node.value, {})
                except Unknown:
                    continue
    return found


def _strings(node: ast.AST, constants: Mapping[str, set[str]]) -> set[str]:
    """The strings that an expression can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return set().union(*(_strings(element, constants) for element in node.elts))
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if constants.get(name):
        return constants[name]
    raise Unknown(ast.unparse(node))


def _asked(node: ast.AST) -> ast.AST | None:
    """The expression whose variable a node reads, if it reads one."""
    if isinstance(node, ast.Subscript) and _is_environ(node.value) and isinstance(node.ctx, ast.Load):
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        of_environ = _is_environ(node.func.value) and node.func.attr in ("get", "pop", "setdefault")
        return node.args[0] if of_environ or node.func.attr == "getenv" else None
    if (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.In, ast.NotIn))
        and _is_environ(node.comparators[0])
    ):
        return node.left
    return None


def python_reads(path: str, modules: Mapping[str, ast.Module], constants: Mapping[str, set[str]]) -> Iterator[str]:
    """The variables that a module reads; a loop's variable is what the loop goes through."""
    loops: dict[str, set[str]] = {}
    own = set()  # a test's: it sets them for itself
    for node in ast.walk(modules[path]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setenv":
            own |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
            if _is_environ(node.iter):
                loops[node.target.id] = set()  # whatever there is
                continue
            try:
                loops[node.target.id] = _strings(node.iter, constants)
            except Unknown:
                continue
    for node in ast.walk(modules[path]):
        asked = _asked(node)
        if asked is None:
            continue
        if isinstance(asked, ast.Name) and asked.id in loops:
            yield from loops[asked.id] - own
            continue
        try:
            yield from _strings(asked, constants) - own
        except Unknown as error:
            raise Unknown(f"{path}:{asked.lineno}: os.environ of {error}") from None


# --- shell and make -----------------------------------------------------------------------------------


def shell_reads(text: str) -> set[str]:
    """Capital names that a script uses and does not assign."""
    assigned = set(re.findall(r"^\s*([A-Z][A-Z0-9_]*)=", text, re.M))
    return set(re.findall(r"(?<![\\$])\$\{?([A-Z][A-Z0-9_]*)", text)) - assigned


def make_reads(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """By file: what the environment can set.  That is a name with a default (`?=`), one that is extended or replaced
    with `override`, one whose origin is asked for, one that no makefile assigns, and what a recipe's shell reads."""
    everything = "\n".join(texts.values())
    settable = set(re.findall(r"^\s*([A-Z][A-Z0-9_]*) *\?=", everything, re.M))
    settable |= set(re.findall(r"\boverride ([A-Z][A-Z0-9_]*) *[:+]?=", everything))
    settable |= set(re.findall(r"\$\(origin (\w+)", everything))
    assigned = set(re.findall(r"^\s*([A-Z][A-Z0-9_]*) *:?=", everything, re.M))
    found = {}
    for path, text in texts.items():
        used = set(re.findall(r"(?<!\$)\$[({]([A-Z][A-Z0-9_]*)[)}]", text))
        used |= set(re.findall(r"^\s*(?:override )?([A-Z][A-Z0-9_]*) *[?:+]?=", text, re.M))
        used |= set(re.findall(r"\$\(origin (\w+)", text))
        in_shell = set(re.findall(r"\$\$\{?([A-Z][A-Z0-9_]*)", text))
        found[path] = {name for name in used if name in settable or name not in assigned} - OF_MAKE | in_shell
    return found


# --- all of it ----------------------------------------------------------------------------------------


def reads(sources: Mapping[str, str]) -> tuple[dict[str, set[str]], list[str]]:
    """The variables that sources (path: text) read and who reads them; what cannot be told."""
    found: dict[str, set[str]] = defaultdict(set)
    unknown: list[str] = []
    c = CSources({path: text for path, text in sources.items() if path.endswith(C_ENDS)})
    modules = {path: ast.parse(text) for path, text in sources.items() if path.endswith(".py")}
    constants = _constants(modules)
    made = make_reads({path: text for path, text in sources.items() if path.endswith(MAKE_ENDS)})
    for path, text in sources.items():
        part = path.split("/")[0]
        try:
            if path in c.texts:
                names = set(c.reads(path))
            elif path in modules:
                names = set() if "env" not in text else set(python_reads(path, modules, constants))
            else:
                names = made.get(path) or (shell_reads(text) if text.startswith("#!/bin/sh") else set())
        except Unknown as error:
            unknown.append(str(error))
            continue
        for name in names:
            found[name].add("Makefile" if path in made else part)
    return dict(found), unknown
