/* Parts of every GPU backend: its entry in the library's table, the chips it runs on, the limits and the
 * tile of a call.  A backend adds its list of tiles and their selection, its kernels and their launches.
 *
 * A backend's file ends with one line, in which `run` is its function for the dual GEMM:
 *
 *     GPU_BACKEND(hopper_backend, CUSTOM_KERNEL_BACKEND_HOPPER, "hopper", run,
 *                 GPU_GROUPED(hopper_run_grouped, hopper_check_grouped), GPU_EXTENDED(hopper_run_extended),
 *                 GPU_QUANTIZE(hopper_run_quantize, hopper_pad),
 *                 GPU_EXPERTS(hopper_run_experts, hopper_run_route, hopper_run_combine),
 *                 false, CAPABILITY_H100); */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include "gpu_host.h"

/* A compute capability: 10 * major + minor. */
enum {
    CAPABILITY_H100 = 90, /* and H200 */
    CAPABILITY_B200 = 100,
    CAPABILITY_B300 = 103,
    CAPABILITY_RTX50 = 120, /* and RTX PRO of this generation */
    CAPABILITY_GB10 = 121,
};

/* Bundles for one problem leave out the code of the others. */
#ifdef NVFP4_WITHOUT_EXTENDED
#define GPU_EXTENDED(function) NULL
#else
#define GPU_EXTENDED(function) function
#endif
/* The members that a backend's folders grouped/ and quantize/ define. */
#ifdef NVFP4_WITHOUT_GROUPED
#define GPU_GROUPED(run_, check_) .run_grouped = NULL
#else
#define GPU_GROUPED(run_, check_) .run_grouped = run_, .check_grouped = check_
#endif
#ifdef NVFP4_WITHOUT_QUANTIZE
#define GPU_QUANTIZE(run_, pad_) .run_quantize = NULL
#else
#define GPU_QUANTIZE(run_, pad_) .run_quantize = run_, .pad = pad_
#endif

/* What experts need: the products, and the routing that comes before and after them. */
#ifdef NVFP4_WITHOUT_EXPERTS
#define GPU_EXPERTS(function, route_, combine_) .run_experts = NULL
#else
#define GPU_EXPERTS(function, route_, combine_)                                                                \
    .run_experts = function, .run_route = route_, .run_combine = combine_
#endif

/* Defines a struct backend; the compute capabilities that it has code for come last.  All kernels for experts
 * read B through tensor maps, which give zeros past the end of a row. */
#define GPU_BACKEND(object, id_, name_, run_, grouped_, run_extended_, quantize_, experts_, ends_rows_, ...)   \
    static int available(int32_t device, char *detail, size_t detail_bytes) {                                  \
        static const int capabilities[] = {__VA_ARGS__};                                                       \
        return gpu_available(device, capabilities, sizeof capabilities / sizeof *capabilities, detail,         \
                             detail_bytes);                                                                    \
    }                                                                                                          \
    const struct backend object = {                                                                            \
        .id = id_,                                                                                             \
        .name = name_,                                                                                         \
        .available = available,                                                                                \
        .run = run_,                                                                                           \
        grouped_,                                                                                              \
        .run_extended = run_extended_,                                                                         \
        quantize_,                                                                                             \
        experts_,                                                                                              \
        .ends_rows = ends_rows_,                                                                               \
        .ends_rows_of_experts = true,                                                                          \
        .acquire_memory = gpu_acquire_scratch,                                                                 \
        .release_memory = gpu_release_scratch,                                                                 \
        .acquire_device = gpu_acquire_device,                                                                  \
        .release_device = gpu_release_device,                                                                  \
    }

/* struct backend's `available`, for devices of one of `count` compute capabilities. */
int gpu_available(int32_t device, const int *capabilities, int count, char *detail, size_t detail_bytes);

/* struct backend's `acquire_device` and `release_device`. */
int32_t gpu_acquire_device(const struct problem *problem, int *before);
int32_t gpu_release_device(const struct problem *problem, int before, int32_t status);

/* Sets *sms to the number of the device's SMs; returns a status. */
int32_t gpu_count_sms(int32_t device, int *sms);

/* A number that follows from the arguments, and the largest that the backend can run. */
struct limit {
    const char *what; /* the caller's name for it: "m", "the number of scale tiles of sfa" */
    int64_t found, most;
};

/* CUSTOM_KERNEL_ERROR_UNSUPPORTED and a message for the first of `count` limits that is exceeded; `tile` is
 * NULL if the limits hold for every tile. */
int32_t gpu_check_limits(const char *backend, const char *tile, const struct limit *limits, int count);

/* Refuses an A of 16 bits, for a backend whose MMAs take fp4 on both sides. */
int32_t gpu_check_a_type(const char *backend, int32_t a_type);

/* The index of the tile that the environment's `variable` names, or -1 if it is unset or empty; `name_of`
 * gives the name of each index, NULL past the last one. */
int32_t gpu_wanted_tile(const char *variable, const char *(*name_of)(int index), int *index);

#endif
