/* Fake GPU backends that record their calls, for tests of how the library chooses a backend and what it passes
 * on. Linked with submission/core instead of the real ones. */
#include <stdio.h>
#include <string.h>

#include "../../../submission/core/backend.h"

#define EXPORT __attribute__((visibility("default")))

enum { HOPPER, BLACKWELL, GEFORCE, FAKES };

/* Set by tests. */
EXPORT int32_t fake_available[FAKES]; /* availability on `fake_device` */
EXPORT int32_t fake_device[FAKES];
EXPORT int32_t fake_status[FAKES]; /* what running a problem returns */
EXPORT char fake_detail[FAKES][600];

/* Read by tests. */
EXPORT int32_t fake_runs[FAKES];
EXPORT int32_t fake_details_asked[FAKES];
EXPORT int32_t fake_last_asked[FAKES]; /* device of the last question */
EXPORT struct problem fake_problem;

static int available(int which, int32_t device, char *detail, size_t detail_bytes) {
    fake_last_asked[which] = device;
    if (detail != NULL) {
        fake_details_asked[which]++;
        (void)snprintf(detail, detail_bytes, "%s", fake_detail[which]);
    }
    return fake_available[which] && (device < 0 || device == fake_device[which]);
}

static int32_t run(int which, const struct problem *problem) {
    fake_runs[which]++;
    fake_problem = *problem;
    return fake_status[which] == CUSTOM_KERNEL_OK ? CUSTOM_KERNEL_OK
                                                  : set_message(fake_status[which], "%s", fake_detail[which]);
}

#define FAKE(which, name_)                                                                                     \
    static int name_##_available(int32_t device, char *detail, size_t detail_bytes) {                          \
        return available(which, device, detail, detail_bytes);                                                 \
    }                                                                                                          \
    static int32_t name_##_run(const struct problem *problem) {                                                \
        return run(which, problem);                                                                            \
    }                                                                                                          \
    const struct backend name_##_backend = {                                                                   \
        .id = CUSTOM_KERNEL_BACKEND_##which,                                                                   \
        .name = #name_,                                                                                        \
        .available = name_##_available,                                                                        \
        .run = name_##_run,                                                                                    \
    };

#ifdef NVFP4_HAVE_HOPPER
FAKE(HOPPER, hopper)
#endif
#ifdef NVFP4_HAVE_BLACKWELL
FAKE(BLACKWELL, blackwell)
#endif
#ifdef NVFP4_HAVE_GEFORCE
FAKE(GEFORCE, geforce)
#endif
