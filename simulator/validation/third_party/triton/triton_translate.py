"""Compiles the kernels of triton_kernels.py to PTX without a GPU: `python triton_translate.py FOLDER`, where triton is.

Each variant gives NAME.ptx and NAME.json (what its launch needs), or NAME.json with Triton's reason against it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import triton
import triton_kernels
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_variants import variants


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for variant in variants():
        kernel = getattr(triton_kernels, variant.kernel)
        free = [name for name in kernel.arg_names if name not in variant.constants]
        signature = dict(zip(free, variant.types.split(), strict=True)) | dict.fromkeys(variant.constants, "constexpr")
        signature = {name: signature[name] for name in kernel.arg_names}
        constants = {(kernel.arg_names.index(name),): value for name, value in variant.constants.items()}
        # Pointers and sizes are multiples of 16, which is what a launch would find out.
        divisible = {(kernel.arg_names.index(n),): [["tt.divisibility", 16]] for n in free if signature[n] != "fp32"}
        for chip in variant.chips:
            target = folder / variant.name(chip)
            options = {"num_warps": variant.warps, "num_stages": variant.stages, "num_ctas": variant.ctas}
            try:
                source = ASTSource(kernel, signature, constants, divisible)
                done = triton.compile(source, target=GPUTarget("cuda", chip, 32), options=options)
            except Exception as error:  # any: a compiler's own faults are many, and each is a row of the table
                reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
                target.with_suffix(".json").write_text(json.dumps({"refused": reason}))
                print(target.name, reason, flush=True)
                continue
            metadata = done.metadata
            launch = {
                "entry": metadata.name,
                "shared": metadata.shared,
                "threads": 32 * metadata.num_warps,
                "ctas": metadata.num_ctas,
                "scratch": metadata.global_scratch_size,
            }
            target.with_suffix(".ptx").write_text(done.asm["ptx"])
            target.with_suffix(".json").write_text(json.dumps(launch))
            print(target.name, launch, flush=True)


if __name__ == "__main__":
    main()
