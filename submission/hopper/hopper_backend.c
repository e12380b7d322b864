/* The host side of the Hopper dual GEMM (hopper_plan.h), and the backend.  Calls with few rows of A go to
 * hopper_narrow_backend.c. */
#include "../gpu/gpu_backend.h"
#include "hopper_plan.h"
#include "hopper_run.h"
#include "narrow/hopper_narrow_backend.h"

static bool suits(int tile, const struct extension *extension) {
    (void)extension;
    return hopper_dual_gemm_kernel(tile) != NULL;
}

static const void *kernel_of(int tile, const struct problem *problem, bool persistent) {
    (void)problem;
    return persistent ? hopper_persistent_dual_gemm_kernel(tile) : hopper_dual_gemm_kernel(tile);
}

static int32_t launch_gemm(const struct problem *problem, struct hopper_gemm *gemm) {
    void *arguments[] = {&gemm->a, &gemm->b1, &gemm->b2, &gemm->params};
    return gpu_launch(problem, &gemm->launch, arguments);
}

static int32_t run(const struct problem *problem) {
    static const struct hopper_gemm_kind kind = {suits, kernel_of, hopper_dequantize_before, launch_gemm,
                                                 hopper_run_narrow};
    return hopper_run_gemm(problem, &kind);
}

/* HW: sm_90a code runs on compute capability 9.0 only (CUDA programming guide). */
GPU_BACKEND(hopper_backend, CUSTOM_KERNEL_BACKEND_HOPPER, "hopper", run,
            GPU_GROUPED(hopper_run_grouped, hopper_check_grouped), GPU_EXTENDED(hopper_run_extended),
            GPU_QUANTIZE(hopper_run_quantize, hopper_pad),
            GPU_EXPERTS(hopper_run_experts, hopper_run_route, hopper_run_combine), false, CAPABILITY_H100);
