"""Experts of a model of transformers with NVFP4 weights, and the function that transformers calls for them.

A model keeps the experts of a layer in one module, which knows how its weights are stored (`is_transposed`,
`is_concatenated`) and what lies between the products (`_apply_gate()` or `act_fn`).  Routers, shared experts and scores
stay in the model's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MethodType

import torch
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward

from ...operators import STACKED
from ...routing_operator import route_ids
from ..checkpoint import PROJECTIONS, Tensors
from ..experts import Experts
from ..weights import CALIBRATED, QuantizedLinear, quantize_linear
from .config import options_of
from .fusion import ACTIVATIONS, known_activation, numbers_to_try

IMPLEMENTATION = "nvfp4_gemm"  # config._experts_implementation
HELD = "nvfp4"  # the child of an experts module that has its weights
_LLAMA4 = "Llama4TextExperts"  # its input is each token once for each expert, and no function can be chosen for it


def is_experts(module: torch.nn.Module) -> bool:
    """True for a module of experts that this package can compute."""
    return type(module).__name__ == _LLAMA4 or (hasattr(module, "is_transposed") and hasattr(module, "has_gate"))


def _trait(module: torch.nn.Module, name: str) -> bool:
    """What transformers writes on experts whose function can be chosen."""
    return getattr(module, name, name in ("has_gate", "is_concatenated", "is_transposed"))  # as Llama 4's are


def parameter_names(module: torch.nn.Module) -> tuple[str, str]:
    """The names of the parameters with the experts' weights."""
    return "gate_up_proj" if _trait(module, "has_gate") else "up_proj", "down_proj"


def width_of(module: torch.nn.Module) -> int:
    """The width of tokens, of an experts module that has its parameters."""
    shape = getattr(module, parameter_names(module)[1]).shape
    return shape[2] if _trait(module, "is_transposed") else shape[1]


def _gate_and_up(module: torch.nn.Module, both: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both parts of the second dimension."""
    return both.chunk(2, 1) if _trait(module, "is_concatenated") else (both[:, 0::2], both[:, 1::2])


def _between(module: torch.nn.Module, firsts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The model's own activation of gate and up, or of up."""
    if len(firsts) == 1:
        return module.act_fn(firsts[0])
    if type(module).__name__ == _LLAMA4:
        return firsts[1] * module.act_fn(firsts[0])
    return module._apply_gate(torch.cat(firsts, -1) if module.is_concatenated else torch.stack(firsts, -1).flatten(-2))


def _activation(module: torch.nn.Module) -> dict[str, object] | None:
    """Options of the first product that give what the module's own code does between the products, if there are."""
    if not _trait(module, "has_gate"):
        name = known_activation(module.act_fn)
        return None if name is None else {"activation": name}
    gate = numbers_to_try()
    up = gate.roll(57) - 0.3
    try:
        wanted = _between(module, [gate, up])
    except Exception:  # code that needs other tensors runs as it is, on those of a call
        return None
    own = [float(getattr(module, name, default) or 0) for name, default in (("limit", 0), ("alpha", 1))]
    known = [(name, 0.0, 1.0, 0.0) for name in ACTIVATIONS]
    for name, limit, alpha, beta in (*known, ("silu", *own, 0.0), ("silu", *own, 1.0)):
        g, u = (gate.clamp(max=limit), up.clamp(-limit, limit)) if limit else (gate, up)
        if torch.allclose(ACTIVATIONS[name](alpha * g) / alpha * (u + beta), wanted, rtol=1e-6, atol=1e-9):
            return {"activation": name, "limit": limit, "alpha": alpha, "beta": beta}
    return None


def read_experts(module: torch.nn.Module, parts: Mapping[str, torch.Tensor], hidden: int, kind: str, name: str) -> None:
    """Installs experts from tensors of a checkpoint, one for each expert or for all.  hidden: width_of(module)."""
    tensors = Tensors({f"{name}.{part}": tensor for part, tensor in parts.items()}, name)
    tensors.split_experts("", module.num_experts, hidden)
    gated, inputs = _trait(module, "has_gate"), kind == CALIBRATED
    order = STACKED if _trait(module, "is_concatenated") else "interleaved1"
    layers, biases = [], []
    for at in (f"{number}." for number in range(module.num_experts)):
        apart = [at + one for one in PROJECTIONS[1:]]
        layers.append(
            tensors.projections(at, inputs, order) if gated else [tensors.linear(one, "K", inputs) for one in apart]
        )
        biases.append(tensors.biases(at, order) if gated else [tensors.bias(one) for one in apart])
    tensors.refuse_others()
    if (k := 2 * layers[0][0].codes.shape[1]) != hidden:
        raise ValueError(f"{name} has weights of K {k}; expected {hidden}, as config.json says")
    install(module, layers, kind, name, biases)


def quantize_experts(
    module: torch.nn.Module, projection: str, weights: torch.Tensor
) -> dict[str, list[QuantizedLinear]]:
    """The weights of all experts in NVFP4, of a parameter as the module has it, by the projection's name."""
    weights = weights.transpose(1, 2) if _trait(module, "is_transposed") else weights
    merged = projection == "gate_up_proj"
    parts = zip(PROJECTIONS, _gate_and_up(module, weights), strict=False) if merged else ((projection, weights),)
    return {name: [quantize_linear(one.contiguous()) for one in part] for name, part in parts}


def install(
    module: torch.nn.Module,
    layers: Sequence[Sequence[QuantizedLinear]],
    kind: str,
    name: str,
    biases: Sequence[Sequence[torch.Tensor | None]] | None = None,
) -> None:
    """Makes an experts module of a model compute with these weights, and these biases or its own."""
    names = parameter_names(module)
    if getattr(module, "has_bias", False):
        if biases is None or biases[0][0] is None:
            first, last = (getattr(module, f"{one}_bias") for one in names)
            firsts = _gate_and_up(module, first) if len(layers[0]) > 2 else (first,)
            biases = list(zip(*firsts, last, strict=True))
        for one in names:
            setattr(module, f"{one}_bias", None)
    for one in names:
        setattr(module, one, None)
    how = {"activation": _activation(module), **options_of(kind)}
    module.add_module(HELD, Experts(layers, biases, name=f"{name}.", **how))
    if type(module).__name__ == _LLAMA4:
        module.forward = MethodType(_llama4_forward, module)
    else:
        module.config._experts_implementation = IMPLEMENTATION


def experts_forward(
    self: torch.nn.Module, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """What transformers calls for every experts module of a model, also for one whose weights are floats.  Choices of
    no expert here (an id of num_experts or above, or below zero) add nothing.
    """
    experts = getattr(self, HELD, None)
    if experts is None:
        return grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights)
    rows, dtype = experts._rows(hidden_states, experts.hidden)
    placed = route_ids(top_k_index.contiguous(), experts.count)
    between = partial(_between, self) if experts.activation is None else None
    norm = self.post_expert_norm if _trait(self, "has_post_expert_norm") else None
    found = experts(rows, placed, top_k_weights.contiguous(), dtype, between, norm)
    return experts._with_shape_of(hidden_states, found, top_k_weights=top_k_weights).to(hidden_states.dtype)


def _llama4_forward(self: torch.nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
    """Llama 4's input is each token once for each expert, zeros for those that were not chosen."""
    count = self.num_experts
    ids = torch.arange(count, device=hidden_states.device).repeat_interleave(hidden_states.shape[0] // count)
    ids = torch.where(hidden_states.any(-1), ids, count)[:, None]
    return experts_forward(self, hidden_states, ids, torch.ones_like(ids, dtype=torch.float32))


ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, experts_forward)
