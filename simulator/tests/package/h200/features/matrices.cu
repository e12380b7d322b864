/* Matrices: wgmma's operand layouts, sizes and sources; ldmatrix, stmatrix, movmatrix; mma.  Operands are small
 * integers, so sums are exact in any order, and the comparison shows which element went where. */
#include "features.cuh"

#include "../../../../../submission/gpu/instructions/wgmma.cuh"
#include "../../../../../submission/gpu/instructions/wgmma_descriptors.h"

/* Two halves of -3..4. */
static __device__ uint32_t small_halves(uint32_t bits) {
    uint32_t halves;
    float low = (float)(int)(bits & 7) - 3, high = (float)(int)(bits >> 8 & 7) - 3;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
    return halves;
}

static __device__ void fill_small(const struct buffers &b, unsigned char *generic) {
    for (uint32_t i = threadIdx.x; i < SHARED_BYTES / 2 / 4; i += blockDim.x) {
        ((uint32_t *)generic)[i] = small_halves(b.in[i]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

/* m64n16k16, both operands from shared memory through descriptors whose upper bits come from the host. */
template <int transpose_a, int transpose_b>
static __global__ void wgmma_shared(struct buffers b, uint64_t a_upper, uint64_t b_upper) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic);
    fill_small(b, generic);
    float d[8] = {};
    uint64_t a = (uint64_t)(shared >> 4 & 0x3fff) | a_upper,
             bd = (uint64_t)((shared + 16384) >> 4 & 0x3fff) | b_upper;
    wgmma_fence();
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, "
                 "1, 1, -1, %10, %11;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
                   "+f"(d[7])
                 : "l"(a), "l"(bd), "n"(transpose_a), "n"(transpose_b));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 8; i++) {
        keep_after_wait(d[i]);
        b.out[i * 128 + threadIdx.x] = __float_as_uint(d[i]);
    }
}

/* A from registers, B 128-byte swizzled, accumulating over four steps. */
template <int n> static __global__ void wgmma_registers(struct buffers b) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic);
    fill_small(b, generic);
    float d[n / 2];
    uint32_t a[4][4];
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < 4; i++) {
            a[step][i] = small_halves(b.in[threadIdx.x * 16 + step * 4 + i]);
        }
    }
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++) {
        wgmma_m64k16<n>::mma_async(d, a[step], wgmma_swizzled_tile_descriptor(shared + step * 32), step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        keep_after_wait(d[i]);
        if (i * 128 + threadIdx.x < OUT_WORDS) {
            b.out[i * 128 + threadIdx.x] = __float_as_uint(d[i]);
        }
    }
}

static __global__ void matrix_moves(struct buffers b) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic), t = threadIdx.x, r[4], at = 0;
    for (uint32_t i = t; i < 4096; i += blockDim.x) {
        ((uint32_t *)generic)[i] = b.in[i];
    }
    __syncthreads();
    uint32_t row = shared + (t * 7 % 32) * 80;
    auto note = [&](int count) {
        for (int i = 0; i < count; i++) {
            b.out[at++ * 32 + t] = r[i];
        }
    };
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
    note(1);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(row)
                 : "memory");
    note(2);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
    note(4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
    note(4);
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[0]) : "r"(b.in[t]));
    note(1);
    __syncwarp();
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared + 8192 + t * 16),
        "r"(b.in[t]), "r"(b.in[64 + t]), "r"(b.in[128 + t]), "r"(b.in[192 + t])
        : "memory");
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared + 12288 + t % 16 * 16),
        "r"(b.in[t]), "r"(b.in[64 + t])
        : "memory");
    dump_shared(b.out + 1024, generic, 8192);
}

static __global__ void mma_steps(struct buffers b) {
    uint32_t t = threadIdx.x, a[4], bb[2];
    float d[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) {
        a[i] = small_halves(b.in[t * 8 + i]);
    }
    for (int i = 0; i < 2; i++) {
        bb[i] = small_halves(b.in[t * 8 + 4 + i]);
    }
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(bb[0]), "r"(bb[1]));
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(bb[0]));
    for (int i = 0; i < 4; i++) {
        b.out[i * 32 + t] = __float_as_uint(d[i]);
    }
}

/* The descriptor's fields but the address: leading and stride byte offsets, base offset, swizzle. */
static uint64_t upper(uint64_t leading, uint64_t stride, uint64_t swizzle) {
    return leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
}

void matrices(void) {
    static const char *const swizzles[] = {"none", "128B", "64B", "32B"};
    static const uint64_t leading[] = {128, 2048, 4096, 1024}, strides[] = {256, 1024, 512, 256};
    char name[64];
    for (uint64_t swizzle = 0; swizzle < 4; swizzle++) {
        uint64_t fields = upper(leading[swizzle], strides[swizzle], swizzle);
        void (*const kernels[])(struct buffers, uint64_t, uint64_t) = {wgmma_shared<0, 0>, wgmma_shared<1, 0>,
                                                                       wgmma_shared<0, 1>, wgmma_shared<1, 1>};
        for (int which = 0; which < 4; which++) {
            snprintf(name, sizeof name, "wgmma.shared.%s.a%d.b%d", swizzles[swizzle], which % 2, which / 2);
            feature(name, kernels[which], 1, 128, 1, fields, fields);
        }
        snprintf(name, sizeof name, "wgmma.shared.%s.strides", swizzles[swizzle]);
        feature(name, wgmma_shared<0, 0>, 1, 128, 1, upper(512, 2048, swizzle), upper(256, 3072, swizzle));
    }
    feature("wgmma.registers.n64", wgmma_registers<64>, 1, 128, 1);
    feature("wgmma.registers.n128", wgmma_registers<128>, 1, 128, 1);
    feature("wgmma.registers.n256", wgmma_registers<256>, 1, 128, 1);
    feature("matrix.moves", matrix_moves, 1, 32, 1);
    feature("mma", mma_steps, 1, 32, 1);
}
