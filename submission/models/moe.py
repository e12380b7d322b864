"""A mixture of experts, each a gated MLP with NVFP4 weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch

from ..experts_operator import swizzle_expert_scales
from ..operators import OF_GATE, SILU, STACKED, activation_of
from ..routing_operator import route_ids, route_logits
from ..scale_layouts import linear_scales
from .checkpoint import PROJECTIONS, Source, Tensors
from .config import Config
from .experts import Experts, run_experts
from .gated_mlp import GatedMLP, biases_of, layer_of, random_layer
from .layer import Errors, Layer
from .weights import CALIBRATED, GROUP, TOKEN, QuantizedLinear, takes_input_scale


class MoE(Layer):
    """A mixture of experts, each a gated MLP with NVFP4 weights: the `top_k` experts of the highest router's scores
    compute a token, and their outputs are added with the scores' softmax as weights.

    x (..., hidden) as GatedMLP takes it.  The numbers of tokens of the experts stay on the device, so a CUDA graph can
    be replayed with other tokens, and torch.export takes a dynamic number of rows.  Casts and derivatives are as
    GatedMLP's.
    """

    def __init__(
        self,
        router: torch.Tensor,
        experts: Sequence[Sequence[QuantizedLinear]],
        top_k: int,
        *,
        biases: Sequence[Sequence[torch.Tensor | None]] | None = None,
        activation: str = SILU,
        normalize: bool = True,
        quantize: bool = True,
        scale: str = CALIBRATED,
        limit: float = 0.0,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """router (E, hidden): a float matrix.  experts: gate, up and down of each; biases: likewise.  normalize: the
        weights of a token's experts add up to 1, else the softmax over all experts gives them.  activation, limit,
        alpha, beta: gated_gemm()'s.  quantize, scale: Linear's.
        """
        super().__init__()
        calibrated = takes_input_scale(quantize, scale)
        if not 1 <= top_k <= len(experts) or router.shape[:1] != (len(experts),):
            raise ValueError(
                f"top_k is {top_k} and router has shape {tuple(router.shape)}, with {len(experts)} experts; expected 1 "
                "to that many, and a row for each"
            )
        layers = [layer_of(one, f"experts.{number}.") for number, one in enumerate(experts)]
        self.intermediate, self.hidden = experts[0][0].codes.shape[0], 2 * experts[0][0].codes.shape[1]
        for number, one in enumerate(experts):
            if one[0].codes.shape != experts[0][0].codes.shape:
                raise ValueError(
                    f"experts.{number}.gate_proj has codes of shape {tuple(one[0].codes.shape)}; expected "
                    f"{tuple(experts[0][0].codes.shape)}, as experts.0.gate_proj's"
                )
        if router.shape[1:] != (self.hidden,) or not router.is_floating_point():
            raise ValueError(
                f"router has dtype {router.dtype} and shape {tuple(router.shape)}; expected floating-point "
                f"{(len(experts), self.hidden)}"
            )
        activation_of(activation, OF_GATE)
        self.top_k, self.normalize, self.activation = top_k, normalize, activation
        self.quantize, self.scale = quantize, scale
        self.limit, self.alpha, self.beta = limit, alpha, beta
        biases = [(None,) * 3] * len(experts) if biases is None else biases
        biases = [
            biases_of(*one, f"experts.{number}.")
            for number, one in enumerate(zip(biases, experts, layers, strict=True))
        ]
        self.register_buffer("router", router.clone())
        inputs: list[torch.Tensor | None] = [None] * 3
        if calibrated:
            lacks = next((number for number, one in enumerate(layers) for lin in one if lin.input_scale is None), None)
            if lacks is not None:
                raise ValueError(
                    f"experts.{lacks} has no input_scale; expected one, scale={TOKEN!r}, or quantize=False"
                )
            # A token is quantized once for all its experts, so that none saturates that one of them would not.
            inputs[0] = inputs[1] = torch.cat([one[0].input_scale for one in layers]).amin(0, keepdim=True)
            inputs[2] = torch.cat([one[2].input_scale for one in layers])
        self.register_buffer("input_scale", inputs[0])
        self.register_buffer("between_scale", inputs[2])
        for place, name in enumerate(PROJECTIONS):
            all_of = [one[place] for one in layers]
            self.register_buffer(f"{name}_codes", torch.stack([one.codes for one in all_of]))
            factors = torch.stack([one.factors for one in all_of])
            self.register_buffer(f"{name}_factors", swizzle_expert_scales(factors))
            scale = torch.cat([one.weight_scale for one in all_of])
            scale = scale / inputs[place] if calibrated else scale
            if not (scale.is_meta or scale.isfinite().all()):
                raise ValueError(
                    f"{name}'s weight_scale and the experts' input_scale give {scale.tolist()}; expected finite numbers"
                )
            self.register_buffer(f"{name}_scale", scale)
            of_name = [one[place] for one in biases]
            without = [number for number, one in enumerate(of_name) if one is None]
            if 0 < len(without) < len(of_name):
                raise ValueError(f"experts.{without[0]}.{name} has no bias; expected one, as other experts have")
            self.register_buffer(f"{name}_bias", None if without else torch.stack(of_name))

    @classmethod
    def load(
        cls,
        source: Source,
        prefix: str,
        top_k: int | None = None,
        *,
        ignore: Iterable[str] = (),
        weights: str = STACKED,
        **options: object,
    ) -> Self:
        """From a checkpoint, as GatedMLP.load(): the router is PREFIX + "gate.weight", the experts are PREFIX +
        "experts.0.gate_proj" and so on, or all in PREFIX + "experts.gate_up_proj" and "experts.down_proj", whose last
        two dimensions may be transposed.  An expert that all tokens share is not a part of this module; it can be a
        GatedMLP, and ignore="shared_expert" leaves it out here.  top_k: None for config.json's.

        For ids of another router, ignore= takes the names of what this module's router cannot honour, such as
        ("scoring_func", "gate.e_score_correction_bias").
        """
        options = Config(source, prefix, ignore).of_mixture({"top_k": top_k, **options})
        tensors = Tensors(source, prefix, ignore)
        router = tensors.read("gate.weight")
        tensors.split_experts("experts.", *router.shape)
        inputs = takes_input_scale(**options)
        experts = [tensors.projections(f"experts.{number}.", inputs, weights) for number in range(router.shape[0])]
        biases = [tensors.biases(f"experts.{number}.", weights) for number in range(router.shape[0])]
        tensors.refuse_others()
        return cls(router, experts, biases=biases, **options)

    @classmethod
    def random(
        cls,
        hidden: int,
        intermediate: int,
        experts: int,
        top_k: int,
        device: torch.device | str | None = None,
        **options: object,
    ) -> Self:
        """Random weights, for inputs of the normal distribution.  Raises ValueError for odd widths, and for
        numbers of experts that do not fit.
        """
        linears = [random_layer(hidden, intermediate, device) for _ in range(experts)]
        router = torch.randn(experts, hidden, device=device, dtype=torch.float32) * hidden**-0.5
        return cls(router, linears, top_k, **options)

    def expert(self, number: int) -> GatedMLP:
        """One of the experts as a module of its own, with the scale that all share for their input."""
        linears = []
        for name in PROJECTIONS:
            codes, factors = (getattr(self, f"{name}_{field}")[number] for field in ("codes", "factors"))
            factors = linear_scales(factors, codes.shape[0], codes.shape[1] * 2 // GROUP)
            if name != "down_proj":
                codes, factors = codes[:, : self.hidden // 2], factors[:, : -(-self.hidden // GROUP)]
            scale, inputs = getattr(self, f"{name}_scale")[number : number + 1], self.input_scale
            if inputs is not None:
                inputs = self.between_scale[number : number + 1] if name == "down_proj" else inputs
                scale = scale * inputs
            linears.append(QuantizedLinear(codes, factors, scale, inputs))
        of_all = [getattr(self, f"{name}_bias") for name in PROJECTIONS]
        biases = [None if one is None else one[number] for one in of_all]
        how = {"quantize": self.quantize, "scale": self.scale}
        return GatedMLP(*linears, biases=biases, **how, **self._activation())

    def _activation(self) -> dict[str, float | str]:
        return {"activation": self.activation, "limit": self.limit, "alpha": self.alpha, "beta": self.beta}

    def extra_repr(self) -> str:
        return (
            f"hidden={self.hidden}, intermediate={self.intermediate}, experts={len(self.router)}, scale={self.scale!r}"
        )

    def errors(self, x: torch.Tensor) -> Errors:
        """As GatedMLP.errors(), the larger ones of its experts, each with the tokens that choose it."""
        self._rows(x, self.hidden)
        x = x.reshape(-1, self.hidden)
        if x.shape[0] == 0:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected at least one row")
        _, chosen = self.route(x)
        used = [number for number in range(self.router.shape[0]) if (chosen == number).any()]
        found = [self.expert(number).errors(x[(chosen == number).any(-1)]) for number in used]
        return Errors(max(one.format for one in found), max(one.kernel for one in found))

    def _placed(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Counts, rows, tokens and weights by the router, of x (M, hidden)."""
        return route_logits(x.to(self.router.dtype) @ self.router.T, self.top_k, normalize=self.normalize)

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights (M, top_k) float32 and numbers (M, top_k) of each token's experts."""
        counts, rows, _, weights = self._placed(x)
        return weights, torch.searchsorted(counts.cumsum(0), rows.long(), right=True)

    def forward(
        self, x: torch.Tensor, ids: torch.Tensor | None = None, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(..., hidden) -> (..., hidden).

        ids (..., choices), int32 or int64: each token's experts by another router than this module's, any other number
        for none; weights (..., choices): their weights, None for ones.
        """
        rows, dtype = self._rows(x, self.hidden)
        if ids is None:
            if weights is not None:
                raise ValueError("weights are given without ids; expected both, or none for this module's router")
            *placed, weights = self._placed(x.detach().reshape(-1, self.hidden))
        else:
            for name, one in (("ids", ids), ("weights", ids if weights is None else weights)):
                if one.shape[:-1] != x.shape[:-1] or one.shape != ids.shape:
                    raise ValueError(
                        f"{name} has shape {tuple(one.shape)}; expected {(*x.shape[:-1], ids.shape[-1])}, as x and ids"
                    )
            choices = ids.shape[-1]
            placed = route_ids(ids.reshape(-1, choices), self.router.shape[0])
            weights = None if weights is None else weights.detach().reshape(-1, choices)
        of = Experts(
            self.gate_proj_codes, self.gate_proj_factors, self.gate_proj_scale, self.down_proj_codes,
            self.down_proj_factors, self.down_proj_scale, self.input_scale, self.between_scale, self.up_proj_codes,
            self.up_proj_factors, self.up_proj_scale, gate_bias=self.gate_proj_bias, up_bias=self.up_proj_bias,
            down_bias=self.down_proj_bias,
        )  # fmt: skip
        found = run_experts(rows, of, placed, weights, dtype, self.quantize, **self._activation())
        return self._with_shape_of(x, found)
