"""Linear layers of a model of transformers that read the same input, such as an attention's q, k and v: one product.

The model's own code still calls each of them: the first call computes all, and the others take their columns.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

import torch

from ..linear import Linear
from ..weights import QuantizedLinear, quantize_linear
from .fusion import unpadded

_IN_PLACE = ("out", "inplace")  # arguments of functions that write to a tensor


class Together(torch.nn.Module):
    """The first of some layers, with the product of all."""

    def __init__(self, names: tuple[str, ...], linears: tuple[Linear, ...]) -> None:
        """names: of the layers, in the order in which they are called, with the same options and scales."""
        super().__init__()
        weights, first = [unpadded(one) for one in linears], linears[0]
        every = QuantizedLinear(*(torch.cat([one[i] for one in weights]) for i in range(2)), *weights[0][2:])
        bias = None
        if any(one.bias is not None for one in linears):
            bias = torch.cat([one.codes.new_zeros(one.out_features).float() if one.bias is None else one.bias
                              for one in linears])  # fmt: skip
        self.product = Linear(every, bias=bias, quantize=first.quantize, scale=first.scale)
        self.names, self.rows = names, tuple(one.out_features for one in linears)
        self.biased = tuple(one.bias is not None for one in linears)
        self.latest: tuple[torch.Tensor, int, int, tuple[torch.Tensor, ...]] | None = None

    def __getstate__(self) -> dict[str, object]:
        """For copies and files, which take no activations."""
        return self.__dict__ | {"latest": None}

    def columns(self, x: torch.Tensor, number: int) -> torch.Tensor:
        """Layer number `number` of x."""
        latest = self.latest  # read once: another thread may replace it
        # Counts the writes to x and its views, but where nobody counts or may ask.
        version = 0 if torch.compiler.is_compiling() or x.is_inference() else x._version
        # A layer that comes again means another pass, whose x may have been written where no version tells.
        if latest is None or latest[0] is not x or latest[1] != version or number <= latest[2]:
            columns = self.product(x).split(self.rows, -1)
        else:
            columns = latest[3]
        last = number == len(self.rows) - 1  # nobody reads them again
        self.latest = None if last else (x, version, number, columns)
        return columns[number]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N of the first layer)."""
        return self.columns(x, 0)

    def published(self) -> dict[str, tuple[QuantizedLinear, torch.Tensor | None]]:
        """The layers' weights and biases, by name, as a checkpoint has them."""
        every = unpadded(self.product)
        codes, factors = every.codes.split(self.rows), every.factors.split(self.rows)
        biases = [None] * len(self.rows) if self.product.bias is None else self.product.bias.split(self.rows)
        return {
            name: (every._replace(codes=codes[i], factors=factors[i]), biases[i] if self.biased[i] else None)
            for i, name in enumerate(self.names)
        }


class Column(torch.nn.Module):
    """One of the others."""

    def __init__(self, together: Together, number: int) -> None:
        super().__init__()
        object.__setattr__(self, "together", together)  # not registered again: it is the first layer's module
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        return self.together.columns(x, self.number)


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _viewed(node: ast.AST) -> str | None:
    """The variable that an expression such as x.view(-1)[0] may be a view of."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return _name(node)


def _merges_rows(node: ast.AST) -> ast.AST | None:
    """The call whose result goes straight into a view such as (batch, -1), which takes no columns of a wider result."""
    match node:
        case ast.Call(ast.Attribute(ast.Call() as call, "view"), [_, ast.UnaryOp(ast.USub(), ast.Constant(1)), *rest]):
            return call if len(rest) < 2 and not isinstance(node.args[0], ast.Starred) else None
    return None


@cache
def _called_alike(kind: type) -> tuple[tuple[str, ...], ...]:
    """The children that a module's forward() calls once each, with the same variable that never changes."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(kind.forward))))
    except (OSError, TypeError):  # no source at hand
        return ()
    calls, uses, changed = defaultdict(list), Counter(), set()
    views, inside, merged = defaultdict(set), set(), set()  # inside: written in place, themselves or a view
    for node in ast.walk(tree):
        written = not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        in_place = isinstance(node, ast.Attribute) and node.attr.endswith("_")  # a method such as add_()
        in_place |= isinstance(node, ast.Call) and any(one.arg in _IN_PLACE for one in node.keywords)
        if written or in_place:
            changed |= {_name(one) for one in ast.walk(node)}
        if in_place or (written and not isinstance(node, ast.Name | ast.Tuple)):
            inside |= {_name(one) for one in ast.walk(node)}
        if isinstance(node, ast.AugAssign):
            inside.add(_name(node.target))
        if isinstance(node, ast.Assign | ast.NamedExpr):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    views[one.id] |= {_viewed(value) for value in values}
        merged.add(_merges_rows(node))
        if isinstance(node, ast.Attribute) and _name(node.value) == "self":
            uses[node.attr] += 1
        match node:
            case ast.Call(ast.Attribute(ast.Name("self"), child), [ast.Name(variable)], []):
                if node not in merged:
                    calls[variable].append((node.lineno, node.col_offset, child))
    for name in inside:
        changed |= views[name]
    unchanged = [sorted(found) for variable, found in calls.items() if variable not in changed]
    groups = [tuple(child for *_, child in found if uses[child] == 1) for found in unchanged]
    return tuple(group for group in groups if len(group) > 1)


def groups_of(model: torch.nn.Module, chosen: Iterable[str]) -> list[tuple[str, ...]]:
    """The chosen layers by full names, those that read the same input in one group."""
    left, found = dict.fromkeys(chosen), []
    for name, module in model.named_modules():
        for children in _called_alike(type(module)):
            names = [f"{name}.{one}".removeprefix(".") for one in children]
            found.append(tuple(one for one in names if one in left))
            for one in found[-1]:
                del left[one]
    return [group for group in (*found, *((one,) for one in left)) if group]


def quantize_together(weights: list[torch.Tensor], largest_input: float | None = None) -> list[QuantizedLinear]:
    """Float weights (N, K) of layers with the same input, in NVFP4, by one scale, if they are on one device."""
    if len({one.device for one in weights}) > 1:
        return [quantize_linear(one, largest_input) for one in weights]
    every, rows = quantize_linear(torch.cat(weights), largest_input), [len(one) for one in weights]
    parts = zip(every.codes.split(rows), every.factors.split(rows), strict=True)
    return [every._replace(codes=codes, factors=factors) for codes, factors in parts]


def _alike(linears: list[Linear]) -> bool:
    """True if one product can compute all of them."""

    def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
        return one is other is None or (one.device == other.device and torch.equal(one, other))

    first = linears[0]
    return all(
        (one.quantize, one.scale, one.in_features) == (first.quantize, first.scale, first.in_features)
        and same(one.weight_scale, first.weight_scale)
        and (one.input_scale is None) == (first.input_scale is None)
        and same(one.input_scale, first.input_scale)
        for one in linears
    )  # fmt: skip


def join(model: torch.nn.Module) -> None:
    """Puts a Together and its Columns in the place of layers that read the same input and have the same scales."""
    linears = {name: one for name, one in model.named_modules() if type(one) is Linear}
    for names in groups_of(model, linears):
        layers = [linears[one] for one in names]
        if len(layers) == 1 or not _alike(layers):
            continue
        together = Together(tuple(one.rpartition(".")[2] for one in names), tuple(layers))
        model.set_submodule(names[0], together)
        for number, name in enumerate(names[1:], 1):
            model.set_submodule(name, Column(together, number))
