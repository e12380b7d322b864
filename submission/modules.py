"""Layers of a language model in NVFP4, as modules of PyTorch that load a checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch

from .checkpoint import (
    PROJECTIONS,
    QuantizedLinear,
    Source,
    check_width,
    dequantize,
    layer_of,
    padded,
    quantize_linear,
    read_linears,
    tensor_of,
    tensors_of,
)
from .experts_operator import grouped_gated_gemm, grouped_plain_gemm
from .extended_operator import NVFP4, gated_gemm, plain_gemm
from .operators import forward_ad, without_derivative
from .quantize_operator import quantize_nvfp4
from .scale_layouts import LINEAR, SWIZZLED, linear_scales, swizzle_scales

_DTYPES = {torch.float32: torch.bfloat16, torch.float16: torch.float16, torch.bfloat16: torch.bfloat16}
_ALIGNMENT_BYTES = 16  # of the library's tensors
_K_MULTIPLE = 64  # calls copy nothing where K is a multiple of it


class Errors(NamedTuple):
    """Relative errors (2-norms) of a layer's output."""

    format: float  # of quantizing activations: NVFP4 against unquantized ones, both in float64 with the same weights
    kernel: float  # of the kernels, the larger of the two products: against float64 of the same codes


def _relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return ((found.double() - wanted).norm() / wanted.norm()).item()


def _align_buffers(layer: torch.nn.Module, _: object) -> None:
    """Copies what load_state_dict(assign=True) took from a file's memory: the library needs 16 bytes."""
    for name, buffer in layer.named_buffers(recurse=False):
        if type(buffer) is torch.Tensor and buffer.data_ptr() % _ALIGNMENT_BYTES:
            setattr(layer, name, buffer.clone())


class _Layer(torch.nn.Module):
    """What both modules share: weights that keep their formats, and checks of x."""

    hidden: int
    intermediate: int

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_align_buffers)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Moves buffers and does not cast them: codes, scale factors and scales have formats of their own."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(move, recurse)

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}, intermediate={self.intermediate}"

    def _rows(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """x as rows of consecutive numbers, and the output's dtype."""
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"x is {x!r:.40}; expected a torch.Tensor")
        if x.dtype not in _DTYPES:
            raise TypeError(f"x has dtype {x.dtype}; expected {' or '.join(map(str, _DTYPES))}")
        if x.dim() == 0 or x.shape[-1] != self.hidden:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (..., {self.hidden})")
        rows = x.detach().reshape(-1, self.hidden)
        return rows if rows.stride(1) == 1 else rows.contiguous(), _DTYPES[x.dtype]

    @staticmethod
    def _with_shape_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """A result's rows with x's shape."""
        y = y.view(x.shape)
        return without_derivative(y, x=x) if x.requires_grad or forward_ad._current_level >= 0 else y


def _in_blocks(factors: torch.Tensor) -> torch.Tensor:
    """Linear scale factors as "swizzled128x4" in two dimensions."""
    view = swizzle_scales(factors)
    return view.permute(2, 4, 0, 1, 3).reshape(-1, 4 * view.shape[4])


def _numbers(codes: torch.Tensor, factors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """What codes with factors in "swizzled128x4", quantized with that scale, stand for."""
    return dequantize(codes, linear_scales(factors, codes.shape[0], codes.shape[1] // 8), 1 / scale)


def _padded_layer(linears: Sequence[QuantizedLinear], name: str = "") -> tuple[QuantizedLinear, ...]:
    """Gate, up and down, checked, with an intermediate width that is no multiple of 64 padded with zeros."""
    gate, up, down = layer_of(*linears, name)
    more = -gate.codes.shape[0] % _K_MULTIPLE
    return padded(gate, rows=more), padded(up, rows=more), padded(down, k=more)


def _random_layer(hidden: int, intermediate: int, device: torch.device | str | None) -> list[QuantizedLinear]:
    """Gate, up and down for inputs of the normal distribution."""
    check_width("hidden", hidden)
    check_width("intermediate", intermediate)
    shapes = ((intermediate, hidden), (intermediate, hidden), (hidden, intermediate))
    weights = (torch.randn(shape, device=device, dtype=torch.float32) * shape[1] ** -0.5 for shape in shapes)
    return [quantize_linear(one, most) for one, most in zip(weights, (6, 6, 16), strict=True)]


class GatedMLP(_Layer):
    """down(swish(gate(x)) * up(x)), hidden -> intermediate -> hidden, with NVFP4 weights; widths are multiples of 16,
    hidden fastest of 64.

    x (..., hidden) in float32, float16 or bfloat16; returns (..., hidden) in x's dtype, bfloat16 for float32.  With
    16-bit activations (quantize=False; CPU and Hopper), x is not quantized, nor is what lies between the products.
    Casts such as .to(torch.bfloat16) move the buffers and leave their formats.  Derivatives are refused.  torch.export
    takes a dynamic number of rows up to 128, or one from 129 on, since scale factors lie in blocks of 128 rows; without
    quantization any.
    """

    def __init__(
        self,
        gate: QuantizedLinear,
        up: QuantizedLinear,
        down: QuantizedLinear,
        *,
        quantize: bool = True,
        limit: float = 0.0,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """limit, alpha, beta: gated_gemm()'s.  Where gate and up differ in the scale of their input, both take the
        smaller one.  Raises ValueError, naming the projection, if one has another shape or format.
        """
        super().__init__()
        layer = _padded_layer((gate, up, down))
        self.intermediate, self.hidden = gate.codes.shape[0], 2 * gate.codes.shape[1]
        self.quantize, self.limit, self.alpha, self.beta = quantize, limit, alpha, beta
        for name, linear in zip(PROJECTIONS, layer, strict=True):
            # As the GPU kernels read them: a call need not permute its weights' factors.
            held = linear._replace(factors=_in_blocks(linear.factors))
            for field, value in (*held._asdict().items(), ("product_scale", linear.product_scale)):
                self.register_buffer(f"{name}_{field}", value)

    @classmethod
    def load(cls, source: Source, prefix: str = "", **options: object) -> Self:
        """From a checkpoint: a mapping of tensors, a safetensors file or a model's folder; `prefix` such as
        "model.layers.0.mlp.".  Takes the names of compressed-tensors and of ModelOpt, and w1, w3, w2 for gate_proj,
        up_proj, down_proj.  A checkpoint without scales of inputs needs quantize=False.  options: those of GatedMLP().

        Raises KeyError if a tensor is missing, ValueError if one has another format or no known meaning (such as a
        bias), and ImportError if the source is a file and the package safetensors is not installed.
        """
        tensors = tensors_of(source, prefix)
        inputs = bool(options.get("quantize", True))
        return cls(*read_linears(tensors, prefix, inputs), **options)

    @classmethod
    def random(
        cls, hidden: int, intermediate: int, device: torch.device | str | None = None, **options: object
    ) -> Self:
        """Random weights, for inputs of the normal distribution.  Raises ValueError for widths that are no multiples of
        16.
        """
        return cls(*_random_layer(hidden, intermediate, device), **options)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, quantize={self.quantize}"

    def linear(self, name: str) -> QuantizedLinear:
        """The layer "gate_proj", "up_proj" or "down_proj", with what pads an intermediate width to a multiple of 64."""
        held = QuantizedLinear(*(getattr(self, f"{name}_{field}") for field in QuantizedLinear._fields))
        rows, half_k = held.codes.shape
        return held._replace(factors=linear_scales(held.factors, rows, half_k // 8))

    def _gated(self, x: torch.Tensor, factors: torch.Tensor | None, **output: object) -> torch.Tensor | tuple:
        """The first product, of codes and their factors, or of 16-bit numbers."""
        kind = "weight_scale" if factors is None else "product_scale"
        return gated_gemm(
            x, self.gate_proj_codes, self.up_proj_codes, factors, self.gate_proj_factors, self.up_proj_factors,
            scale_gate=getattr(self, f"gate_proj_{kind}"), scale_up=getattr(self, f"up_proj_{kind}"), limit=self.limit,
            alpha=self.alpha, beta=self.beta, scale_layout=SWIZZLED, **output,
        )  # fmt: skip

    def _down(self, x: torch.Tensor, factors: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        scale = self.down_proj_weight_scale if factors is None else self.down_proj_product_scale
        return plain_gemm(
            x,
            self.down_proj_codes,
            factors,
            self.down_proj_factors,
            scale=scale,
            out_dtype=dtype,
            scale_layout=SWIZZLED,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> (..., hidden)."""
        rows, dtype = self._rows(x)
        if self.quantize:
            codes, factors = quantize_nvfp4(rows, self.gate_proj_input_scale, scale_layout=SWIZZLED)
            between = self._gated(codes, factors, out_dtype=NVFP4, scale_c=self.down_proj_input_scale)
        else:
            between = self._gated(rows.to(dtype).contiguous(), None, out_dtype=dtype), None
        return self._with_shape_of(x, self._down(*between, dtype))

    def weight(self, name: str) -> torch.Tensor:
        """The matrix of "gate_proj", "up_proj" or "down_proj" in float64."""
        return dequantize(*self.linear(name)[:3])

    def _between(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x @ self.weight("gate_proj").T, x @ self.weight("up_proj").T
        if self.limit:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return gate * torch.sigmoid(self.alpha * gate) * (up + self.beta)

    def errors(self, x: torch.Tensor) -> Errors:
        """How far quantizing the activations (..., hidden), at least one row, takes the output, and the kernels; both
        matter apart.
        """
        x, dtype = self._rows(x)
        if x.shape[0] == 0:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected at least one row")
        down = self.weight("down_proj")
        if not self.quantize:
            x = x.to(dtype).contiguous()
            between = self._gated(x, None, out_dtype=x.dtype)
            products = (between, self._between(x.double())), (self(x), between.double() @ down.T)
            return Errors(0.0, max(_relative(*one) for one in products))
        codes, factors = quantize_nvfp4(x, self.gate_proj_input_scale, scale_layout=SWIZZLED)
        kept = _numbers(codes, factors, self.gate_proj_input_scale)
        of_between = self._gated(codes, factors, out_dtype=NVFP4, scale_c=self.down_proj_input_scale)
        same_codes = _numbers(*of_between, self.down_proj_input_scale) @ down.T
        first = _relative(self._gated(codes, factors, out_dtype=torch.bfloat16), self._between(kept))
        of_format = _relative(same_codes, self._between(x.double()) @ down.T)
        return Errors(of_format, max(first, _relative(self(x), same_codes)))


class MoE(_Layer):
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
        normalize: bool = True,
        limit: float = 0.0,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """router (E, hidden): a float matrix.  experts: gate, up and down of each.  normalize: the weights of a token's
        experts add up to 1, else the softmax over all experts gives them.  limit, alpha, beta: gated_gemm()'s.
        """
        super().__init__()
        if not 1 <= top_k <= len(experts) or router.shape[:1] != (len(experts),):
            raise ValueError(
                f"top_k is {top_k} and router has shape {tuple(router.shape)}, with {len(experts)} experts; expected 1 "
                "to that many, and a row for each"
            )
        layers = [_padded_layer(one, f"experts.{number}.") for number, one in enumerate(experts)]
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
        self.top_k, self.normalize, self.limit, self.alpha, self.beta = top_k, normalize, limit, alpha, beta
        self.register_buffer("router", router.clone())
        # A token is quantized once for all its experts, so that none saturates that one of them would not.
        shared = torch.stack([one[0].input_scale for one in layers]).amin(0)
        self.register_buffer("input_scale", shared)
        for place, name in enumerate(PROJECTIONS):
            all_of = [one[place] for one in layers]
            self.register_buffer(f"{name}_codes", torch.stack([one.codes for one in all_of]))
            self.register_buffer(f"{name}_factors", torch.stack([one.factors for one in all_of]))
            weight = torch.cat([one.weight_scale for one in all_of])
            inputs = torch.cat([one.input_scale for one in all_of]) if name == "down_proj" else shared
            self.register_buffer(f"{name}_scale", weight / inputs)
        self.register_buffer("between_scale", torch.cat([one[2].input_scale for one in layers]))

    @classmethod
    def load(cls, source: Source, prefix: str, top_k: int, **options: object) -> Self:
        """From a checkpoint, as GatedMLP.load(): the router is PREFIX + "gate.weight", the experts are PREFIX +
        "experts.0.gate_proj" and so on.  An expert that all tokens share is not a part of this module; it can be a
        GatedMLP.
        """
        tensors = tensors_of(source, prefix)
        router = tensor_of(tensors, f"{prefix}gate.weight")
        others = sorted({name for name in tensors if name.startswith(f"{prefix}gate.")} - {f"{prefix}gate.weight"})
        if others:
            raise ValueError(
                f"{others[0]} is there, which the router would leave out; expected only {prefix}gate.weight"
            )
        experts = [read_linears(tensors, f"{prefix}experts.{number}.") for number in range(router.shape[0])]
        return cls(router, experts, top_k, **options)

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
        """Random weights, for inputs of the normal distribution.  Raises ValueError for widths that are no multiples of
        16, and for numbers of experts that do not fit.
        """
        linears = [_random_layer(hidden, intermediate, device) for _ in range(experts)]
        router = torch.randn(experts, hidden, device=device, dtype=torch.float32) * hidden**-0.5
        return cls(router, linears, top_k, **options)

    def expert(self, number: int) -> GatedMLP:
        """One of the experts as a module of its own, with the scale that all share for their input."""
        linears = []
        for name in PROJECTIONS:
            codes, factors = (getattr(self, f"{name}_{field}")[number] for field in ("codes", "factors"))
            inputs = self.between_scale[number : number + 1] if name == "down_proj" else self.input_scale
            scale = getattr(self, f"{name}_scale")[number : number + 1] * inputs
            linears.append(QuantizedLinear(codes, factors, scale, inputs))
        return GatedMLP(*linears, limit=self.limit, alpha=self.alpha, beta=self.beta)

    def errors(self, x: torch.Tensor) -> Errors:
        """As GatedMLP.errors(), the larger ones of its experts, each with the tokens that choose it."""
        x, _ = self._rows(x)
        if x.shape[0] == 0:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected at least one row")
        _, chosen = self.route(x)
        used = [number for number in range(self.router.shape[0]) if (chosen == number).any()]
        found = [self.expert(number).errors(x[(chosen == number).any(-1)]) for number in used]
        return Errors(max(one.format for one in found), max(one.kernel for one in found))

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights (M, top_k) float32 and numbers (M, top_k) of each token's experts."""
        scores = torch.softmax(x.to(self.router.dtype) @ self.router.T, -1, dtype=torch.float32)
        weights, chosen = torch.topk(scores, self.top_k)
        return (weights / weights.sum(-1, keepdim=True) if self.normalize else weights), chosen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> (..., hidden)."""
        rows, dtype = self._rows(x)
        codes, factors = quantize_nvfp4(rows, self.input_scale)
        weights, chosen = self.route(rows)
        order = torch.argsort(chosen.flatten(), stable=True)  # each expert's tokens in a row
        tokens = order // self.top_k
        counts = torch.zeros(self.router.shape[0], dtype=torch.int32, device=x.device)
        counts.scatter_add_(0, chosen.flatten(), torch.ones_like(chosen.flatten(), dtype=torch.int32))
        factors = factors.view(torch.uint8)[tokens]
        between = grouped_gated_gemm(
            codes[tokens], self.gate_proj_codes, self.up_proj_codes, factors, self.gate_proj_factors,
            self.up_proj_factors, counts=counts, scale_gate=self.gate_proj_scale, scale_up=self.up_proj_scale,
            scale_c=self.between_scale, out_dtype=NVFP4, limit=self.limit, alpha=self.alpha, beta=self.beta,
            scale_layout=LINEAR,
        )  # fmt: skip
        found = grouped_plain_gemm(
            between[0], self.down_proj_codes, between[1], self.down_proj_factors, counts=counts,
            scale=self.down_proj_scale, token_scale=weights.flatten()[order].contiguous(), out_dtype=dtype,
            scale_layout=LINEAR,
        )  # fmt: skip
        by_token = torch.empty_like(found)
        by_token[order] = found
        return self._with_shape_of(x, by_token.view(-1, self.top_k, x.shape[-1]).sum(1, dtype=torch.float32).to(dtype))
