/* Execution of ld and st (PTX ISA, Data Movement: ld, ld.global.nc, ldu, st). */
#include "load_store.h"

#include <stdatomic.h>

#include "async/async.h"
#include "hazard/global/global_record.h"
#include "isa/opcodes.h"
#include "lane_access.h"
#include "machine/count.h"
#include "machine/machine.h"

#define MOST_BYTES 32 /* largest access of a lane */

/* Sign- or zero-extends a loaded value to its register. */
static inline uint64_t extend(uint64_t value, unsigned type) {
    switch (type) {
    case T_S8:
        return (uint64_t)(int64_t)(int8_t)(uint8_t)value;
    case T_S16:
        return (uint64_t)(int64_t)(int16_t)(uint16_t)value;
    case T_S32:
        return (uint64_t)(int64_t)(int32_t)(uint32_t)value;
    default:
        return value;
    }
}

static inline void put(void *to, struct operand operand, int lane, uint64_t value, uint32_t reg_mask) {
    if (operand.wide) {
        ((uint64_t *)to)[lane] = value;
    } else {
        ((uint32_t *)to)[lane] = (uint32_t)value & reg_mask;
    }
}

enum { QUAD_BYTES = 16 }; /* the widest access that no other one divides */

/* op: the vector's registers, then the address in `base`. */
struct access {
    uint32_t vec, element, bytes; /* bytes: a power of two */
    struct operand base;
};

static inline struct access access_of(const struct insn *insn) {
    uint32_t element = insn->memory.element_bytes;
    return (struct access){insn->memory.elements, element, element * insn->memory.elements,
                           insn->op[insn->memory.elements]};
}

/* Copies one element for all lanes. `bytes` is constant at each call, so that memcpy is one instruction. */
static inline void element_in(const struct insn *insn, void *to, struct operand operand,
                              uint8_t *const at[LANES], uint32_t skip, uint32_t mask, const uint32_t bytes) {
    const bool whole = bytes == sizeof(uint32_t) && !operand.wide;
    FOR_LANES(rest, whole ? mask : 0) {
        memcpy((uint32_t *)to + LANE(rest), at[LANE(rest)] + skip, sizeof(uint32_t));
    }
    FOR_LANES(rest, whole ? 0 : mask) {
        uint64_t value = 0;
        memcpy(&value, at[LANE(rest)] + skip, bytes);
        put(to, operand, LANE(rest), extend(value, insn->type), insn->memory.register_mask);
    }
}

static inline void element_out(const void *from, struct operand operand, uint8_t *const at[LANES],
                               uint32_t skip, uint32_t mask, const uint32_t bytes) {
    FOR_LANES(rest, mask) {
        uint64_t value =
            operand.wide ? ((const uint64_t *)from)[LANE(rest)] : ((const uint32_t *)from)[LANE(rest)];
        memcpy(at[LANE(rest)] + skip, &value, bytes);
    }
}

static atomic_flag quad_taken = ATOMIC_FLAG_INIT;

void quad_begin(void) {
    while (atomic_flag_test_and_set_explicit(&quad_taken, memory_order_acquire)) {
    }
}

void quad_end(void) {
    atomic_flag_clear_explicit(&quad_taken, memory_order_release);
}

#define ELEMENT(bytes)                                                                                         \
    case bytes:                                                                                                \
        write ? element_out(lanes, operand, at, skip, mask, bytes)                                             \
              : element_in(insn, lanes, operand, at, skip, mask, bytes);                                       \
        break

/* Copies between registers and memory; at[lane] is the lane's place. */
static void transfer(struct run *run, const struct insn *insn, const struct access *a, uint8_t *const at[LANES],
                     uint32_t mask, bool write) {
    /* HW: an aligned vector of 16 bytes is one access; CUB keeps a status and a value in one. */
    bool whole = insn->memory.strong && (insn->memory.quad || (a->vec > 1 && a->bytes <= QUAD_BYTES));
    if (a->bytes == sizeof(uint32_t) && a->vec == 1 && !insn->op[0].wide && !insn->op[0].sink &&
        mask == ALL_LANES && IN_A_ROW(uintptr_t, at, sizeof(uint32_t))) {
        void *lanes = row(run, insn->op[0]);
        memcpy(write ? at[0] : lanes, write ? lanes : at[0], ROW32);
        return;
    }
    if (whole) {
        quad_begin();
    }
    for (uint32_t i = 0; i < a->vec; i++) {
        struct operand operand = insn->op[i];
        void *lanes = row(run, operand);
        uint32_t skip = i * a->element;
        if (!write && operand.sink) {
            continue;
        }
        switch (a->element) {
            ELEMENT(1);
            ELEMENT(2);
            ELEMENT(4);
            ELEMENT(8);
        }
    }
    if (whole) {
        quad_end();
    }
}

static inline uint64_t lane_address(const struct run *run, const struct insn *insn, const struct access *a,
                                    int lane) {
    uint64_t base = lane_u64(run, a->base, lane);
    return a->base.wide ? base + (uint64_t)insn->offset : (uint32_t)(base + (uint64_t)insn->offset);
}

/* True if all lanes' addresses are in one allocation, which saves a search per lane. */
static bool whole_range(struct run *run, const uint64_t *addresses, uint32_t mask, uint32_t bytes) {
    uint64_t low = UINT64_MAX, high = 0;
    LANEWISE(mask, low = addresses[l] < low ? addresses[l] : low;
             high = addresses[l] > high ? addresses[l] : high);
    return find_range(run->launch->sim, run->worker, low, high - low + bytes);
}

/* Strong accesses do not race with each other, like atomics (PTX ISA, Memory Consistency Model: data race). A
 * volatile store is a signal if a fence, in shared memory also a barrier, follows all stores before it. */
static unsigned access_flags(const struct run *run, const struct insn *insn, bool write, bool shared) {
    const bool signals = write && (run->warp->settled & (shared ? FENCED | BARRED : FENCED)) != 0;
    return (write ? ACCESS_WRITE : ACCESS_READ) | (insn->memory.strong ? ACCESS_ATOMIC : 0u) |
           (insn->memory.is_volatile && !signals ? ACCESS_BARE : 0u);
}

/* A transfer that hides stores of earlier launches which the running warp does not know to be complete. */
static void delayed_transfer(struct run *run, const struct insn *insn, const struct access *a,
                             const uint64_t *addresses, uint32_t mask, bool write, const struct known *view) {
    uint8_t room[LANES][MOST_BYTES];
    uint8_t *places[LANES] = {NULL};
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        places[lane] = room[lane];
        if (!write) {
            (void)delayed_read(run->launch, view, addresses[lane], a->bytes, room[lane]);
        }
    }
    transfer(run, insn, a, places, mask, write);
    FOR_LANES(rest, write ? mask : 0) {
        delayed_write(run->launch, view, addresses[LANE(rest)], a->bytes, room[LANE(rest)]);
    }
}

/* True if the running store writes the values that memory already holds, to those of the 128 bytes at `address`
 * that are in the mask. */
static bool leaves_memory(const struct run *run, uint64_t address, const uint64_t mask[2]) {
    struct access a = access_of(run->insn);
    bool same = true;
    FOR_LANES(rest, run->mask) {
        const int lane = LANE(rest);
        const uint64_t at = lane_address(run, run->insn, &a, lane) - address;
        for (uint32_t i = 0; i < a.bytes && same; i++) {
            const uint64_t place = at + i;
            if (place < 128 && (mask[place / 64] >> place % 64 & 1) != 0) {
                uint64_t value = lane_u64(run, run->insn->op[i / a.element], lane);
                same =
                    *(const uint8_t *)(uintptr_t)(address + place) == (uint8_t)(value >> 8 * (i % a.element));
            }
        }
    }
    return same;
}

/* Reports a lane that stores other values to the place of an earlier lane.  Aligned accesses of one size
 * coincide or lie apart. */
static void check_lanes_apart(struct run *run, const struct insn *insn, const struct access *a,
                              uint8_t *const places[LANES], uint32_t mask) {
    enum { SLOTS = 64 };
    uint64_t taken = 0;
    bool rising = mask == ALL_LANES;
    uint8_t slot_lane[SLOTS];
    /* Mostly each lane's address is above the last one's. */
    for (int l = 1; mask == ALL_LANES && l < LANES; l++) {
        rising &= places[l] > places[l - 1];
    }
    FOR_LANES(rest, rising ? 0 : mask) {
        const int lane = LANE(rest);
        const uint32_t slot = (uint32_t)((uintptr_t)places[lane] / a->bytes) % SLOTS;
        int before = taken >> slot & 1 ? slot_lane[slot] : -1;
        if (before >= 0 && places[before] != places[lane]) {
            before = -1;
            FOR_LANES(earlier, mask & ((1u << lane) - 1)) {
                before = places[LANE(earlier)] == places[lane] ? LANE(earlier) : before;
            }
        }
        for (uint32_t i = 0; before >= 0 && i < a->vec; i++) {
            const uint64_t differ = lane_u64(run, insn->op[i], lane) ^ lane_u64(run, insn->op[i], before);
            if (differ << (64 - 8 * a->element) != 0) {
                (void)sim_report_pair(run, SIM_ERROR, "lane-race", lane, NULL,
                                      "two lanes of a warp store different values to one address");
                return;
            }
        }
        taken |= (uint64_t)1 << slot;
        slot_lane[slot] = (uint8_t)lane;
    }
}

static enum next global_access(struct run *run, const struct insn *insn, uint32_t mask, bool write) {
    struct access a = access_of(insn);
    uint64_t addresses[LANES];
    bool aligned = false;
    if (mask == ALL_LANES && a.base.wide) { /* the loop below, vectorised */
        const uint64_t *base = row(run, a.base);
        uint64_t bits = 0;
        for (int lane = 0; lane < LANES; lane++) {
            addresses[lane] = base[lane] + (uint64_t)insn->offset;
            bits |= addresses[lane];
        }
        aligned = (bits & (a.bytes - 1)) == 0;
    }
    FOR_LANES(rest, aligned ? 0 : mask) {
        int lane = LANE(rest);
        addresses[lane] = lane_address(run, insn, &a, lane);
        if ((addresses[lane] & (a.bytes - 1)) != 0) {
            return misaligned(run, lane, addresses[lane], a.bytes);
        }
    }
    if (!whole_range(run, addresses, mask, a.bytes)) {
        FOR_LANES(rest, mask) {
            if (global_memory(run, addresses[LANE(rest)], a.bytes, LANE(rest), write) == NULL) {
                return FAIL;
            }
        }
    }
    uint8_t *places[LANES];
    LANEWISE(mask, places[l] = (uint8_t *)(uintptr_t)addresses[l]);
    const bool plain = write && !insn->memory.strong && run->cluster->checks;
    check_lanes_apart(run, insn, &a, places, plain ? mask : 0);
    run->leaves_memory = write && !insn->memory.strong ? leaves_memory : NULL;
    touch_global_lanes(run, addresses, mask, a.bytes, access_flags(run, insn, write, false));
    run->warp->settled = write ? 0 : run->warp->settled;
    run->leaves_memory = NULL;
    const struct known *view = insn->memory.strong ? NULL : delayed_view(run);
    if (view != NULL) {
        delayed_transfer(run, insn, &a, addresses, mask, write, view);
    } else {
        transfer(run, insn, &a, places, mask, write);
    }
    count_global(run, addresses, mask, a.bytes, write);
    return NEXT;
}

/* The bytes that a store is about to write to shared memory, for the checks. */
struct store_values {
    struct new_values common; /* first member: the checks see only this part */
    const struct access *access;
    struct cta *const *ctas;
    const uint32_t *offsets;
    uint32_t mask;
};

static void fill_values(const struct run *run, const struct new_values *values, const struct cta *cta,
                        uint32_t offset, uint8_t bytes[16]) {
    const struct store_values *v = (const struct store_values *)(const void *)values;
    FOR_LANES(rest, v->mask) {
        int lane = LANE(rest);
        for (uint32_t i = 0; v->ctas[lane] == cta && i < v->access->vec; i++) {
            uint64_t value = lane_u64(run, run->insn->op[i], lane);
            for (uint32_t j = 0; j < v->access->element; j++) {
                uint32_t at = v->offsets[lane] + i * v->access->element + j - offset;
                if (at < 16) {
                    bytes[at] = (uint8_t)(value >> (8 * j));
                }
            }
        }
    }
}

/* The lanes' offsets in the running CTA's shared memory, vectorised.  False if an address is not plainly in it:
 * it is another CTA's, or a bad one. */
static bool own_offsets(const struct run *run, const struct insn *insn, const struct access *a, uint32_t mask,
                        uint32_t offsets[LANES]) {
    const uint32_t first = run->cta->rank << RANK_SHIFT, floor = run->launch->shared_floor;
    const uint32_t last = run->cta->shared_bytes - a->bytes, *narrow = row(run, a->base);
    const uint64_t *wide = row(run, a->base), offset = (uint64_t)insn->offset;
    uint32_t addresses[LANES], elsewhere = 0;
    for (uint32_t l = 0; a->base.wide && l < LANES; l++) {
        const uint64_t address = (wide[l] + offset) & ~WINDOW_MASK;
        addresses[l] = address >> 32 == 0 ? (uint32_t)address : UINT32_MAX;
    }
    for (uint32_t l = 0; !a->base.wide && l < LANES; l++) {
        addresses[l] = narrow[l] + (uint32_t)offset;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        const uint32_t lane = -(mask >> l & 1), place = (addresses[l] - first) & lane;
        elsewhere |= ((place < floor) | (place > last) | (place & (a->bytes - 1))) & lane;
        offsets[l] = place;
    }
    return elsewhere == 0 && run->cta->shared_bytes >= a->bytes;
}

static enum next shared_access(struct run *run, const struct insn *insn, uint32_t mask, bool write) {
    struct access a = access_of(insn);
    uint32_t offsets[LANES];
    struct cta *cta = run->cta;
    bool same = true, own_only = insn->space == SP_SHARED;
    struct cta *ctas[LANES];
    uint8_t *places[LANES];
    const bool own = own_offsets(run, insn, &a, mask, offsets);
    for (uint32_t l = 0; own && l < LANES; l++) {
        ctas[l] = cta;
        places[l] = cta->shared + offsets[l];
    }
    FOR_LANES(rest, own ? 0 : mask) {
        int lane = LANE(rest);
        uint64_t address = lane_address(run, insn, &a, lane) & ~(a.base.wide ? WINDOW_MASK : 0);
        ctas[lane] = shared_cta(run, address, a.bytes, a.bytes, lane, own_only, &offsets[lane]);
        if (ctas[lane] == NULL) {
            return FAIL;
        }
        same &= ctas[lane] == cta;
        places[lane] = ctas[lane]->shared + offsets[lane];
    }
    if (!same && run->worker->footprint != NULL) {
        run->worker->footprint->remote = a.bytes * (uint32_t)__builtin_popcount(mask);
    }
    struct store_values values = {{fill_values}, &a, ctas, offsets, mask};
    run->values = write && !insn->memory.strong ? &values.common : NULL;
    check_lanes_apart(run, insn, &a, places, run->values != NULL && run->cluster->checks ? mask : 0);
    if (same && run->cluster->checks) {
        hazard_lanes(run, cta, offsets, mask, a.bytes, access_flags(run, insn, write, true));
        mbarrier_untouched(run, cta, offsets, mask, a.bytes, write);
    }
    if (!same) {
        touch_shared_lanes(run, ctas, offsets, mask, a.bytes, access_flags(run, insn, write, true));
    }
    run->values = NULL;
    run->warp->settled = write ? 0 : run->warp->settled;
    transfer(run, insn, &a, places, mask, write);
    count_shared(run, offsets, mask, a.bytes, write);
    return NEXT;
}

static enum next other_access(struct run *run, const struct insn *insn, uint32_t mask, bool write) {
    struct access a = access_of(insn);
    uint64_t window = insn->space == SP_LOCAL ? LOCAL_WINDOW : insn->space == SP_PARAM ? PARAM_WINDOW : 0;
    uint8_t *places[LANES];
    const bool one_place = insn->space == SP_PARAM && a.base.base == BASE_CONST;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct cta *cta;
        uint32_t offset = 0;
        if (one_place && rest != mask) { /* a named parameter */
            places[lane] = places[LANE(mask)];
            continue;
        }
        uint64_t address = lane_address(run, insn, &a, lane) | window;
        if ((address & (a.bytes - 1)) != 0) {
            return misaligned(run, lane, address, a.bytes);
        }
        uint8_t *at = generic_memory(run, address, a.bytes, lane, write, &cta, &offset);
        if (at == NULL) {
            return FAIL;
        }
        if (cta != NULL && run->cluster->checks) {
            uint32_t offsets[LANES];
            offsets[lane] = offset;
            hazard_lanes(run, cta, offsets, 1u << lane, a.bytes, access_flags(run, insn, write, true));
        }
        if ((address & WINDOW_MASK) == 0) {
            touch_global(run, address, a.bytes, lane, access_flags(run, insn, write, false));
        }
        places[lane] = at;
    }
    transfer(run, insn, &a, places, mask, write);
    return NEXT;
}

/* If all lanes' generic addresses are in one space, runs as an access to that space. */
static enum next generic_access(struct run *run, const struct insn *insn, uint32_t mask, bool write) {
    struct access a = access_of(insn);
    uint32_t global = 0, shared = 0;
    if (insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER) {
        return shared_access(run, insn, mask, write);
    }
    FOR_LANES(rest, mask) {
        uint64_t window = lane_address(run, insn, &a, LANE(rest)) & WINDOW_MASK;
        global |= (uint32_t)(window == 0) << LANE(rest);
        shared |= (uint32_t)(window == SHARED_WINDOW) << LANE(rest);
    }
    return global == mask   ? global_access(run, insn, mask, write)
           : shared == mask ? shared_access(run, insn, mask, write)
                            : other_access(run, insn, mask, write);
}

#define FORMS(name, function)                                                                                  \
    static enum next ld_##name(struct run *run, const struct insn *insn, uint32_t mask) {                      \
        return function(run, insn, mask, false);                                                               \
    }                                                                                                          \
    static enum next st_##name(struct run *run, const struct insn *insn, uint32_t mask) {                      \
        return function(run, insn, mask, true);                                                                \
    }
FORMS(global, global_access)
FORMS(shared, shared_access)
FORMS(generic, generic_access)
FORMS(other, other_access)

static enum next ld_strong(struct run *run, const struct insn *insn, uint32_t mask) {
    enum next next = generic_access(run, insn, mask, false);
    if (next != NEXT) {
        return next;
    }
    sync_location(run, mask, sync_order(insn->memory.ordered, insn->memory.of_cta), false);
    return YIELD; /* it may be polling for what another warp writes */
}

static enum next st_strong(struct run *run, const struct insn *insn, uint32_t mask) {
    run->cluster->events++;
    sync_location(run, mask, sync_order(insn->memory.ordered, insn->memory.of_cta), true);
    return generic_access(run, insn, mask, true);
}

exec_fn memory_fn(unsigned space, bool write, bool strong) {
    if (strong) {
        return write ? st_strong : ld_strong;
    }
    switch (space) {
    case SP_SHARED:
    case SP_SHARED_CLUSTER:
        return write ? st_shared : ld_shared;
    case SP_GLOBAL:
    case SP_CONST:
        return write ? st_global : ld_global;
    case SP_GENERIC:
        return write ? st_generic : ld_generic;
    default:
        return write ? st_other : ld_other;
    }
}
