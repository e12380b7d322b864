"""A mixture of experts, each a gated MLP with NVFP4 weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch

from ..operators import OF_GATE, SILU, STACKED, activation_of
from ..routing_operator import route_ids, route_logits
from .checkpoint import Source, Tensors
from .config import Config
from .experts import Experts
from .gated_mlp import GatedMLP, random_layer
from .layer import Errors, Layer
from .weights import CALIBRATED, QuantizedLinear, takes_input_scale


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
        if not 1 <= top_k <= len(experts) or router.shape[:1] != (len(experts),):
            raise ValueError(
                f"top_k is {top_k} and router has shape {tuple(router.shape)}, with {len(experts)} experts; expected 1 "
                "to that many, and a row for each"
            )
        activation_of(activation, OF_GATE)
        how = {"activation": activation, "limit": limit, "alpha": alpha, "beta": beta}
        self.experts = Experts(experts, biases, activation=how, quantize=quantize, scale=scale)
        self.intermediate, self.hidden = self.experts.intermediate, self.experts.hidden
        if router.shape[1:] != (self.hidden,) or not router.is_floating_point() or router.dtype.itemsize not in (2, 4):
            raise ValueError(
                f"router has dtype {router.dtype} and shape {tuple(router.shape)}; expected floating-point "
                f"{(len(experts), self.hidden)} of 16 or 32 bits"
            )
        self.top_k, self.normalize = top_k, normalize
        self.register_buffer("router", router.detach().clone())

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
        if router.dim() != 2:
            raise ValueError(f"{tensors.shown('gate.weight')} has shape {tuple(router.shape)}; expected (E, hidden)")
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
        weights, biases = zip(*self.experts.expert(number).values(), strict=True)
        how = {"quantize": self.experts.quantize, "scale": self.experts.scale, **self.experts.activation}
        return GatedMLP(*weights, biases=biases, **how)

    def extra_repr(self) -> str:
        shape = f"hidden={self.hidden}, intermediate={self.intermediate}, experts={len(self.router)}"
        return f"{shape}, scale={self.experts.scale!r}"

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
        given = weights
        if ids is None:
            if weights is not None:
                raise ValueError("weights are given without ids; expected both, or none for this module's router")
            *placed, weights = self._placed(x.detach().reshape(-1, self.hidden))
        else:
            for name, one in (("ids", ids), ("weights", ids if weights is None else weights)):
                if not isinstance(one, torch.Tensor):
                    raise TypeError(f"{name} is {one!r:.40}; expected a torch.Tensor")
                choices = ids.shape[-1] if ids.dim() > 0 else 1
                wanted = (*x.shape[:-1], max(choices, 1))
                if one.shape != wanted:
                    raise ValueError(f"{name} has shape {tuple(one.shape)}; expected {wanted}, as x and ids")
            placed = route_ids(ids.reshape(-1, choices), self.router.shape[0])
            weights = None if weights is None else weights.detach().reshape(-1, choices)
        return self._with_shape_of(x, self.experts(rows, placed, weights, dtype), weights=given)
