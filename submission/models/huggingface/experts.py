"""Experts of a model of transformers with NVFP4 weights, and the function that transformers calls for them.

A model keeps the experts of a layer in one module, which knows how its weights are stored (`is_transposed`,
`is_concatenated`) and what lies between the products (`_apply_gate()` or `act_fn`).  Routers, shared experts and scores
stay in the model's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MethodType

import torch
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward

from ...experts_operator import grouped_gated_gemm, grouped_plain_gemm, swizzle_expert_scales
from ...extended_operator import NVFP4
from ...operators import STACKED
from ...quantize_operator import quantize_nvfp4
from ...routing_operator import combine_rows, route_ids
from ...scale_layouts import LINEAR, SWIZZLED, linear_scales
from ..checkpoint import PROJECTIONS, Tensors
from ..layer import Layer
from ..weights import CALIBRATED, K_MULTIPLE, TOKEN, QuantizedLinear, named, padded, quantize_linear
from .config import SIXTEEN_BIT
from .fusion import ACTIVATIONS, known_activation

IMPLEMENTATION = "nvfp4_gemm"  # config._experts_implementation
HELD = "nvfp4"  # the child of an experts module that has its weights
_LAYOUTS = (LINEAR, SWIZZLED)  # of A's scale factors and of the weights', which a call then need not permute
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


class _Projection(Layer):
    """One projection of all experts."""

    def __init__(self, linears: Sequence[QuantizedLinear], name: str, rows: int, bias: torch.Tensor | None) -> None:
        """rows: the number of outputs is padded to a multiple of it.  bias: (E, N)."""
        super().__init__()
        self.rows, self.k = linears[0].codes.shape[0], 2 * linears[0].codes.shape[1]
        for number, one in enumerate(linears):
            if one.codes.shape != linears[0].codes.shape:
                raise ValueError(
                    f"{name} {number} has codes of shape {tuple(one.codes.shape)}; expected "
                    f"{tuple(linears[0].codes.shape)}, as 0 has"
                )
        held = [padded(named(one, f"{name} {number}", "K"), rows) for number, one in enumerate(linears)]
        codes, factors, scales, inputs = zip(*held, strict=True)
        self.register_buffer("codes", torch.stack(codes))
        self.register_buffer("factors", swizzle_expert_scales(torch.stack(factors)))
        self.register_buffer("weight_scale", torch.cat(scales))
        self.register_buffer("input_scale", None if inputs[0] is None else torch.cat(inputs))
        self.register_buffer("product_scale", self.weight_scale.clone())
        if bias is not None:
            bias = torch.nn.functional.pad(bias.detach().float(), (0, -self.rows % rows))
        self.register_buffer("bias", bias)

    def published(self) -> list[tuple[QuantizedLinear, torch.Tensor | None]]:
        """The weight and bias of each expert, without what pads them."""
        rows, half_k = self.codes.shape[1:]
        codes = self.codes[:, : self.rows, : self.k // 2]
        factors = [linear_scales(one, rows, half_k // 8)[: self.rows, : -(-self.k // 16)] for one in self.factors]
        numbers = [None if one is None else one.split(1) for one in (self.weight_scale, self.input_scale)]
        inputs = numbers[1] or [None] * len(codes)
        biases = [None] * len(codes) if self.bias is None else self.bias[:, : self.rows]
        return list(zip(map(QuantizedLinear, codes, factors, numbers[0], inputs), biases, strict=True))

    def product(self, a: torch.Tensor, factors: torch.Tensor | None, **how: object) -> torch.Tensor | tuple:
        """a W^T + bias, with options of grouped_plain_gemm()."""
        return grouped_plain_gemm(
            a, self.codes, factors, self.factors, scale=self.product_scale, bias=self.bias, scale_layout=_LAYOUTS, **how
        )


class Experts(Layer):
    """The experts' products.  Choices of no expert here (an id of num_experts or above, or below zero) add nothing."""

    def __init__(
        self,
        layers: Sequence[Sequence[QuantizedLinear]],
        kind: str,
        name: str,
        biases: Sequence[torch.Tensor | None],
        activation: dict[str, object] | None,
    ) -> None:
        """layers: gate, up and down of each expert, or up and down.  kind: how activations are quantized.  name: the
        module's, for messages.  biases: of the projections.  activation: options of the first product; None: the
        model's own code runs between the products.
        """
        super().__init__()
        self.count, self.kind, self.activation = len(layers), kind, activation
        self.gate_proj = None
        for projection, linears, bias in zip(self.names(layers[0]), zip(*layers, strict=True), biases, strict=True):
            rows = 1 if projection == "down_proj" else K_MULTIPLE
            setattr(self, projection, _Projection(linears, f"{name}.{projection}", rows, bias))
        if kind == CALIBRATED:
            # A token is quantized once for all its experts, so that none saturates that one of them would not.
            firsts = [one for one in (self.gate_proj, self.up_proj) if one is not None]
            self.register_buffer("input_scale", torch.cat([one.input_scale for one in firsts]).amin(0, keepdim=True))
            for one in (*firsts, self.down_proj):
                one.product_scale /= one.input_scale if one is self.down_proj else self.input_scale

    @staticmethod
    def names(layer: Sequence[object]) -> tuple[str, ...]:
        """The projections of an expert that has a gate, or none."""
        return PROJECTIONS[-len(layer) :]

    def published(self) -> dict[str, tuple[QuantizedLinear, torch.Tensor | None]]:
        """The weight and bias of each expert's projections, such as "0.gate_proj"."""
        return {
            f"{number}.{name}": one
            for name, projection in self.named_children()
            for number, one in enumerate(projection.published())
        }

    def forward(
        self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, module: torch.nn.Module
    ) -> torch.Tensor:
        """The sum of the experts `ids` (T, k) of each token, with these weights.  module: the model's own."""
        tokens, dtype = self._rows(x, self.down_proj.rows)
        ids, weights = ids.contiguous(), weights.contiguous()
        counts, rows, places = route_ids(ids, self.count)
        how, scale, down = {"counts": counts, "out_dtype": dtype}, None, self.down_proj
        fused = self.kind == CALIBRATED and self.activation is not None
        first = how | ({"out_dtype": NVFP4, "scale_c": down.input_scale} if fused else {})
        if self.kind == SIXTEEN_BIT:
            a, first = (tokens.to(dtype).contiguous(), None), first | {"rows": places}
        elif self.kind == CALIBRATED:
            a = quantize_nvfp4(tokens, self.input_scale, rows=places)
        else:
            *a, scale = quantize_nvfp4(tokens, rows=places, dynamic=True)
        between = self._first(module, *a, token_scale=scale, **first)
        if self.kind == SIXTEEN_BIT:
            between = between.contiguous(), None
        elif self.kind == TOKEN:
            *between, scale = quantize_nvfp4(between, dynamic=True)
        elif not fused:
            expert = ids.new_zeros(places.numel() + 1)
            expert[rows.flatten().long()] = ids.flatten()  # choices of no expert here have the row -1, the last one
            between = quantize_nvfp4(between.float() * down.input_scale[expert[:-1], None])
        y = down.product(*between, token_scale=scale, **how)
        if _trait(module, "has_post_expert_norm"):
            y = module.post_expert_norm(y)
        return combine_rows(y, rows, weights).to(x.dtype)

    def _first(
        self, module: torch.nn.Module, a: torch.Tensor, factors: torch.Tensor | None, **how: object
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """What lies between the products."""
        gate, up = self.gate_proj, self.up_proj
        if self.activation is None:
            return _between(module, [one.product(a, factors, **how) for one in (gate, up) if one is not None])
        if gate is None:
            return up.product(a, factors, **how, **self.activation)
        return grouped_gated_gemm(
            a, gate.codes, up.codes, factors, gate.factors, up.factors, scale_gate=gate.product_scale,
            scale_up=up.product_scale, bias_gate=gate.bias, bias_up=up.bias, scale_layout=_LAYOUTS, **how,
            **self.activation,
        )  # fmt: skip


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
    gate = torch.linspace(-20, 20, 161, dtype=torch.float64, device="cpu")
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
    names = PROJECTIONS if gated else PROJECTIONS[1:]
    layers, biases = [], []
    for at in (f"{number}." for number in range(module.num_experts)):
        apart = [] if gated else [tensors.linear(at + one, "K", inputs) for one in names]
        layers.append(apart or tensors.projections(at, inputs, order))
        biases.append([tensors.bias(at + one) for one in names])
    tensors.refuse_others()
    install(
        module, layers, kind, name, [None if one[0] is None else torch.stack(one) for one in zip(*biases, strict=True)]
    )


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
    biases: Sequence[torch.Tensor | None],
) -> None:
    """Makes an experts module of a model compute with these weights, and these biases or its own."""
    names = parameter_names(module)
    if getattr(module, "has_bias", False):
        if biases[0] is None:
            first, last = (getattr(module, f"{one}_bias") for one in names)
            biases = [*(_gate_and_up(module, first) if len(layers[0]) > 2 else (first,)), last]
        for one in names:
            setattr(module, f"{one}_bias", None)
    for one in names:
        setattr(module, one, None)
    module.add_module(HELD, Experts(layers, kind, name, biases, _activation(module)))
    if type(module).__name__ == _LLAMA4:
        module.forward = MethodType(_llama4_forward, module)
    else:
        module.config._experts_implementation = IMPLEMENTATION


def experts_forward(
    self: torch.nn.Module, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """What transformers calls for every experts module of a model, also for one whose weights are floats."""
    experts = getattr(self, HELD, None)
    if experts is None:
        return grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights)
    return experts(hidden_states, top_k_index, top_k_weights, self)


def _llama4_forward(self: torch.nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
    """Llama 4's input is each token once for each expert, zeros for those that were not chosen."""
    count = self.num_experts
    ids = torch.arange(count, device=hidden_states.device).repeat_interleave(hidden_states.shape[0] // count)
    ids = torch.where(hidden_states.any(-1), ids, count)[:, None]
    return getattr(self, HELD)(hidden_states, ids, torch.ones_like(ids, dtype=torch.float32), self)


ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, experts_forward)
