"""The C++ around third-party host code: the part of torch that it needs, and a function that calls it."""

from __future__ import annotations

# The projects' host code needs only a pointer with sizes from torch.
TORCH_STUB = """#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>
#define TORCH_CHECK(condition, ...) do { if (!(condition)) std::abort(); } while (0)
#define TORCH_LIBRARY(...) static void unused_library(stub_library &m)
struct stub_library { template <class... T> void def(T...) {} template <class... T> void impl(T...) {} };
namespace at {
struct Half;
struct Tensor {
    void *address = nullptr; int64_t sizes[6] = {}, strides[6] = {};
    void *data_ptr() const { return address; }
    template <class T> T *data_ptr() const { return static_cast<T *>(address); }
    int64_t size(int i) const { return sizes[i]; }
    int64_t stride(int i) const { return strides[i]; }
};
}
namespace torch { using at::Tensor; }
"""
ENTRY_HEAD = """
#include <cuda.h>
#include <vector>
extern "C" __attribute__((weak)) CUresult cuGetErrorString(CUresult, const char **text) {
    *text = "an error";
    return CUDA_SUCCESS;
}
"""
# NAME copies the host's buffers to the device as `d`, runs CALL, and copies the last buffer back.
ENTRY = """extern "C" int NAME(void **host, const size_t *bytes, int count, int m, int n, int k) {
    std::vector<void *> d(count);
    for (int i = 0; i < count; i++) {
        if (cudaMalloc(&d[i], bytes[i]) != cudaSuccess) return -1;
        cudaMemcpy(d[i], host[i], bytes[i], cudaMemcpyHostToDevice);
    }
    (void)m; (void)n; (void)k;
    CALL;
    int status = (int)cudaGetLastError();
    cudaMemcpy(host[count - 1], d[count - 1], bytes[count - 1], cudaMemcpyDeviceToHost);
    return status;
}
"""
WRAPPER = ENTRY_HEAD + ENTRY.replace("NAME", "trial")
PREAMBLE_FAST = """#define NDEBUG // as its author builds it
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define cudaCheck(e) do { if ((e) != cudaSuccess) std::fprintf(stderr, "cuda error, line %d\\n", __LINE__); } while (0)
"""
