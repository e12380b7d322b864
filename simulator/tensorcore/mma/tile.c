/* The portable build of the tile path, and the choice of the instruction set. */
#define TILE_FUNCTION tc_tile_portable
#include "tile_body.h"

struct isa {
    const char *name;
    tc_tile_function *tile;
};

static const struct isa portable = {"portable", tc_tile_portable};
#ifdef NVFP4_HAVE_AVX2
static const struct isa avx2 = {"avx2", tc_tile_avx2};
#endif
#ifdef NVFP4_HAVE_AVX512
static const struct isa avx512 = {"avx512", tc_tile_avx512};
#endif

static const struct isa *find(const char *name) {
#ifdef NVFP4_HAVE_AVX512
    if ((!name || !strcmp(name, "avx512")) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512bf16")) {
        return &avx512;
    }
#endif
#ifdef NVFP4_HAVE_AVX2
    if ((!name || !strcmp(name, "avx2")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return &avx2;
    }
#endif
    return !name || !strcmp(name, "portable") ? &portable : NULL;
}

/* No lock: threads that find it unset all store the same pointer. */
static _Atomic(const struct isa *) chosen;

static const struct isa *best(void) {
    const struct isa *isa = chosen;
    if (!isa) {
        chosen = isa = find(NULL);
    }
    return isa;
}

bool tc_mma_force_isa(const char *name) {
    const struct isa *isa = find(name);
    if (isa) {
        chosen = isa;
    }
    return isa != NULL;
}

void tc_mma_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d, int m,
                 int n, bool accumulate) {
    if (rule->d == TC_S32 || rule->two_passes) {
        tc_mma_tile_generic(rule, in, d, m, n, accumulate);
    } else {
        best()->tile(rule, in, d, m, n, accumulate);
    }
}
