#!/bin/sh
# Prints the path of an nvcc that can compile; if there is none, the reason on standard error.
# Searches NVCC, PATH, CUDA_HOME, /usr/local/cuda, then the nvidia-cuda-nvcc wheel of the Python at hand.
# usage: find_nvcc.sh [PYTHON]
set -u
python=${1:-python3}

candidates() {
    [ -n "${NVCC:-}" ] && echo "$NVCC"
    command -v nvcc
    [ -n "${CUDA_HOME:-}" ] && echo "$CUDA_HOME/bin/nvcc"
    echo /usr/local/cuda/bin/nvcc
    "$python" -c '
import importlib.util, pathlib
spec = importlib.util.find_spec("nvidia")
for folder in spec.submodule_search_locations if spec else []:
    for path in sorted(pathlib.Path(folder).glob("*/bin/nvcc")):
        print(path)' 2>/dev/null
}

reason="no nvcc in PATH, CUDA_HOME or the nvidia-cuda-nvcc wheel"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
printf '#include <cuda.h>\n#include <cuda_runtime.h>\n__global__ void empty(void) {}\n' > "$scratch/probe.cu"
for nvcc in $(candidates); do
    [ -x "$nvcc" ] || continue
    # An nvcc without a host compiler that it knows, or without runtime headers, is useless.
    if "$nvcc" -gencode=arch=compute_90a,code=sm_90a -c -o "$scratch/probe.o" "$scratch/probe.cu" > "$scratch/log" 2>&1; then
        echo "$nvcc"
        exit 0
    fi
    reason="$nvcc cannot compile for sm_90a: $(grep -m1 . "$scratch/log")"
done
echo "$reason" >&2
exit 1
