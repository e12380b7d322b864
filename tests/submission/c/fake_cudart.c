/* A fake CUDA runtime that logs its calls, for tests of the GPU backends' host code: several devices, and any
 * call can be made to fail.  Linked instead of libcudart. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 80, LOG_BYTES = 1 << 16, NAME_BYTES = 64, KERNELS = 256 };

/* Set by tests. */
EXPORT int fake_devices;
EXPORT int fake_capability[DEVICES]; /* 10 * major + minor */
EXPORT int fake_sms[DEVICES];
EXPORT int fake_current;
EXPORT int fake_clusters[16];         /* most active clusters, by CTAs per cluster; negative: the query fails */
EXPORT char fake_failing[NAME_BYTES]; /* the function that fails ... */
EXPORT int fake_successes;            /* ... after so many calls that do not */
EXPORT int fake_error;                /* the error that it returns */
EXPORT int fake_no_entry;             /* the driver has no entry point */
EXPORT char fake_fast[NAME_BYTES];    /* a part of the names of kernels that take 1 ms; others take 2 */

/* Read by tests: a line per call. */
EXPORT char fake_log[LOG_BYTES];

static size_t log_used;
static cudaError_t last_error;
static struct {
    const void *function;
    const char *name;
} kernels[KERNELS];
static int kernel_count;

EXPORT void fake_clear_log(void) {
    log_used = 0;
    fake_log[0] = '\0';
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...) {
    va_list values;
    va_start(values, format);
    int count = vsnprintf(fake_log + log_used, LOG_BYTES - log_used, format, values);
    va_end(values);
    if (count > 0 && log_used + (size_t)count < LOG_BYTES) {
        log_used += (size_t)count;
    }
}

/* True if this call must fail. */
static int fails(const char *function) {
    if (strcmp(function, fake_failing) != 0 || fake_successes-- > 0) {
        return 0;
    }
    last_error = (cudaError_t)fake_error;
    return 1;
}

#define FAIL_IF_ASKED(function)                                                                                \
    do {                                                                                                       \
        if (fails(#function)) {                                                                                \
            note("failed " #function "\n");                                                                    \
            return last_error;                                                                                 \
        }                                                                                                      \
    } while (0)

static const char *name_of(const void *function) {
    for (int i = 0; i < kernel_count; i++) {
        if (kernels[i].function == function) {
            return kernels[i].name;
        }
    }
    return "unknown";
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    note("get_last_error %d\n", (int)error);
    return error;
}

const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorFake";
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess                 ? "no error"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "it broke";
}

cudaError_t cudaGetDeviceCount(int *count) {
    FAIL_IF_ASKED(cudaGetDeviceCount);
    *count = fake_devices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    FAIL_IF_ASKED(cudaGetDevice);
    *device = fake_current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    FAIL_IF_ASKED(cudaSetDevice);
    fake_current = device;
    note("set_device %d\n", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    FAIL_IF_ASKED(cudaDeviceGetAttribute);
    if (device < 0 || device >= fake_devices) {
        last_error = cudaErrorInvalidDevice;
        return last_error;
    }
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? fake_capability[device] / 10
             : attribute == cudaDevAttrComputeCapabilityMinor ? fake_capability[device] % 10
             : attribute == cudaDevAttrMultiProcessorCount    ? fake_sms[device]
             : attribute == cudaDevAttrL2CacheSize            ? 1 << 20
                                                              : -1;
    return cudaSuccess;
}

static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                       const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                       const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                       CUtensorMapFloatOOBfill fill) {
    if (fails("cuTensorMapEncodeTiled")) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)memset(map, 0, sizeof *map);
    note("encode %d %u %ju", (int)type, rank, (uintmax_t)(uintptr_t)address);
    for (cuuint32_t i = 0; i < rank; i++) {
        note(" %ju", (uintmax_t)sizes[i]);
    }
    for (cuuint32_t i = 0; i + 1 < rank; i++) {
        note(" %ju", (uintmax_t)strides[i]);
    }
    for (cuuint32_t i = 0; i < rank; i++) {
        note(" %u", box[i]);
    }
    for (cuuint32_t i = 0; i < rank; i++) {
        note(" %u", element_strides[i]);
    }
    note(" %d %d %d %d\n", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
    FAIL_IF_ASKED(cudaGetDriverEntryPointByVersion);
    note("entry_point %s %u %llu\n", symbol, version, flags);
    CUresult (*function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                         const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                         CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) = encode;
    (void)memcpy(entry, &function, sizeof function);
    *result = fake_no_entry ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
    FAIL_IF_ASKED(cudaMemPoolCreate);
    *pool = (cudaMemPool_t)(uintptr_t)(1000 + properties->location.id);
    note("pool_create %d %d %d %d\n", (int)properties->allocType, (int)properties->handleTypes,
         (int)properties->location.type, properties->location.id);
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    FAIL_IF_ASKED(cudaMemPoolSetAttribute);
    uint64_t number;
    (void)memcpy(&number, value, sizeof number);
    note("pool_set %ju %d %ju\n", (uintmax_t)(uintptr_t)pool, attribute == cudaMemPoolAttrReleaseThreshold,
         (uintmax_t)number);
    return cudaSuccess;
}

#define SCRATCH_ADDRESS ((uintptr_t)1 << 61)

cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t queue) {
    FAIL_IF_ASKED(cudaMallocFromPoolAsync);
    *memory = (void *)SCRATCH_ADDRESS;
    note("malloc %zu %ju %ju\n", bytes, (uintmax_t)(uintptr_t)pool, (uintmax_t)(uintptr_t)queue);
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t queue) {
    note("free %d %ju\n", memory == (void *)SCRATCH_ADDRESS, (uintmax_t)(uintptr_t)queue);
    FAIL_IF_ASKED(cudaFreeAsync);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    FAIL_IF_ASKED(cudaMalloc);
    *memory = (void *)SCRATCH_ADDRESS;
    note("allocate %zu\n", bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    note("give_back %d\n", memory != NULL);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t queue) {
    (void)memory, (void)byte;
    note("set %zu %ju\n", bytes, (uintmax_t)(uintptr_t)queue);
    return cudaSuccess;
}

/* An event is the time in ms of the kernels launched before it. */
static float ms_until_now;

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = calloc(1, sizeof(float));
    return *event == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t queue) {
    FAIL_IF_ASKED(cudaEventRecord);
    note("event %ju\n", (uintmax_t)(uintptr_t)queue);
    (void)memcpy(event, &ms_until_now, sizeof ms_until_now);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    float times[2];
    (void)memcpy(&times[0], begin, sizeof times[0]);
    (void)memcpy(&times[1], end, sizeof times[1]);
    *ms = times[1] - times[0];
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    FAIL_IF_ASKED(cudaFuncSetAttribute);
    note("allow %s %d %d\n", name_of(function), attribute == cudaFuncAttributeMaxDynamicSharedMemorySize,
         value);
    return cudaSuccess;
}

/* Cluster size (1 without one), then whether dependent launch is on (-1: not asked). */
static void read_attributes(const cudaLaunchConfig_t *config, unsigned cluster[3], int *pdl) {
    cluster[0] = cluster[1] = cluster[2] = 1;
    *pdl = -1;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            cluster[0] = config->attrs[i].val.clusterDim.x;
            cluster[1] = config->attrs[i].val.clusterDim.y;
            cluster[2] = config->attrs[i].val.clusterDim.z;
        } else if (config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            *pdl = config->attrs[i].val.programmaticStreamSerializationAllowed;
        } else {
            *pdl = -2;
        }
    }
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config) {
    FAIL_IF_ASKED(cudaOccupancyMaxActiveClusters);
    unsigned cluster[3];
    int pdl;
    read_attributes(config, cluster, &pdl);
    note("clusters %s %u %u %u %zu %d\n", name_of(function), cluster[0], config->gridDim.x, config->blockDim.x,
         config->dynamicSmemBytes, pdl);
    *clusters = fake_clusters[cluster[0]];
    if (*clusters < 0) {
        last_error = cudaErrorUnknown;
        return last_error;
    }
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    FAIL_IF_ASKED(cudaLaunchKernelExC);
    unsigned cluster[3];
    int pdl;
    read_attributes(config, cluster, &pdl);
    ms_until_now += fake_fast[0] != '\0' && strstr(name_of(function), fake_fast) != NULL ? 1.0f : 2.0f;
    note("launch %s %u %u %u %u %u %u %zu %ju %u %u %u %d %d\n", name_of(function), config->gridDim.x,
         config->gridDim.y, config->gridDim.z, config->blockDim.x, config->blockDim.y, config->blockDim.z,
         config->dynamicSmemBytes, (uintmax_t)(uintptr_t)config->stream, cluster[0], cluster[1], cluster[2],
         pdl, arguments != NULL);
    return cudaSuccess;
}

/* --- functions that nvcc's host code calls when the library is loaded --- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *size);
int __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *queue);
int __cudaLaunchKernel(void);
int __cudaGetKernel(void);

void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    handle = binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *size) {
    (void)handle, (void)device_function, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    if (kernel_count < KERNELS) {
        kernels[kernel_count].function = function;
        kernels[kernel_count++].name = name;
    }
}

int __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *queue) {
    (void)grid, (void)block, (void)shared, (void)queue;
    return 0;
}

int __cudaLaunchKernel(void) {
    return 0;
}

int __cudaGetKernel(void) {
    return 0;
}
