/* Warpgroup matrix multiply (PTX ISA 9.0, Asynchronous Warpgroup Level Matrix Instructions), A from registers.
 */
#ifndef GPU_WGMMA_CUH
#define GPU_WGMMA_CUH

#include "ptx.cuh"

/* Orders earlier register and shared-memory accesses of the warpgroup before the wgmma that follow. */
PTX void wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

PTX void wgmma_commit_group(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `pending` of this warpgroup's groups are not complete. */
template <int pending> PTX void wgmma_wait_group(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* The first 8, 16, ... registers of d: their places in an instruction's text, and its operands. */
#define WGMMA_TEXT_8   "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_TEXT_16  WGMMA_TEXT_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_TEXT_24  WGMMA_TEXT_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_TEXT_32  WGMMA_TEXT_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_TEXT_40  WGMMA_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_TEXT_48  WGMMA_TEXT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_TEXT_56  WGMMA_TEXT_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_TEXT_64  WGMMA_TEXT_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_TEXT_72  WGMMA_TEXT_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_TEXT_80  WGMMA_TEXT_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_TEXT_88  WGMMA_TEXT_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_TEXT_96  WGMMA_TEXT_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_TEXT_104 WGMMA_TEXT_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_TEXT_112 WGMMA_TEXT_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_TEXT_120 WGMMA_TEXT_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_TEXT_128 WGMMA_TEXT_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_D_8(i)                                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),                \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_D_16(i)  WGMMA_D_8(i), WGMMA_D_8(i + 8)
#define WGMMA_D_24(i)  WGMMA_D_16(i), WGMMA_D_8(i + 16)
#define WGMMA_D_32(i)  WGMMA_D_16(i), WGMMA_D_16(i + 16)
#define WGMMA_D_40(i)  WGMMA_D_32(i), WGMMA_D_8(i + 32)
#define WGMMA_D_48(i)  WGMMA_D_32(i), WGMMA_D_16(i + 32)
#define WGMMA_D_56(i)  WGMMA_D_32(i), WGMMA_D_24(i + 32)
#define WGMMA_D_64(i)  WGMMA_D_32(i), WGMMA_D_32(i + 32)
#define WGMMA_D_72(i)  WGMMA_D_64(i), WGMMA_D_8(i + 64)
#define WGMMA_D_80(i)  WGMMA_D_64(i), WGMMA_D_16(i + 64)
#define WGMMA_D_88(i)  WGMMA_D_64(i), WGMMA_D_24(i + 64)
#define WGMMA_D_96(i)  WGMMA_D_64(i), WGMMA_D_32(i + 64)
#define WGMMA_D_104(i) WGMMA_D_64(i), WGMMA_D_40(i + 64)
#define WGMMA_D_128(i) WGMMA_D_64(i), WGMMA_D_64(i + 64)

/* d = a * B, plus d if `accumulate`, for m64 n k16, fp32 accumulators.  a: this thread's fragment of A; B: in
 * shared memory, K-major.  Executed by a warpgroup; d and a stay in use until wgmma_wait_group is done.  d has
 * n / 2 registers; their number is also the place of a[0], which those of a[1] to accumulate follow. */
#define WGMMA_M64K16(name, type, n, text, operands, registers, a1, a2, a3, descriptor, predicate)              \
    template <> struct name<n> {                                                                               \
        static __device__ __forceinline__ void mma_async(float (&d)[registers], const uint32_t (&a)[4],        \
                                                         uint64_t b, int accumulate) {                         \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #predicate ", 0;\n\t"                        \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" text             \
                         "}, {%" #registers ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #descriptor                   \
                         ", p, 1, 1, 0;\n\t}"                                                                  \
                         : operands(0)                                                                         \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));               \
        }                                                                                                      \
    };

/* fp16 and bf16 operands. */
template <int n> struct wgmma_m64k16;
template <int n> struct wgmma_m64k16_bf16;
#define WGMMA_BOTH_TYPES(...)                                                                                  \
    WGMMA_M64K16(wgmma_m64k16, "f16", __VA_ARGS__) WGMMA_M64K16(wgmma_m64k16_bf16, "bf16", __VA_ARGS__)
WGMMA_BOTH_TYPES(16, WGMMA_TEXT_8, WGMMA_D_8, 8, 9, 10, 11, 12, 13)
WGMMA_BOTH_TYPES(32, WGMMA_TEXT_16, WGMMA_D_16, 16, 17, 18, 19, 20, 21)
WGMMA_BOTH_TYPES(48, WGMMA_TEXT_24, WGMMA_D_24, 24, 25, 26, 27, 28, 29)
WGMMA_BOTH_TYPES(64, WGMMA_TEXT_32, WGMMA_D_32, 32, 33, 34, 35, 36, 37)
WGMMA_BOTH_TYPES(80, WGMMA_TEXT_40, WGMMA_D_40, 40, 41, 42, 43, 44, 45)
WGMMA_BOTH_TYPES(96, WGMMA_TEXT_48, WGMMA_D_48, 48, 49, 50, 51, 52, 53)
WGMMA_BOTH_TYPES(112, WGMMA_TEXT_56, WGMMA_D_56, 56, 57, 58, 59, 60, 61)
WGMMA_BOTH_TYPES(128, WGMMA_TEXT_64, WGMMA_D_64, 64, 65, 66, 67, 68, 69)
WGMMA_BOTH_TYPES(144, WGMMA_TEXT_72, WGMMA_D_72, 72, 73, 74, 75, 76, 77)
WGMMA_BOTH_TYPES(160, WGMMA_TEXT_80, WGMMA_D_80, 80, 81, 82, 83, 84, 85)
WGMMA_BOTH_TYPES(176, WGMMA_TEXT_88, WGMMA_D_88, 88, 89, 90, 91, 92, 93)
WGMMA_BOTH_TYPES(192, WGMMA_TEXT_96, WGMMA_D_96, 96, 97, 98, 99, 100, 101)
WGMMA_BOTH_TYPES(208, WGMMA_TEXT_104, WGMMA_D_104, 104, 105, 106, 107, 108, 109)
WGMMA_BOTH_TYPES(256, WGMMA_TEXT_128, WGMMA_D_128, 128, 129, 130, 131, 132, 133)

#endif
