/* Host code for DeepGEMM's kernels instead of its JIT compiler: tensor maps, and one launch.
 *
 * The including file defines KERNEL, an instance of a kernel template, and calls launch() with its arguments.
 * Layouts, boxes and swizzles are those of DeepGEMM's own csrc/jit_kernels/impls.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdlib.h>

#define SHARED_BYTES 232448 /* the most that a CTA of sm_90 and sm_100 can have */

/* A row-major matrix of `outer` rows; `inner` and the box are in elements, the row's stride in bytes. */
static CUtensorMap matrix_map(CUtensorMapDataType type, void *address, uint64_t inner, uint64_t outer,
                              uint64_t stride, uint32_t box_inner, uint32_t box_outer,
                              CUtensorMapSwizzle swizzle) {
    CUtensorMap map;
    const cuuint64_t sizes[2] = {inner, outer}, strides[1] = {stride};
    const cuuint32_t box[2] = {box_inner, box_outer}, steps[2] = {1, 1};
    const CUresult status = cuTensorMapEncodeTiled(
        &map, type, 2, address, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        abort();
    }
    return map;
}

/* Launches with all shared memory, in clusters along x. */
template <class Kernel, class... Arguments>
static void launch(Kernel kernel, unsigned grid, unsigned threads, unsigned cluster, Arguments... arguments) {
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, arguments...);
}
