"""Gated MLPs of a model of transformers, whose gate and up products become one where the model's own code is
down(f(gate(x)) * up(x)), f being SiLU or another activation of gated_gemm(), with gate and up apart or as the halves
of one projection.
"""

from __future__ import annotations

import operator
from functools import partial

import torch
from torch import fx

from ...operators import STACKED
from ..gated_mlp import GatedMLP
from ..linear import Linear
from ..weights import QuantizedLinear, in_two

ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
    "relu2": lambda x: torch.nn.functional.relu(x).square(),
}


def unpadded(linear: Linear, rows: int | None = None, k: int | None = None) -> QuantizedLinear:
    """A layer's weight as a checkpoint has it.  rows, k: its sizes, where the layer holds more."""
    held, k = linear.quantized(), k or linear.in_features
    return held._replace(codes=held.codes[:rows, : k // 2], factors=held.factors[:rows, : -(-k // 16)])


class FusedMLP(GatedMLP):
    """A GatedMLP that knows the projections that it was made of."""

    def __init__(self, names: tuple[str, ...], linears: tuple[Linear, ...], activation: str) -> None:
        """names: of gate, up and down, or of both and down, with their layers."""
        weights, biases = [unpadded(one) for one in linears], [one.bias for one in linears]
        if len(linears) == 2:
            weights = [*in_two(weights[0], STACKED, names[0]), weights[1]]
            biases = [*((None, None) if biases[0] is None else biases[0].chunk(2)), biases[1]]
        how = {"quantize": linears[0].quantize, "scale": linears[0].scale}
        super().__init__(*weights, biases=biases, activation=activation, **how)
        self.names = names

    def published(self) -> dict[str, tuple[QuantizedLinear, torch.Tensor | None]]:
        """The projections' weights and biases, by name, as a checkpoint has them."""
        n, k = self.intermediate, self.hidden
        gate, up = unpadded(self.gate_proj, n, k), unpadded(self.up_proj, n, k)
        biases = [None if one.bias is None else one.bias[:n] for one in (self.gate_proj, self.up_proj)]
        first = [(gate, biases[0]), (up, biases[1])]
        if len(self.names) == 2:
            both = gate._replace(codes=torch.cat((gate.codes, up.codes)), factors=torch.cat((gate.factors, up.factors)))
            first = [(both, None if biases[0] is None else torch.cat(biases))]
        down = unpadded(self.down_proj, k, n), self.down_proj.bias
        return dict(zip(self.names, (*first, down), strict=True))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


def numbers_to_try() -> torch.Tensor:
    """What tells activations apart: where they differ, and far from zero, where some have a limit."""
    near = torch.linspace(-20, 20, 161, dtype=torch.float64, device="cpu")
    return torch.cat((near, near.new_tensor([-1e4, -500.0, -50.0, 50.0, 500.0, 1e4])))


def known_activation(module: torch.nn.Module) -> str | None:
    """The name of ACTIVATIONS whose numbers a module without weights gives."""
    x = numbers_to_try()
    try:
        found = module(x)
    except Exception:  # a module of another kind, such as one with weights
        return None
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        return None
    return next((name for name, f in ACTIVATIONS.items() if torch.allclose(found, f(x), rtol=1e-6, atol=1e-9)), None)


def _form(mlp: torch.nn.Module) -> tuple[tuple[str, ...], str] | None:
    """The projections of a gated MLP, by what its code does with them, and its activation; None for other code."""
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
        activation = known_activation(mlp.get_submodule(activated.target)) if called(activated) else None
        if activation is None:
            continue
        gate = activated.args[0]
        if called(gate) and called(up) and gate.args == up.args == (x,):
            return (gate.target, up.target, result.target), activation
        if _is_half(gate, 0) and _is_half(up, 1) and gate.args[0] is up.args[0]:
            both = gate.args[0].args[0]
            if called(both) and both.args == (x,):
                return (both.target, result.target), activation
    return None


def _is_half(node: object, number: int) -> bool:
    """True for a half of the last dimension, as chunk() makes it."""
    if not isinstance(node, fx.Node) or node.target is not operator.getitem or node.args[1] != number:
        return False
    chunk = node.args[0]
    last = chunk.args[2:] == (-1,) or chunk.kwargs == {"dim": -1}
    return chunk.op == "call_method" and chunk.target == "chunk" and chunk.args[1:2] == (2,) and last


def fuse(model: torch.nn.Module) -> None:
    """Puts a FusedMLP in the place of each gated MLP whose projections are NVFP4."""
    for name, mlp in list(model.named_modules()):
        linears = {child: one for child, one in mlp.named_children() if isinstance(one, Linear)}
        form = _form(mlp) if len(linears) in (2, 3) else None
        if form is None or set(form[0]) != set(linears):
            continue
        found = tuple(linears[one] for one in form[0])
        if len({(one.quantize, one.scale) for one in found}) == 1:
            model.set_submodule(name, FusedMLP(form[0], found, form[1]))
