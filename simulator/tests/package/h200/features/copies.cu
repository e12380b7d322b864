/* Copies: TMA tiles of every swizzle, element type and rank, their edges, stores, bulk copies, cp.async. */
#include "features.cuh"

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

struct tiles {
    CUtensorMapDataType type;
    int element_bytes;
    uint32_t rank, box[5], steps[5];
    CUtensorMapSwizzle swizzle;
    CUtensorMapFloatOOBfill fill;
    bool to_global;
};

struct place {
    int32_t at[5];
    uint32_t rank, bytes;
};

/* A tensor of 80 bytes a row plus padding, 24 rows, 3 of each further dimension. */
static CUtensorMap encode(const char *name, const struct tiles &tiles, const struct buffers &buffers) {
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult result;
    check(name, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                                 &result));
    cuuint64_t sizes[5] = {(cuuint64_t)(tiles.rank == 1 ? 400 : 208) / tiles.element_bytes, 24, 3, 3, 3};
    cuuint64_t strides[4] = {224, 224 * 24, 224 * 24 * 3, 224 * 24 * 9};
    CUtensorMap map;
    CUresult status = ((encode_tiled_function)entry)(
        &map, tiles.type, tiles.rank, tiles.to_global ? (void *)buffers.out : (void *)buffers.in, sizes,
        strides, tiles.box, tiles.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, tiles.swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, tiles.fill);
    if (status != CUDA_SUCCESS) {
        fprintf(stderr, "%s: cuTensorMapEncodeTiled: %d\n", name, (int)status);
        exit(1);
    }
    return map;
}

static __device__ void load_tile(uint32_t to, const CUtensorMap *map, const struct place &p,
                                 struct mbarrier barrier) {
#define LOAD(rank, list, ...)                                                                                  \
    asm volatile("cp.async.bulk.tensor." rank                                                                  \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "                            \
                 "[%1, " list "], [%2];" ::"r"(to),                                                            \
                 "l"(map), "r"(barrier.address), __VA_ARGS__                                                   \
                 : "memory")
    switch (p.rank) {
    case 1:
        LOAD("1d", "{%3}", "r"(p.at[0]));
        break;
    case 2:
        LOAD("2d", "{%3, %4}", "r"(p.at[0]), "r"(p.at[1]));
        break;
    case 3:
        LOAD("3d", "{%3, %4, %5}", "r"(p.at[0]), "r"(p.at[1]), "r"(p.at[2]));
        break;
    case 4:
        LOAD("4d", "{%3, %4, %5, %6}", "r"(p.at[0]), "r"(p.at[1]), "r"(p.at[2]), "r"(p.at[3]));
        break;
    default:
        LOAD("5d", "{%3, %4, %5, %6, %7}", "r"(p.at[0]), "r"(p.at[1]), "r"(p.at[2]), "r"(p.at[3]),
             "r"(p.at[4]));
    }
}

static __global__ void tma_load(struct buffers b, const __grid_constant__ CUtensorMap map, struct place p) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic);
    struct mbarrier barrier = {shared + SHARED_BYTES / 2};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(barrier, p.bytes);
        load_tile(shared, &map, p, barrier);
    }
    __syncthreads();
    wait_for(barrier, 0);
    dump_shared(b.out, generic, SHARED_BYTES / 2 / 4);
}

static __global__ void tma_store(struct buffers b, const __grid_constant__ CUtensorMap map, struct place p) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic);
    for (uint32_t i = threadIdx.x; i < p.bytes / 4; i += blockDim.x) {
        ((uint32_t *)generic)[i] = b.in[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile(
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
            "r"(p.at[0]), "r"(p.at[1]), "r"(shared)
            : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}

static __global__ void bulk_round_trip(struct buffers b, uint32_t bytes) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic);
    struct mbarrier barrier = {shared + SHARED_BYTES / 2};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(barrier, bytes);
        cp_async_bulk(shared + 64, b.in + 4, bytes, barrier);
        wait_for(barrier, 0);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(b.out + 8),
                     "r"(shared + 64), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}

/* Copies of 16, 8 and 4 bytes, and one of 16 that reads only 5. */
static __global__ void cp_async_sizes(struct buffers b) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic), t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared + t * 16), "l"(b.in + t * 4)
                 : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared + 4096 + t * 8),
                 "l"(b.in + 1024 + t * 2)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared + 8192 + t * 4), "l"(b.in + 2048 + t)
                 : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared + 12288 + t * 16),
                 "l"(b.in + 4096 + t * 4), "r"(t % 17)
                 : "memory");
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    dump_shared(b.out, generic, SHARED_BYTES / 2 / 4);
}

static void tma(const char *name, struct tiles tiles, struct place p) {
    struct buffers buffers = fresh_buffers();
    p.rank = tiles.rank;
    p.bytes = (uint32_t)tiles.element_bytes;
    for (uint32_t i = 0; i < tiles.rank; i++) {
        p.bytes *= (tiles.box[i] + tiles.steps[i] - 1) / tiles.steps[i];
    }
    feature(name, tiles.to_global ? tma_store : tma_load, 1, 128, 1, encode(name, tiles, buffers), p);
}

void copies(void) {
    static const struct {
        const char *name;
        CUtensorMapSwizzle swizzle;
        uint32_t bytes;
    } swizzles[] = {{"none", CU_TENSOR_MAP_SWIZZLE_NONE, 160},
                    {"32B", CU_TENSOR_MAP_SWIZZLE_32B, 32},
                    {"64B", CU_TENSOR_MAP_SWIZZLE_64B, 64},
                    {"128B", CU_TENSOR_MAP_SWIZZLE_128B, 128}};
    static const struct {
        const char *name;
        CUtensorMapDataType type;
        int bytes;
    } types[] = {
        {"u8", CU_TENSOR_MAP_DATA_TYPE_UINT8, 1},      {"u16", CU_TENSOR_MAP_DATA_TYPE_UINT16, 2},
        {"u32", CU_TENSOR_MAP_DATA_TYPE_UINT32, 4},    {"s32", CU_TENSOR_MAP_DATA_TYPE_INT32, 4},
        {"u64", CU_TENSOR_MAP_DATA_TYPE_UINT64, 8},    {"f16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2},
        {"bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2}, {"f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4},
        {"f64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8},   {"f32ftz", CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4},
        {"tf32", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4}, {"tf32ftz", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 4}};
    char name[96];
    for (auto &swizzle : swizzles) {
        for (auto &type : types) {
            uint32_t width = swizzle.bytes / (uint32_t)type.bytes;
            for (int edge = 0; edge < 3; edge++) { /* inside, before the start, past the end */
                struct tiles tiles = {type.type,
                                      type.bytes,
                                      2,
                                      {width, 16},
                                      {1, 1},
                                      swizzle.swizzle,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                                      false};
                struct place p = {{edge == 0   ? 0
                                   : edge == 1 ? -(int32_t)(16 / type.bytes)
                                               : (int32_t)(176 / type.bytes),
                                   edge == 0   ? 1
                                   : edge == 1 ? -3
                                               : 15}};
                snprintf(name, sizeof name, "tma.load.2d.%s.%s.edge%d", swizzle.name, type.name, edge);
                tma(name, tiles, p);
            }
        }
        struct tiles out = {CU_TENSOR_MAP_DATA_TYPE_FLOAT16,   2,      2,
                            {swizzle.bytes / 2, 16},           {1, 1}, swizzle.swizzle,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, true};
        snprintf(name, sizeof name, "tma.store.2d.%s", swizzle.name);
        tma(name, out, {{8, 2}});
        snprintf(name, sizeof name, "tma.store.2d.%s.clipped", swizzle.name);
        tma(name, out, {{80, 14}});
        snprintf(name, sizeof name, "tma.store.2d.%s.before", swizzle.name);
        if (named(name)) { /* HW: a store starts inside the tensor (CUDA programming guide) */
            tma(name, out, {{-8, -5}});
        }
    }
    for (uint32_t rank = 1; rank <= 5; rank++) {
        struct tiles tiles = {CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                              2,
                              rank,
                              {32, 4, 2, 2, 2},
                              {1, 1, 1, 1, 1},
                              CU_TENSOR_MAP_SWIZZLE_64B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
                              false};
        snprintf(name, sizeof name, "tma.load.%ud.nan-fill", rank);
        tma(name, tiles, {{88, 22, 2, 1, -1}});
    }
    struct tiles stepped = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT16,   2,    2, {32, 12}, {1, 3}, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, false};
    tma("tma.load.2d.every-third-row", stepped, {{8, 15}});
    for (uint32_t bytes : {16u, 48u, 1024u, 8192u}) {
        snprintf(name, sizeof name, "bulk.%u", bytes);
        feature(name, bulk_round_trip, 1, 32, 1, bytes);
    }
    feature("cp.async", cp_async_sizes, 1, 128, 1);
}
