#include "races.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_USES 16 /* of a line by different warps; later reads are not remembered */

enum order { ORDERED, NO_ORDER, NO_FENCE };

static enum order order_of(const struct line_access *access, const struct line_use *use) {
    const struct run *run = access->run;
    const struct epoch *epoch = access->epoch;
    const unsigned flags = access->flags;
    const struct clockv *clock = epoch->clock;
    const uint32_t heard = run->cluster->heard_index;
    const bool fence = (flags & ACCESS_ASYNC) && (use->flags & ACCESS_WRITE) && !(use->flags & ACCESS_ASYNC);
    if (use->cluster == run->cluster->number) {
        return clock->acquired[use->clock_index] < use->value         ? NO_ORDER
               : fence && clock->async[use->clock_index] < use->value ? NO_FENCE
                                                                      : ORDERED;
    }
    return !heard_of(run, clock->acquired[heard], use->cluster, use->clock_index, use->value)         ? NO_ORDER
           : fence && !heard_of(run, clock->async[heard], use->cluster, use->clock_index, use->value) ? NO_FENCE
                                                                                                      : ORDERED;
}

static void report(const struct line_access *access, const struct line_use *use, enum order order) {
    struct run *run = access->run;
    const unsigned flags = access->flags;
    const uint64_t both[RECORD_WORDS] = {use->mask[0] & access->mask[0], use->mask[1] & access->mask[1]};
    const int byte = both[0] != 0 ? __builtin_ctzll(both[0]) : 64 + __builtin_ctzll(both[1]);
    const struct insn *other = &run->launch->module->code[use->pc];
    const bool both_write = (flags & ACCESS_WRITE) && (use->flags & ACCESS_WRITE);
    const bool one_strong = (flags ^ use->flags) & ACCESS_ATOMIC;
    const bool same = both_write && !one_strong && run->leaves_memory != NULL && run->leaves_memory(run);
    const bool lost = order == NO_ORDER && (releases_lost(run->launch) || flags_lost(run->cluster));
    char message[300];
    (void)snprintf(
        message, sizeof message, "%s global memory that %s %s: %s%s",
        flags & ACCESS_WRITE ? both_write ? "overwrites" : "writes" : "reads",
        use->cluster == run->cluster->number ? "another warp of the cluster" : "another cluster of the grid",
        use->flags & ACCESS_WRITE ? "writes" : "reads",
        order == NO_FENCE ? "ordinary stores and a bulk copy, with no fence.proxy.async in between"
        : same            ? "nothing orders the two, and both write the same values"
        : one_strong
            ? "nothing orders the two, of which one is strong (an atomic, a volatile or a .relaxed access)"
            : "nothing orders the two: no barrier, and no release and acquire of a flag",
        lost ? "; not judged: the launch uses more flags than the checks can follow" : "");
    sim_note_global(run->launch,
                    lost                 ? SIM_INCOMPLETE
                    : same || one_strong ? SIM_REVIEW
                                         : SIM_ERROR,
                    order == NO_FENCE ? "missing-proxy-fence" : "global-race", run->cta, (int)run->warp->index,
                    access->lane, access->allocation, access->start + (uint64_t)byte, run->insn, other,
                    message);
}

static bool overlap(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((a[0] & b[0]) | (a[1] & b[1])) != 0;
}

static bool within(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((a[0] & ~b[0]) | (a[1] & ~b[1])) == 0;
}

static inline struct line_use *use_at(struct line_uses *uses, uint32_t at) {
    return at == 0 ? &uses->first : &uses->more[at - 1];
}

/* Room for one more. */
static bool make_room(struct line_uses *uses) {
    if (uses->count <= uses->room) {
        return true;
    }
    uint32_t room = uses->room == 0 ? 2 : 2 * uses->room;
    struct line_use *grown = realloc(uses->more, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    uses->more = grown;
    uses->room = room;
    return true;
}

bool races_meet(const struct line_access *access, struct line_uses *uses) {
    struct run *run = access->run;
    const struct epoch *epoch = access->epoch;
    const uint64_t *mask = access->mask;
    const unsigned flags = access->flags;
    const bool write = flags & ACCESS_WRITE;
    const uint32_t cluster = (uint32_t)run->cluster->number;
    if (uses->launch != run->launch->order.number) {
        uses->launch = run->launch->order.number;
        uses->count = 0;
    }
    struct line_use *own = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < uses->count; i++) {
        struct line_use *use = use_at(uses, i);
        const bool mine = use->cluster == cluster && use->warp == run->warp->number;
        const bool conflict = !mine && (write || (use->flags & ACCESS_WRITE)) && overlap(use->mask, mask) &&
                              !(use->flags & flags & ACCESS_ATOMIC);
        enum order order = conflict ? order_of(access, use) : ORDERED;
        if (order != ORDERED) {
            report(access, use, order);
        }
        /* Who comes after a write comes after what it covers and came before it. */
        const bool covered = (conflict || mine) && write && within(use->mask, mask);
        if (covered) {
            continue;
        }
        struct line_use *stays = use_at(uses, kept);
        if (stays != use) {
            *stays = *use;
        }
        own = use->cluster == cluster && use->clock_index == epoch->clock_index && use->flags == flags &&
                      (use->value == epoch->value || within(use->mask, mask))
                  ? stays
                  : own;
        kept++;
    }
    uses->count = kept;
    if (own != NULL) {
        own->mask[0] |= mask[0];
        own->mask[1] |= mask[1];
        own->value = epoch->value;
        own->pc = (uint32_t)(epoch->insn - run->launch->module->code);
        return true;
    }
    if (kept >= MOST_USES && !write) {
        return true;
    }
    if (!make_room(uses)) {
        return false;
    }
    *use_at(uses, uses->count++) = (struct line_use){.mask = {mask[0], mask[1]},
                                                     .cluster = cluster,
                                                     .value = epoch->value,
                                                     .pc = (uint32_t)(epoch->insn - run->launch->module->code),
                                                     .clock_index = (uint16_t)epoch->clock_index,
                                                     .warp = (uint16_t)run->warp->number,
                                                     .flags = (uint8_t)flags};
    return true;
}
