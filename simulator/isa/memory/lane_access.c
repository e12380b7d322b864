/* One access of memory for each lane by instructions other than ld and st (lane_access.h). */
#include "lane_access.h"

#include "async/async.h"
#include "hazard/global/global_record.h"
#include "hazard/hazard.h"
#include "machine/count.h"

static void move(uint8_t *at, uint32_t bytes, bool write, uint64_t *value) {
    if (write) {
        memcpy(at, value, bytes);
    } else {
        *value = 0;
        memcpy(value, at, bytes);
    }
}

void touch_shared_lanes(struct run *run, struct cta *const ctas[LANES], const uint32_t offsets[LANES],
                        uint32_t mask, uint32_t bytes, unsigned flags) {
    while (mask != 0) { /* one target CTA at a time */
        struct cta *cta = ctas[__builtin_ctz(mask)];
        uint32_t part = 0;
        FOR_LANES(rest, mask) {
            part |= (uint32_t)(ctas[LANE(rest)] == cta) << LANE(rest);
        }
        mask &= ~part;
        if (run->cluster->checks) {
            hazard_lanes(run, cta, offsets, part, bytes, flags);
        }
        run->cluster->events += (flags & ACCESS_WRITE) != 0 && cta != run->cta;
    }
}

enum next misaligned(struct run *run, int lane, uint64_t address, uint32_t bytes) {
    return sim_report(run, SIM_ERROR, "misaligned", lane,
                      "address %#llx is not aligned to the access's %u bytes", (unsigned long long)address,
                      bytes);
}

static enum next shared_lanes(struct run *run, unsigned space, const uint64_t addresses[LANES], uint32_t mask,
                              uint32_t bytes, bool write, uint64_t values[LANES]) {
    struct cta *ctas[LANES] = {NULL};
    uint32_t offsets[LANES] = {0};
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        ctas[lane] = shared_cta(run, addresses[lane] & ~WINDOW_MASK, bytes, bytes, lane, space == SP_SHARED,
                                &offsets[lane]);
        if (ctas[lane] == NULL) {
            return FAIL;
        }
    }
    touch_shared_lanes(run, ctas, offsets, mask, bytes, write ? ACCESS_WRITE : ACCESS_READ);
    FOR_LANES(rest, mask) {
        move(ctas[LANE(rest)]->shared + offsets[LANE(rest)], bytes, write, &values[LANE(rest)]);
    }
    count_shared(run, offsets, mask, bytes, write);
    return NEXT;
}

static enum next global_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                              bool write, uint64_t values[LANES]) {
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        if (addresses[lane] % bytes != 0) {
            return misaligned(run, lane, addresses[lane], bytes);
        }
        if (global_memory(run, addresses[lane], bytes, lane, write) == NULL) {
            return FAIL;
        }
    }
    touch_global_lanes(run, addresses, mask, bytes, write ? ACCESS_WRITE : ACCESS_READ);
    const struct known *view = delayed_view(run);
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        uint8_t room[sizeof *values];
        if (view == NULL) {
            move((uint8_t *)(uintptr_t)addresses[lane], bytes, write, &values[lane]);
        } else if (write) {
            memcpy(room, &values[lane], sizeof room);
            delayed_write(run->launch, view, addresses[lane], bytes, room);
        } else {
            (void)delayed_read(run->launch, view, addresses[lane], bytes, room);
            move(room, bytes, false, &values[lane]);
        }
    }
    count_global(run, addresses, mask, bytes, write);
    return NEXT;
}

enum next lane_access(struct run *run, unsigned space, const uint64_t addresses[LANES], uint32_t mask,
                      uint32_t bytes, bool write, uint64_t values[LANES]) {
    const uint64_t window = mask == 0 ? 0 : addresses[__builtin_ctz(mask)] & WINDOW_MASK;
    const bool shared =
        space == SP_SHARED || space == SP_SHARED_CLUSTER || (space == SP_GENERIC && window == SHARED_WINDOW);
    if (shared) {
        return shared_lanes(run, space, addresses, mask, bytes, write, values);
    }
    if (space == SP_GENERIC && window != 0) { /* local memory or parameters, which no other thread sees */
        FOR_LANES(rest, mask) {
            struct cta *cta;
            uint32_t offset;
            uint8_t *at = generic_memory(run, addresses[LANE(rest)], bytes, LANE(rest), write, &cta, &offset);
            if (at == NULL) {
                return FAIL;
            }
            move(at, bytes, write, &values[LANE(rest)]);
        }
        return NEXT;
    }
    return global_lanes(run, addresses, mask, bytes, write, values);
}
