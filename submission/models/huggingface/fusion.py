"""Gated MLPs of a model of transformers, whose gate and up products become one where the model's own code is
down(silu(gate(x)) * up(x)), with gate and up apart or as the halves of one projection.
"""

from __future__ import annotations

import operator
from functools import partial

import torch
from torch import fx

from ..gated_mlp import GatedMLP
from ..linear import Linear
from ..weights import QuantizedLinear

ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
    "relu2": lambda x: torch.nn.functional.relu(x).square(),
}


def unpadded(linear: Linear) -> QuantizedLinear:
    """A layer's weight as a checkpoint has it."""
    held = linear.quantized()
    return held._replace(
        codes=held.codes[:, : linear.in_features // 2], factors=held.factors[:, : -(-linear.in_features // 16)]
    )


class FusedMLP(GatedMLP):
    """A GatedMLP that knows the names of the projections that it was made of."""

    def __init__(self, names: tuple[str, ...], linears: tuple[Linear, ...]) -> None:
        """names: of gate, up and down, or of both and down, with their layers."""
        weights = [unpadded(one) for one in linears]
        if len(weights) == 2:
            both, down = weights
            gate, up = (both._replace(codes=c, factors=f) for c, f in zip(*map(_halves, both[:2]), strict=True))
            weights = [gate, up, down]
        super().__init__(*weights, quantize=linears[0].quantize, scale=linears[0].scale)
        self.names = names

    def published(self) -> dict[str, QuantizedLinear]:
        """The projections, by name, as a checkpoint has them."""
        gate, up, down = (unpadded(getattr(self, name)) for name in ("gate_proj", "up_proj", "down_proj"))
        gate, up = (one._replace(codes=one.codes[: self.intermediate]) for one in (gate, up))
        gate, up = (one._replace(factors=one.factors[: self.intermediate]) for one in (gate, up))
        down = down._replace(
            codes=down.codes[:, : self.intermediate // 2], factors=down.factors[:, : -(-self.intermediate // 16)]
        )
        if len(self.names) == 3:
            return dict(zip(self.names, (gate, up, down), strict=True))
        both = gate._replace(codes=torch.cat((gate.codes, up.codes)), factors=torch.cat((gate.factors, up.factors)))
        return dict(zip(self.names, (both, down), strict=True))


def _halves(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return rows.chunk(2)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


def known_activation(module: torch.nn.Module) -> str | None:
    """The name of ACTIVATIONS whose numbers a module without weights gives."""
    x = torch.linspace(-20, 20, 81, dtype=torch.float64)
    try:
        found = module(x)
    except Exception:  # a module of another kind, such as one with weights
        return None
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        return None
    return next((name for name, f in ACTIVATIONS.items() if torch.allclose(found, f(x), rtol=1e-6, atol=1e-9)), None)


def _names(mlp: torch.nn.Module) -> tuple[str, ...] | None:
    """The projections of a gated MLP by what its code does with them, or None for other code."""
    try:
        graph = _Tracer().trace(mlp)
    except Exception:  # code that depends on its input is none of the two forms
        return None
    x, *others = [node for node in graph.nodes if node.op == "placeholder"] or [None]
    result = next(node for node in graph.nodes if node.op == "output").args[0]

    def called(node: object, count: int = 1) -> bool:
        return isinstance(node, fx.Node) and node.op == "call_module" and len(node.args) == count and not node.kwargs

    product = result.args[0] if called(result) and not others else None
    if not isinstance(product, fx.Node) or product.target is not operator.mul:
        return None
    factors = product.args
    for activated, up in (factors, factors[::-1]):
        if not (called(activated) and known_activation(mlp.get_submodule(activated.target)) == "silu"):
            continue
        gate = activated.args[0]
        if called(gate) and called(up) and gate.args == up.args == (x,):
            return gate.target, up.target, result.target
        if _is_half(gate, 0) and _is_half(up, 1) and gate.args[0] is up.args[0]:
            both = gate.args[0].args[0]
            if called(both) and both.args == (x,):
                return both.target, result.target
    return None


def _is_half(node: object, number: int) -> bool:
    """True for a half of the last dimension, as chunk() makes it."""
    if not isinstance(node, fx.Node) or node.target is not operator.getitem or node.args[1] != number:
        return False
    chunk = node.args[0]
    last = chunk.args[2:] == (-1,) or chunk.kwargs == {"dim": -1}
    return chunk.op == "call_method" and chunk.target == "chunk" and chunk.args[1:2] == (2,) and last


def fuse(model: torch.nn.Module) -> None:
    """Puts a FusedMLP in the place of each gated MLP whose projections are NVFP4 and have no biases."""
    for name, mlp in list(model.named_modules()):
        linears = {child: one for child, one in mlp.named_children() if isinstance(one, Linear)}
        if len(linears) not in (2, 3) or any(one.bias is not None for one in linears.values()):
            continue
        names = _names(mlp)
        if names is None or names[-1] not in linears or set(names) != set(linears):
            continue
        found = tuple(linears[one] for one in names)
        if len({(one.quantize, one.scale) for one in found}) == 1:
            model.set_submodule(name, FusedMLP(names, found))
