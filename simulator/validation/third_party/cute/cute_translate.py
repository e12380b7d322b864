"""Compiles CUTLASS's CuTe DSL examples to PTX without a GPU: `python cute_translate.py EXAMPLES FOLDER CHIP`.

EXAMPLES is examples/python/CuTeDSL/cute of a CUTLASS checkout; the environment tells the DSL to keep its PTX in
FOLDER.  Shapes are static, so that tensors are plain addresses or tensor maps in the kernel's parameters.  Each kernel
gives NAME.ptx, or NAME.txt with the DSL's reason against it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream as CUqueue
from cutlass.cute.nvgpu import OperandMajorMode
from cutlass.cute.runtime import make_fake_compact_tensor, make_ptr
from cutlass.runtime import make_fake_stream as make_queue
from cutlass.utils import LayoutEnum

HALF, FLOAT, FP4, FP8 = cutlass.Float16, cutlass.Float32, cutlass.Float4E2M1FN, cutlass.Float8E4M3FN
M, N, K = 256, 128, 256  # the matrix products' sizes; cute_cases.py has the same
NVFP4 = (256, 512)  # rows of a and of b, and k, of block-scaled ones
ROW_MAJOR = (1, 0, 2)  # order of (rows, columns, batch): columns are contiguous


def load(path: Path) -> ModuleType:
    """An example's module, by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def tensor(kind: type, *shape: int, order: tuple[int, ...] | None = None) -> object:
    """A tensor without memory; the last dimension is contiguous unless `order` says otherwise."""
    order = order or tuple(range(len(shape) - 1, -1, -1))
    return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=16)


def matrices(k: int = K) -> list:
    """a, b and c of a product in fp16."""
    return [tensor(HALF, *shape, 1, order=ROW_MAJOR) for shape in ((M, k), (N, k), (M, N))]


def elementwise_add(examples: Path) -> None:
    add = load(examples / "ampere/kernel/elementwise/elementwise_add.py").elementwise_add
    cute.compile(add, *(tensor(FLOAT, 128, 256) for _ in range(3)))


def sgemm(examples: Path) -> None:
    kernel = load(examples / "ampere/kernel/dense_gemm/sgemm.py").SGemm()
    shapes = ((M, 64), (N, 64), (M, N))
    cute.compile(kernel, *(tensor(FLOAT, *shape, order=(0, 1)) for shape in shapes), stream=make_queue())


def tensorop_gemm(examples: Path) -> None:
    kernel = load(examples / "ampere/kernel/dense_gemm/tensorop_gemm.py").TensorOpGemm(HALF, HALF, FLOAT, (2, 2, 1))
    cute.compile(kernel, *matrices(128), make_queue())


def flash_attention_v2(examples: Path) -> None:
    module = load(examples / "ampere/kernel/attention/flash_attention_v2.py")
    kernel = module.FlashAttentionForwardAmpere(64, 64, 64, 128, False)
    cute.compile(kernel, *(tensor(HALF, 1, 128, 1, 64) for _ in range(4)), FLOAT(0.125), make_queue())


def hopper_dense_gemm(examples: Path) -> None:
    kernel = load(examples / "hopper/kernel/dense_gemm/dense_gemm.py").HopperWgmmaGemmKernel(FLOAT, (128, 128), (1, 1))
    cute.compile(kernel, *matrices(), make_queue())


def blackwell_dense_gemm(examples: Path) -> None:
    kernel = load(examples / "blackwell/kernel/dense_gemm/dense_gemm.py").DenseGemmKernel
    cute.compile(kernel(FLOAT, False, (128, 128), (1, 1), True), *matrices(), make_queue())


def blackwell_dense_gemm_pair(examples: Path) -> None:
    kernel = load(examples / "blackwell/kernel/dense_gemm/dense_gemm.py").DenseGemmKernel
    cute.compile(kernel(FLOAT, True, (256, 128), (2, 1), True), *matrices(), make_queue())


def nvfp4_persistent(examples: Path, tile: tuple[int, int], cluster: tuple[int, int], clusters: int) -> None:
    """Sizes are constants of the function that calls it, so that none is a parameter."""
    module = load(examples / "blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent.py")
    kernel = module.Sm100BlockScaledPersistentDenseGemmKernel(16, tile, cluster)
    size, k = NVFP4

    @cute.jit
    def product(
        a: cute.Pointer, b: cute.Pointer, sa: cute.Pointer, sb: cute.Pointer, c: cute.Pointer, queue: CUqueue
    ) -> None:
        layouts = (OperandMajorMode.K, OperandMajorMode.K, LayoutEnum.ROW_MAJOR)
        kernel(a, b, sa, sb, c, layouts, (size, size, k, 1), clusters, queue)

    kinds = ((FP4, 16), (FP4, 16), (FP8, 32), (FP8, 32), (HALF, 16))
    pointers = (make_ptr(kind, 0, cute.AddressSpace.gmem, assumed_align=align) for kind, align in kinds)
    cute.compile(product, *pointers, make_queue())


def blackwell_nvfp4_persistent(examples: Path) -> None:
    nvfp4_persistent(examples, (128, 128), (1, 1), 2)


def blackwell_nvfp4_persistent_pair(examples: Path) -> None:
    nvfp4_persistent(examples, (256, 128), (2, 1), 1)


KERNELS = {
    "sm_90a": (elementwise_add, sgemm, tensorop_gemm, flash_attention_v2, hopper_dense_gemm),
    "sm_100a": (
        blackwell_dense_gemm,
        blackwell_dense_gemm_pair,
        blackwell_nvfp4_persistent,
        blackwell_nvfp4_persistent_pair,
    ),
}


def main() -> None:
    examples, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for kernel in KERNELS[sys.argv[3]]:
        target = folder / f"{kernel.__name__}.ptx"
        if target.exists():
            continue  # translated by a run that was cut off
        before = set(folder.glob("*.ptx"))
        try:
            kernel(examples)
        except Exception as error:  # any: a compiler's own faults are many, and each is a row of the table
            target.with_suffix(".txt").write_text(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            continue
        (set(folder.glob("*.ptx")) - before).pop().rename(target)


if __name__ == "__main__":
    main()
