"""FlashInfer's quantisation to NVFP4: the authors' kernel without their Python binding; the launch is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from simulator.validation.third_party.cuda.libraries import Trial
from simulator.validation.third_party.cuda.libraries import run as run_library
from simulator.validation.third_party.cuda.wrappers import WRAPPER
from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import Case, in_a_child
from simulator.validation.third_party.third_party_sources import SOURCE_WHEELS, Sources

PACKAGE, FILE = "flashinfer-python", "fp4_kv_quantization.cu"
GROUP, THREADS = 16, 128  # elements of a scale factor; threads of a row
BINDING, BINDING_HEADER = "\nvoid nvfp4_kv_quant(", '#include "tvm_ffi_utils.h"'
ROWS, WIDTH = 64, 2080  # three rounds of a row's threads, the last with 4 of them
LAUNCH = f"nvfp4_quant_kernel<half, {THREADS}, 16><<<m, {THREADS}>>>((const half *)d[0], (const float *)d[1], "
LAUNCH += "(uint8_t *)d[2], (uint8_t *)d[2] + m * k / 2, m, k)"
TRIAL = Trial(PACKAGE, FILE, "100a", LAUNCH, "", (ROWS, 1, WIDTH), "fp16 to NVFP4, cvt.e2m1x2", "nvfp4_quant_kernel")
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def inputs() -> tuple[list[np.ndarray], np.ndarray, float, str]:
    """Numbers that NVFP4 represents exactly, and their bytes: e2m1 in pairs, then e4m3 scales."""
    rng = np.random.default_rng(5)
    codes = rng.integers(1, 8, (ROWS, WIDTH // GROUP, GROUP))
    codes[..., 0] = 7  # the largest of a group, which determines its scale factor
    negative = rng.integers(0, 2, codes.shape)
    scales = rng.integers(0x30, 0x50, codes.shape[:2])  # 0.5 to 30
    value = E2M1[codes] * ((1 + (scales & 7) / 8) * 2.0 ** ((scales >> 3) - 7))[..., None]
    numbers = np.where(negative, -value, value).astype(np.float16)
    nibbles = (codes | negative << 3).reshape(-1, 2)
    want = np.concatenate([nibbles[:, 0] | nibbles[:, 1] << 4, scales.ravel()]).astype(np.float64)
    return [numbers, np.ones(1, np.float32), np.zeros(want.size, np.uint8)], want, 0.0, "uint8"


def cases() -> Iterator[Case]:
    def prepare(sources: Sources) -> Callable[[str], dict]:
        text = (sources.unpacked(PACKAGE) / "flashinfer/data/csrc" / FILE).read_text()
        body = text[: text.index(BINDING)].replace(BINDING_HEADER, "")
        source = sources.cache / "wrapped" / f"flashinfer_{FILE}"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(body + WRAPPER.replace("CALL", LAUNCH))
        made = compile_object(source, TRIAL.arch, [], sources.cache, SOURCE_WHEELS[PACKAGE])
        library = link([made], sources.cache / "libraries" / f"flashinfer-{source.stem}.so", shared=True)
        data = inputs()
        return lambda mode: in_a_child(lambda: run_library(library, TRIAL, data, mode))

    yield Case(PACKAGE, TRIAL.name, TRIAL.shows, f"{ROWS} x {WIDTH}", TRIAL.arch, prepare)
