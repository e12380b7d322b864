/* The chips that can be simulated, and which one this process has. */
#include "chip_properties.h"

#include <stdlib.h>
#include <string.h>

#include "registry.h"

#define GB ((size_t)1000000000)
#define KB 1024
#define MB (1 << 20)

/* HW: CUDA C++ Programming Guide, compute capabilities; cuda_occupancy.h (blocks of an SM); the cards' data
 * sheets (SMs, memory, L2).  Clusters of 12.x: the portable size (Blackwell tuning guide: a B200 has 16). */
static const struct chip chips[] = {
    {.name = "h200",
     .target = "sm_90a",
     .product = "H200",
     .major = 9,
     .sms = 132,
     .memory_bytes = 141 * GB,
     .shared_bytes = 227 * KB,
     .shared_sm_bytes = 228 * KB,
     .sm_threads = 2048,
     .sm_blocks = 32,
     .l2_bytes = 50 * MB,
     .copy_engines = 3,
     .processing_clusters = 8,
     .cluster_ctas = 16},
    {.name = "b200",
     .target = "sm_100a",
     .product = "B200",
     .major = 10,
     .sms = 148,
     .memory_bytes = 192 * GB,
     .shared_bytes = 227 * KB,
     .shared_sm_bytes = 228 * KB,
     .sm_threads = 2048,
     .sm_blocks = 32,
     .l2_bytes = 126 * MB,
     .copy_engines = 2,
     .processing_clusters = 8,
     .cluster_ctas = 16},
    {.name = "rtx5090",
     .target = "sm_120a",
     .product = "RTX 5090",
     .major = 12,
     .sms = 170,
     .memory_bytes = 32 * GB,
     .shared_bytes = 99 * KB,
     .shared_sm_bytes = 100 * KB,
     .sm_threads = 1536,
     .sm_blocks = 24,
     .l2_bytes = 96 * MB,
     .copy_engines = 2,
     .cluster_ctas = 8},
    {.name = "gb10",
     .target = "sm_121a",
     .product = "GB10",
     .major = 12,
     .minor = 1,
     .sms = 48,
     .memory_bytes = 128 * GB,
     .shared_bytes = 99 * KB,
     .shared_sm_bytes = 100 * KB,
     .sm_threads = 1536,
     .sm_blocks = 24,
     .l2_bytes = 24 * MB,
     .copy_engines = 2,
     .cluster_ctas = 8},
};
enum { H200, B200, RTX5090, GB10, CHIPS };

static int default_major; /* 0: as the program's fat binaries say */

void runtime_default_major(int major) {
    default_major = major;
}

const struct chip *runtime_chip(void) {
    const char *wanted = runtime_setting("NVFP4_SIMULATE_CHIP");
    for (int i = 0; wanted != NULL && i < CHIPS; i++) {
        if (strcmp(wanted, chips[i].name) == 0 || strcmp(wanted, chips[i].target) == 0) {
            return &chips[i];
        }
    }
    if (wanted != NULL) {
        refuse_setting("NVFP4_SIMULATE_CHIP", wanted, "h200, b200, rtx5090 or gb10");
    }
    if (default_major != 0) {
        return &chips[default_major == 12 ? RTX5090 : default_major == 10 ? B200 : H200];
    }
    if (registry_has_ptx(90, 99)) {
        return &chips[H200];
    }
    return &chips[registry_has_ptx(100, 109)   ? B200
                  : registry_has_ptx(120, 120) ? RTX5090
                  : registry_has_ptx(121, 129) ? GB10
                                               : H200];
}

int runtime_sms(void) {
    const int chip_sms = runtime_chip()->sms;
    const char *asked = runtime_setting("NVFP4_SIMULATE_SMS");
    if (asked == NULL) {
        return chip_sms;
    }
    char *end;
    long sms = strtol(asked, &end, 10);
    if (*end != '\0' || sms < 1 || sms > chip_sms) {
        refuse_setting("NVFP4_SIMULATE_SMS", asked, "a number of SMs, at most as many as the chip has");
    }
    return (int)sms;
}
