/* The driver's functions that encode tensor maps.  A map that breaks a rule is an invalid value, as with the
 * driver; a form that the simulator does not model is "not supported". */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "cudart/shim.h"

static CUresult refuse(const char *function, const char *why, CUresult error) {
    (void)fprintf(stderr, "simulator: %s: %s\n", function, why);
    return error;
}

static struct sim_tensor_map describe(CUtensorMapDataType type, cuuint32_t rank, const void *address,
                                      const cuuint64_t *sizes, const cuuint64_t *strides,
                                      const cuuint32_t *element_strides) {
    struct sim_tensor_map map = {.data_type = (uint32_t)type, .rank = rank, .address = address};
    for (cuuint32_t i = 0; i < rank && i < 5; i++) {
        map.sizes[i] = sizes[i];
        map.element_strides[i] = element_strides[i];
        map.strides[i] = i + 1 < rank ? strides[i] : 0;
    }
    return map;
}

static CUresult encode(const char *function, CUtensorMap *to, struct sim_tensor_map map,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    char message[200];
    if ((uintptr_t)to % 64 != 0 || to == NULL) {
        return refuse(function, "the map needs an address that is a multiple of 64", CUDA_ERROR_INVALID_VALUE);
    }
    if (interleave == CU_TENSOR_MAP_INTERLEAVE_16B || interleave == CU_TENSOR_MAP_INTERLEAVE_32B) {
        return refuse(function, "interleaved layouts are not modelled", CUDA_ERROR_NOT_SUPPORTED);
    }
    map.interleave = (uint32_t)interleave;
    map.swizzle = (uint32_t)swizzle;
    map.l2_promotion = (uint32_t)promotion;
    map.oob_fill = (uint32_t)fill;
    if (sim_encode_tensor_map(to, &map, message, sizeof message) != 0) {
        return refuse(function, message, CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    struct sim_tensor_map in = describe(type, rank, address, sizes, strides, element_strides);
    for (cuuint32_t i = 0; i < rank && i < 5; i++) {
        in.box[i] = box[i];
    }
    return encode(__func__, map, in, interleave, swizzle, promotion, fill);
}

/* The first number of each corner belongs to W, as CUTLASS passes them (cute/atom/copy_traits_sm90_im2col.hpp),
 * although cuda.h writes {D, H, W}. */
CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
    struct sim_tensor_map in = describe(type, rank, address, sizes, strides, element_strides);
    in.mode = SIM_TENSOR_IM2COL;
    in.box[0] = channels;
    in.pixels = pixels;
    for (cuuint32_t i = 0; i + 2 < rank && i < 3; i++) {
        in.lower[i] = lower[i];
        in.upper[i] = upper[i];
    }
    return encode(__func__, map, in, interleave, swizzle, promotion, fill);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                     const cuuint64_t *sizes, const cuuint64_t *strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
                                     CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
    struct sim_tensor_map in = describe(type, rank, address, sizes, strides, element_strides);
    if (mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128) {
        return refuse(__func__, "im2col::w::128 is not modelled", CUDA_ERROR_NOT_SUPPORTED);
    }
    in.mode = SIM_TENSOR_IM2COL_W;
    in.box[0] = channels;
    in.pixels = pixels;
    in.lower[0] = lower;
    in.upper[0] = upper;
    return encode(__func__, map, in, interleave, swizzle, promotion, fill);
}

/* The only change of a map that the host can make. */
CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
    char message[200];
    if (sim_replace_tensor_map_address(map, address, message, sizeof message) != 0) {
        return refuse(__func__, message, CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}
