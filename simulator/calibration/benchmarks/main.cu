#include "micro.cuh"

#include <signal.h>
#include <unistd.h>

#define MAX_SECONDS  170 /* all of it, so that a kernel that hangs costs no more */
#define RESULT_WORDS (1 << 16)
#define FLUSH_BYTES  ((size_t)512 << 20)
/* Of each SM, 280 MB in all: more than any L2 holds. */
#define REPLACING_BYTES  65536
#define REPLACING_COPIES 32
#define EXIT_FAILED      1
#define EXIT_TIMEOUT     3

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
    if (words > RESULT_WORDS) {
        fprintf(stderr, "results: %d words asked for, %d are there\n", words, RESULT_WORDS);
        exit(EXIT_FAILED);
    }
    if (buffer == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&buffer, RESULT_WORDS * sizeof *buffer));
    }
    return buffer;
}

void launch(const void *kernel, struct shape shape, void **arguments) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)(shape.cluster > 0 ? shape.cluster : 1);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)shape.ctas, 1, 1);
    config.blockDim = dim3((unsigned)shape.threads, 1, 1);
    config.dynamicSmemBytes = (size_t)shape.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = shape.cluster > 1;
    if (shape.shared_bytes > 0) {
        check("cudaFuncSetAttribute",
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes));
    }
    check("launch", cudaLaunchKernelExC(&config, kernel, arguments));
    check("kernel", cudaDeviceSynchronize());
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

static unsigned char *flush_buffer(void) {
    static unsigned char *buffer;
    if (buffer == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&buffer, FLUSH_BYTES));
    }
    return buffer;
}

void flush_l2(void) {
    check("cudaMemset", cudaMemset(flush_buffer(), 1, FLUSH_BYTES));
    check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

/* One thread copies its part of what takes the place of other lines. */
static __global__ void replace_kernel(const unsigned char *from) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    for (uint32_t i = 0; i < REPLACING_COPIES; i++) {
        mbarrier_arrive_expect_tx(barrier, REPLACING_BYTES);
        cp_async_bulk(cvta_to_shared(memory), from + ((size_t)i * gridDim.x + blockIdx.x) * REPLACING_BYTES,
                      REPLACING_BYTES, barrier);
        wait_parity(barrier, i & 1);
    }
}

void replace_l2(void) {
    flush_l2();
    const unsigned char *from = flush_buffer();
    void *arguments[] = {&from};
    launch((const void *)replace_kernel, {sm_count(), 1, 1, REPLACING_BYTES}, arguments);
}

int sm_count(void) {
    int sms = 0;
    check("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    return sms;
}

CUtensorMap promoted_map(unsigned char *memory, const cuuint64_t (&sizes)[3], const cuuint64_t (&strides)[2],
                         uint32_t rows, CUtensorMapL2promotion promotion) {
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
    cuuint32_t box[3] = {(cuuint32_t)sizes[0], rows, 1}, steps[3] = {1, 1, 1};
    CUtensorMapSwizzle swizzle =
        sizes[0] * 2 == SWIZZLE_ROW ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
    CUresult result =
        encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, memory, sizes, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", (int)result);
        exit(EXIT_FAILED);
    }
    return map;
}

CUtensorMap strided_map(unsigned char *memory, const cuuint64_t (&sizes)[3], const cuuint64_t (&strides)[2],
                        uint32_t rows) {
    return promoted_map(memory, sizes, strides, rows, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

CUtensorMap tensor_map(unsigned char *memory, size_t bytes, uint32_t row_bytes, uint32_t rows) {
    return strided_map(memory, {row_bytes / 2, bytes / row_bytes, 1}, {row_bytes, bytes}, rows);
}

static void out_of_time(int signal) {
    (void)signal;
    static const char said[] = "out of time\n";
    ssize_t ignored = write(STDERR_FILENO, said, sizeof said - 1);
    (void)ignored;
    _exit(EXIT_TIMEOUT);
}

static const struct group {
    const char *name;
    void (*run)(void);
} groups[] = {{"alu", alu},
              {"shared_memory", shared_memory},
              {"tensor", tensor},
              {"synchronisation", synchronisation},
              {"copies", copies},
              {"copy_rates", copy_rates},
              {"clusters", clusters},
              {"launches", launches},
              {"overlap", overlap},
              {"starts", starts},
              {"traffic", traffic},
              {"hand_over", hand_over},
              {"past_end", past_end},
              {"pages", pages},
              {"last_stores", last_stores},
              {"prefetches", prefetches},
              {"fresh", fresh},
              {"behind_stores", behind_stores},
              {"rings", rings},
              {"words", words},
              {"helpers", helpers},
              {"first_stage", first_stage},
              {"beside_mma", beside_mma},
              {"cold", cold},
              {"warp_mma", warp_mma},
              {"producers", producers},
              {"answers", answers},
              {"cluster_fences", cluster_fences},
              {"fenced_stores", fenced_stores},
              {"touched_lines", touched_lines},
              {"dependents", dependents},
              {"left_units", left_units},
              {"cluster_rings", cluster_rings},
              {"rounds", rounds},
              {"late_warps", late_warps},
              {"stores_beside_mma", stores_beside_mma}};

/* micro [GROUP...]: the groups named, or all. */
int main(int count, char **arguments) {
    signal(SIGALRM, out_of_time);
    alarm(MAX_SECONDS);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        bool chosen = count == 1;
        for (int i = 1; i < count; i++) {
            chosen = chosen || strcmp(arguments[i], groups[g].name) == 0;
        }
        if (chosen) {
            groups[g].run();
        }
    }
    return 0;
}
