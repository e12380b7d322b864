#include "harness.cuh"

#include <stdarg.h>

#define FLUSH_BYTES ((size_t)512 << 20)
#define EXIT_FAILED 1

void check(const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(EXIT_FAILED);
    }
}

void report(const char *name, const char *parameters, double value, const char *unit) {
    printf("{\"name\": \"%s\", \"parameters\": {%s}, \"value\": %.6g, \"unit\": \"%s\"}\n", name, parameters,
           value, unit);
    fflush(stdout);
}

void reportf(const char *name, double value, const char *unit, const char *format, ...) {
    char parameters[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parameters, sizeof parameters, format, arguments);
    va_end(arguments);
    report(name, parameters, value, unit);
}

static int ascending(const void *x, const void *y) {
    double left = *(const double *)x, right = *(const double *)y;
    return (left > right) - (left < right);
}

double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t *results(int words) {
    static uint64_t *buffer;
    if (words > MOST_RESULTS) {
        fprintf(stderr, "results: %d words asked for, %d are there\n", words, MOST_RESULTS);
        exit(EXIT_FAILED);
    }
    if (buffer == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&buffer, MOST_RESULTS * sizeof *buffer));
    }
    return buffer;
}

unsigned char *zeroed(size_t bytes) {
    unsigned char *memory;
    check("cudaMalloc", cudaMalloc((void **)&memory, bytes));
    check("cudaMemset", cudaMemset(memory, 0, bytes));
    return memory;
}

void allow_shared(const void *kernel, int bytes) {
    check("cudaFuncSetAttribute",
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes > 0 ? bytes : 1024));
}

static void launch_on(cudaStream_t stream, const void *kernel, struct shape shape, bool dependent,
                      void **arguments) {
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (shape.cluster > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim.x = (unsigned)shape.cluster;
        attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
        count++;
    }
    if (dependent) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count].val.programmaticStreamSerializationAllowed = 1;
        count++;
    }
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)shape.ctas, 1, 1);
    config.blockDim = dim3((unsigned)shape.threads, 1, 1);
    config.dynamicSmemBytes = (size_t)shape.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    check("launch", cudaLaunchKernelExC(&config, kernel, arguments));
}

void launch(const void *kernel, struct shape shape, void **arguments) {
    if (shape.shared_bytes > 0) {
        allow_shared(kernel, shape.shared_bytes);
    }
    launch_on(NULL, kernel, shape, false, arguments);
    check("kernel", cudaDeviceSynchronize());
}

cudaStream_t queue(void) {
    static cudaStream_t made;
    if (made == NULL) {
        check("cudaStreamCreate", cudaStreamCreate(&made));
    }
    return made;
}

void enqueue(const void *kernel, struct shape shape, bool dependent, void **arguments) {
    launch_on(queue(), kernel, shape, dependent, arguments);
}

static __global__ void hold_kernel(uint64_t cycles) {
    spin(cycles);
}

void hold_queue(void) {
    uint64_t cycles = HOLD_CYCLES;
    void *arguments[] = {&cycles};
    enqueue((const void *)hold_kernel, {1, 1, 1, 0}, false, arguments);
}

double measured_span(const void *kernel, struct shape shape, void **arguments, uint64_t *words) {
    double spans[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        uint64_t span[2] = {UINT64_MAX, 0};
        check("cudaMemcpy", cudaMemcpy(words, span, sizeof span, cudaMemcpyHostToDevice));
        launch(kernel, shape, arguments);
        check("cudaMemcpy", cudaMemcpy(span, words, sizeof span, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            spans[i] = (double)(span[1] - span[0]);
        }
    }
    return median(spans, LAUNCHES);
}

void flush_l2(void) {
    static unsigned char *buffer;
    if (buffer == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&buffer, FLUSH_BYTES));
    }
    check("cudaMemset", cudaMemset(buffer, 1, FLUSH_BYTES));
    check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

int sm_count(void) {
    int sms = 0;
    check("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    return sms;
}

CUtensorMap tensor_map(unsigned char *memory, size_t bytes, uint32_t row_bytes, uint32_t rows) {
    typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                        const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                        const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static encode_function encode;
    if (encode == NULL) {
        cudaDriverEntryPointQueryResult found;
        check("cudaGetDriverEntryPointByVersion",
              cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                               cudaEnableDefault, &found));
    }
    CUtensorMap map;
    cuuint64_t sizes[3] = {row_bytes / 2, bytes / row_bytes, 1}, strides[2] = {row_bytes, bytes};
    cuuint32_t box[3] = {row_bytes / 2, rows, 1}, steps[3] = {1, 1, 1};
    CUtensorMapSwizzle swizzle =
        row_bytes == SWIZZLE_ROW ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
    CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, memory, sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", (int)result);
        exit(EXIT_FAILED);
    }
    return map;
}
