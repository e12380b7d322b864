"""NVFP4 checkpoints in transformers, on CUDA GPUs and CPUs.

    import nvfp4_gemm.models.huggingface
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("a folder", dtype="auto").to("cuda")

After the import, from_pretrained() takes checkpoints of ModelOpt and of compressed-tensors (nvfp4-pack-quantized), and
with quantization_config=Nvfp4GemmConfig() it quantizes a 16-bit model.  Linear layers become this package's Linear;
gate and up of an MLP become one product; experts go through transformers' interface for experts.  FP8 layers are
dequantized to the model's dtype, float layers stay.  What the package cannot compute is refused by name.
save_pretrained() writes the names of compressed-tensors.  A folder in which neither config.json nor ModelOpt's
hf_quant_config.json speaks of quantization needs quantization_config=Nvfp4GemmConfig() too.

Needs transformers 5.24 or later: pip install nvfp4-gemm[transformers].
"""

from __future__ import annotations

from typing import Any

from transformers.quantizers import auto

from . import modelopt_file
from .config import QUANT_METHOD, Nvfp4GemmConfig, has_nvfp4
from .quantizer import Nvfp4GemmQuantizer

__all__ = ["Nvfp4GemmConfig"]

_COMPRESSED_TENSORS = "compressed-tensors"
_others = auto.AUTO_QUANTIZATION_CONFIG_MAPPING[_COMPRESSED_TENSORS]


class _CompressedTensors(_others):
    """Reads NVFP4 checkpoints of compressed-tensors for this package; all others stay transformers'."""

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], *args: object, **kwargs: object) -> object:
        """A configuration of this package for NVFP4."""
        reader = Nvfp4GemmConfig if has_nvfp4(config_dict) else _others
        return reader.from_dict(config_dict, *args, **kwargs)


auto.AUTO_QUANTIZER_MAPPING[QUANT_METHOD] = Nvfp4GemmQuantizer
for _method, _configuration in (
    (QUANT_METHOD, Nvfp4GemmConfig),
    ("modelopt", Nvfp4GemmConfig),
    ("modelopt_fp4", Nvfp4GemmConfig),
    (_COMPRESSED_TENSORS, _CompressedTensors),
):
    auto.AUTO_QUANTIZATION_CONFIG_MAPPING[_method] = _configuration
auto.LOADING_ATTRIBUTES_CONFIG_TYPES = (*auto.LOADING_ATTRIBUTES_CONFIG_TYPES, Nvfp4GemmConfig)
modelopt_file.install()
