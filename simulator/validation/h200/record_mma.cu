/* Records what a Hopper card's tensor cores and conversions give, for test_recorded_sums.py: reads cases from a
 * file, runs one instruction on each, writes the results.  See record_mma.py, which makes the cases and packs
 * the fixture. nvcc -gencode arch=compute_90a,code=sm_90a -O2 -o record_mma record_mma.cu
 *
 * A case is 64 rows of A and 8 of B, 32 bytes of K each, and 64 x 8 words of C; the result replaces C. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum { ROWS = 64, COLUMNS = 8, BYTES = 32, THREADS = 128 };

struct mma_case {
    uint32_t a[ROWS][BYTES / 4], b[COLUMNS][BYTES / 4], c[ROWS][COLUMNS];
};

__device__ uint64_t descriptor(const void *shared) {
    /* No swizzle: 8-row core matrices of 128 bytes, 128 apart along K, 256 along the rows. */
    uint64_t address = (uint32_t)__cvta_generic_to_shared(shared);
    return (address & 0x3ffff) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
}

__device__ void to_core_matrices(uint32_t (*to)[4], const uint32_t (*from)[BYTES / 4], int rows) {
    for (int i = threadIdx.x; i < rows * 8; i += THREADS) {
        int row = i / 8, word = i % 8;
        to[row / 8 * 16 + word / 4 * 8 + row % 8][word % 4] = from[row][word];
    }
}

#define WGMMA_F32(name, spelling, tail)                                                                        \
    struct name {                                                                                              \
        static __device__ void run(float *d, uint32_t *, uint64_t a, uint64_t b) {                             \
            asm volatile("wgmma.mma_async.sync.aligned." spelling " {%0, %1, %2, %3}, %4, %5, 1, 1, 1" tail    \
                         ";"                                                                                   \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                      \
                         : "l"(a), "l"(b));                                                                    \
        }                                                                                                      \
    };
#define WGMMA_F16(name, spelling, tail)                                                                        \
    struct name {                                                                                              \
        static __device__ void run(float *, uint32_t *d, uint64_t a, uint64_t b) {                             \
            asm volatile("wgmma.mma_async.sync.aligned." spelling " {%0, %1}, %2, %3, 1, 1, 1" tail ";"        \
                         : "+r"(d[0]), "+r"(d[1])                                                              \
                         : "l"(a), "l"(b));                                                                    \
        }                                                                                                      \
    };
WGMMA_F32(wgmma_f16, "m64n8k16.f32.f16.f16", ", 0, 0")
WGMMA_F32(wgmma_bf16, "m64n8k16.f32.bf16.bf16", ", 0, 0")
WGMMA_F32(wgmma_tf32, "m64n8k8.f32.tf32.tf32", "")
WGMMA_F32(wgmma_e4m3, "m64n8k32.f32.e4m3.e4m3", "")
WGMMA_F32(wgmma_e4m3_e5m2, "m64n8k32.f32.e4m3.e5m2", "")
WGMMA_F16(wgmma_f16_f16, "m64n8k16.f16.f16.f16", ", 0, 0")
WGMMA_F16(wgmma_e5m2_f16, "m64n8k32.f16.e5m2.e4m3", "")

template <typename Instruction, bool half> __global__ void run_wgmma(mma_case *cases) {
    __shared__ __align__(128) uint32_t a[ROWS * 2][4], b[COLUMNS * 2][4];
    mma_case *c = &cases[blockIdx.x];
    to_core_matrices(a, c->a, ROWS);
    to_core_matrices(b, c->b, COLUMNS);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    float d[4];
    uint32_t h[2];
    for (int i = 0; i < 4; i++) {
        d[i] = __uint_as_float(c->c[row + i / 2 * 8][column + i % 2]);
    }
    for (int i = 0; i < 2; i++) {
        h[i] = (c->c[row + i * 8][column] & 0xffff) | c->c[row + i * 8][column + 1] << 16;
    }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    Instruction::run(d, h, descriptor(a), descriptor(b));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) {
        c->c[row + i / 2 * 8][column + i % 2] =
            half ? h[i / 2] >> (16 * (i % 2)) & 0xffff : __float_as_uint(d[i]);
    }
}

#define MMA_SYNC(name, spelling)                                                                               \
    struct name {                                                                                              \
        static __device__ void run(float *d, const uint32_t *a, const uint32_t *b) {                           \
            asm volatile("mma.sync.aligned." spelling                                                          \
                         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                      \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                  \
        }                                                                                                      \
    };
MMA_SYNC(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_SYNC(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_SYNC(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_SYNC(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e5m2.f32")

template <typename Instruction> __global__ void run_mma(mma_case *cases) {
    mma_case *c = &cases[blockIdx.x];
    int group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4, row = threadIdx.x / 32 * 16 + group;
    uint32_t a[4], b[2];
    float d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = c->a[row + i % 2 * 8][thread + i / 2 * 4];
        d[i] = __uint_as_float(c->c[row + i / 2 * 8][thread * 2 + i % 2]);
    }
    for (int i = 0; i < 2; i++) {
        b[i] = c->b[group][thread + i * 4];
    }
    Instruction::run(d, a, b);
    for (int i = 0; i < 4; i++) {
        c->c[row + i / 2 * 8][thread * 2 + i % 2] = __float_as_uint(d[i]);
    }
}

/* One column a conversion, in the order of record.py's CONVERSIONS. */
enum { CONVERSIONS = 15 };
__global__ void run_cvt(const float *x, uint32_t *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = 0;
    if (i >= count) {
        return;
    }
    uint32_t *to = out + (size_t)i * CONVERSIONS;
#define HALF(spelling)                                                                                         \
    {                                                                                                          \
        uint16_t h;                                                                                            \
        asm("cvt." spelling " %0, %1;" : "=h"(h) : "f"(x[i]));                                                 \
        to[n++] = h;                                                                                           \
    }
#define PAIR(spelling)                                                                                         \
    {                                                                                                          \
        uint16_t h;                                                                                            \
        asm("cvt." spelling " %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x[i]));                                  \
        to[n++] = h & 0xff;                                                                                    \
    }
#define WORD(spelling)                                                                                         \
    {                                                                                                          \
        uint32_t w;                                                                                            \
        asm("cvt." spelling " %0, %1;" : "=r"(w) : "f"(x[i]));                                                 \
        to[n++] = w;                                                                                           \
    }
    HALF("rn.f16.f32")
    HALF("rz.f16.f32")
    HALF("rn.relu.f16.f32")
    HALF("rn.satfinite.f16.f32")
    HALF("rn.bf16.f32")
    HALF("rz.bf16.f32")
    HALF("rn.relu.bf16.f32")
    HALF("rn.satfinite.bf16.f32")
    WORD("rna.tf32.f32")
    WORD("rn.tf32.f32")
    WORD("rz.relu.tf32.f32")
    PAIR("rn.satfinite.e4m3x2.f32")
    PAIR("rn.satfinite.relu.e4m3x2.f32")
    PAIR("rn.satfinite.e5m2x2.f32")
    PAIR("rn.satfinite.relu.e5m2x2.f32")
}

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(1);
    }
}

/* record_mma CASES RESULTS: CASES holds per instruction a count and its cases, then a count and the floats. */
int main(int argc, char **argv) {
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
    if (!out) {
        fprintf(stderr, "usage: record_mma CASES RESULTS\n");
        return 2;
    }
    void (*const kernels[])(mma_case *) = {
        run_wgmma<wgmma_f16, false>,
        run_wgmma<wgmma_bf16, false>,
        run_wgmma<wgmma_tf32, false>,
        run_wgmma<wgmma_e4m3, false>,
        run_wgmma<wgmma_e4m3_e5m2, false>,
        run_wgmma<wgmma_f16_f16, true>,
        run_wgmma<wgmma_e5m2_f16, true>,
        run_mma<mma_f16>,
        run_mma<mma_bf16>,
        run_mma<mma_tf32>,
        run_mma<mma_e4m3>,
    };
    for (auto kernel : kernels) {
        uint32_t count;
        if (fread(&count, sizeof count, 1, in) != 1) {
            return 3;
        }
        std::vector<mma_case> cases(count);
        if (fread(cases.data(), sizeof(mma_case), count, in) != count) {
            return 3;
        }
        mma_case *device;
        check(cudaMalloc(&device, count * sizeof(mma_case)), "malloc");
        check(cudaMemcpy(device, cases.data(), count * sizeof(mma_case), cudaMemcpyHostToDevice), "copy");
        kernel<<<count, THREADS>>>(device);
        check(cudaMemcpy(cases.data(), device, count * sizeof(mma_case), cudaMemcpyDeviceToHost), "run");
        for (const mma_case &c : cases) {
            fwrite(c.c, sizeof c.c, 1, out);
        }
        cudaFree(device);
    }
    uint32_t count;
    if (fread(&count, sizeof count, 1, in) != 1) {
        return 3;
    }
    std::vector<float> x(count);
    std::vector<uint32_t> codes((size_t)count * CONVERSIONS);
    if (fread(x.data(), sizeof(float), count, in) != count) {
        return 3;
    }
    float *dx;
    uint32_t *dcodes;
    check(cudaMalloc(&dx, count * sizeof(float)), "malloc");
    check(cudaMalloc(&dcodes, codes.size() * sizeof(uint32_t)), "malloc");
    check(cudaMemcpy(dx, x.data(), count * sizeof(float), cudaMemcpyHostToDevice), "copy");
    run_cvt<<<(count + 255) / 256, 256>>>(dx, dcodes, (int)count);
    check(cudaMemcpy(codes.data(), dcodes, codes.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost), "run");
    fwrite(codes.data(), sizeof(uint32_t), codes.size(), out);
    return fclose(out) != 0;
}
