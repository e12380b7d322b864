/* The rate of mma.sync and wmma by the types of operands and sums: GeForce chips halve it for sums in fp32. */
#include <stdio.h>
#include <string.h>

#include "clock/timing.h"

#define MEASURED_MACS 2048 /* of the m16n8k16 that warp_mma_interval is about */

static bool has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

static bool has_any(const char *name, const char *const *parts, size_t count) {
    while (count > 0 && !has(name, parts[count - 1])) {
        count--;
    }
    return count > 0;
}

/* Multiply-adds a cycle and SM; 0: the chip's file has none for these types. */
static uint64_t rate_of(const struct chip *chip, const char *name) {
    static const char *const narrow[] = {".e4m3", ".e5m2", ".e3m2", ".e2m3", ".e2m1"};
    static const char *const integers[] = {".s8", ".u8", ".s4", ".u4"};
    if (has(name, ".block_scale")) {
        return has(name, ".kind::mxf8f6f4") ? chip->mma_mxf8 : chip->mma_mxf4;
    }
    if (has(name, ".tf32") || has(name, ".f64")) {
        return has(name, ".tf32") ? chip->mma_tf32 : chip->mma_f64;
    }
    if (has(name, ".b1") || has_any(name, integers, sizeof integers / sizeof *integers)) {
        return has(name, ".b1") ? 0 : chip->mma_int8;
    }
    const bool of_f8 = has_any(name, narrow, sizeof narrow / sizeof *narrow);
    return has(name, ".f32") ? (of_f8 ? chip->mma_f8_sums_f32 : chip->mma_f16_sums_f32)
                             : (of_f8 ? chip->mma_f8_sums_f16 : chip->mma_f16_sums_f16);
}

uint32_t warp_mma_ticks(const struct chip *chip, const char *name) {
    uint32_t m = 0, n = 0, k = 0;
    const char *shape = name;
    while ((shape = strstr(shape, ".m")) != NULL && sscanf(shape, ".m%un%uk%u", &m, &n, &k) != 3) {
        shape += 2;
    }
    const bool sparse = has(name, "mma.sp"), quads = m == 8 && k == 4 && !has(name, ".f64"); /* four products */
    const uint64_t macs = (uint64_t)m * n * k * (quads ? 4 : 1) / (sparse ? 2 : 1), rate = rate_of(chip, name);
    if (rate != 0) {
        return (uint32_t)(macs * SM_PARTS * TICKS / rate);
    }
    const uint64_t parts = has(name, "wmma.mma") && macs > MEASURED_MACS ? macs / MEASURED_MACS : 1;
    return (uint32_t)(parts * chip->warp_mma_interval);
}
