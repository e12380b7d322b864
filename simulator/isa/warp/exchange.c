/* Exchanges between the lanes of a warp (PTX ISA: shfl.sync, vote.sync, match.sync, elect.sync, redux.sync,
 * activemask). */
#include <math.h>

#include "async/bulk.h"
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "tensorcore/mma/formats.h"

/* Lanes with the same member mask; complete: all lanes in the mask are here. */
struct party {
    uint32_t lanes, named;
    bool complete;
};

static struct wait wait_for_lanes(const struct party *party) {
    return (struct wait){.kind = WAIT_CONVERGE, .a = party->named, .what = "lanes of the member mask"};
}

/* Groups the lanes by member mask; false after reporting a lane that is not in its own mask. */
static bool find_parties(struct run *run, const uint32_t *named, uint32_t mask, struct party party[LANES],
                         uint32_t *count) {
    *count = 0;
    while (mask != 0) {
        struct party one = {.named = named[__builtin_ctz(mask)]};
        FOR_LANES(rest, mask) {
            one.lanes |= (uint32_t)(named[LANE(rest)] == one.named) << LANE(rest);
        }
        if ((one.lanes & ~one.named) != 0) {
            int lane = __builtin_ctz(one.lanes & ~one.named);
            (void)sim_report(run, SIM_ERROR, "member-mask", lane,
                             "lane %d executes a .sync instruction whose member mask %#x leaves it out", lane,
                             one.named);
            return false;
        }
        one.complete = (one.named & run->warp->live & ~one.lanes) == 0;
        party[(*count)++] = one;
        mask &= ~one.lanes;
    }
    return true;
}

/* Waits until all lanes of the member mask are here. Lanes with different masks exchange separately: *mask
 * becomes the first complete set, and every other set becomes a split of its own. */
static enum next gather(struct run *run, struct operand members, uint32_t *mask) {
    struct party party[LANES];
    uint32_t count, first = 0, passed = run->split->mask & ~*mask; /* lanes that the predicate leaves out */
    if (!find_parties(run, row(run, members), *mask, party, &count)) {
        return FAIL;
    }
    while (first < count && !party[first].complete) {
        first++;
    }
    const struct party *own = &party[first < count ? first : 0];
    for (uint32_t i = 0; i < count; i++) {
        if (&party[i] != own) {
            struct split *split = add_split(run, party[i].lanes, run->split->pc);
            split->wait = party[i].complete ? split->wait : wait_for_lanes(&party[i]);
        }
    }
    if (own->complete) {
        run->split->mask = own->lanes | passed;
        run->mask = *mask = own->lanes;
        warp_synced(run, own->lanes);
        return NEXT;
    }
    if (passed != 0) {
        (void)add_split(run, passed, run->split->pc + 1);
    }
    run->split->mask = own->lanes;
    return wait_for(run, wait_for_lanes(own));
}

/* op: d, p or _, a, b, c, member mask */
static enum next exec_shfl(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t source[LANES], found = 0, result[LANES];
    enum next next = gather(run, insn->op[5], &mask);
    if (next != NEXT) {
        return next;
    }
    memcpy(source, row(run, insn->op[2]), sizeof source);
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        int b = (int)(lane_u32(run, insn->op[3], lane) & 31), c = (int)lane_u32(run, insn->op[4], lane);
        int clamp = c & 31, segment = c >> 8 & 31;
        int highest = (lane & segment) | (clamp & ~segment & 31), lowest = lane & segment, from;
        bool inside;
        switch (insn->warp.mode) {
        case 0: /* up */
            from = lane - b;
            inside = from >= highest; /* the clamp is a lower bound here */
            break;
        case 1: /* down */
            from = lane + b;
            inside = from <= highest;
            break;
        case 2: /* bfly */
            from = lane ^ b;
            inside = from <= highest;
            break;
        default:
            from = lowest | (b & ~segment & 31);
            inside = from <= highest;
        }
        from = inside ? from : lane;
        found |= (uint32_t)inside << lane;
        if (!(mask >> from & 1)) {
            /* The last lanes of a tree over part of a warp read past its end, and drop what comes. */
            const bool past =
                insn->warp.mode == 0 ? from < __builtin_ctz(mask) : from > 31 - __builtin_clz(mask);
            const bool review = past && insn->warp.mode < 2;
            const enum next end = sim_report(run, review ? SIM_REVIEW : SIM_ERROR, "shuffle-source", lane,
                                             "lane %d reads lane %d, which does not take part in the shuffle%s",
                                             lane, from, review ? ": its value is undefined" : "");
            if (end != NEXT) {
                return end;
            }
            from = lane;
        }
        result[lane] = source[from];
    }
    uint32_t *d = row(run, insn->op[0]);
    FOR_LANES(rest, mask) {
        d[LANE(rest)] = result[LANE(rest)];
    }
    if (!insn->op[1].sink) {
        set_pred(run, insn->op[1], mask, found);
    }
    return NEXT;
}

void decode_shfl(struct decoder *d) {
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    const struct operand_text none = {.kind = PO_SINK};
    bool sync = mod(d, "sync");
    int mode = mod_of(d, COUNTED(modes));
    unsigned type = mod_type(d);
    need_operands(d, 5, 5);
    if (!sync || mode < 0 || type != T_B32) {
        decode_fail(d, "expected shfl.sync.{up,down,bfly,idx}.b32");
    }
    d->insn->warp.mode = (uint8_t)mode;
    d->insn->fn = exec_shfl;
    emit_dst(d, &d->op[0], T_B32);
    emit_dst(d, d->op[0].second != NULL ? d->op[0].second : &none, T_PRED);
    for (int i = 1; i < 5; i++) {
        emit(d, src(d, &d->op[i], T_B32));
    }
}

/* op: d, predicate, member mask */
static enum next exec_vote(struct run *run, const struct insn *insn, uint32_t mask) {
    enum next next = gather(run, insn->op[2], &mask);
    if (next != NEXT) {
        return next;
    }
    uint32_t yes = pred(run, insn->op[1]) & mask;
    bool result = insn->warp.mode == 0   ? yes == mask
                  : insn->warp.mode == 1 ? yes != 0
                                         : yes == mask || yes == 0;
    if (insn->warp.mode == 3) {
        uint32_t *d = row(run, insn->op[0]);
        LANEWISE(mask, d[l] = yes);
    } else {
        set_pred(run, insn->op[0], mask, result ? ALL_LANES : 0);
    }
    return NEXT;
}

void decode_vote(struct decoder *d) {
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    bool sync = mod(d, "sync");
    int mode = mod_of(d, COUNTED(modes));
    unsigned type = mod_type(d);
    if (!sync || mode < 0 || type != (mode == 3 ? T_B32 : T_PRED)) {
        decode_fail(d, "expected vote.sync.{all,any,uni}.pred or vote.sync.ballot.b32");
    }
    d->insn->warp.mode = (uint8_t)mode;
    d->insn->fn = exec_vote;
    EMIT_OPERANDS(d, type, T_PRED, T_B32);
}

/* op: d, p or _, a, member mask */
static enum next exec_match(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t result[LANES], same = ALL_LANES;
    enum next next = gather(run, insn->op[3], &mask);
    if (next != NEXT) {
        return next;
    }
    for (uint32_t rest = mask, equal; rest != 0; rest &= ~equal) { /* each value once */
        equal = lanes_with(run, insn->op[2], rest, lane_u64(run, insn->op[2], LANE(rest)));
        FOR_LANES(lanes, equal) {
            result[LANE(lanes)] = equal;
        }
        same = equal == mask ? ALL_LANES : 0;
    }
    uint32_t *d = row(run, insn->op[0]);
    FOR_LANES(rest, mask) {
        d[LANE(rest)] = insn->warp.all ? (same ? mask : 0) : result[LANE(rest)];
    }
    if (!insn->op[1].sink) {
        set_pred(run, insn->op[1], mask, same);
    }
    return NEXT;
}

void decode_match(struct decoder *d) {
    const struct operand_text none = {.kind = PO_SINK};
    bool all = mod(d, "all");
    if (!mod(d, "sync") || (!all && !mod(d, "any"))) {
        decode_fail(d, "expected match.{any,all}.sync");
    }
    unsigned type = mod_type(d);
    need_operands(d, 3, 3);
    d->insn->warp.all = all;
    d->insn->fn = exec_match;
    emit_dst(d, &d->op[0], T_B32);
    emit_dst(d, d->op[0].second != NULL ? d->op[0].second : &none, T_PRED);
    emit(d, src(d, &d->op[1], type));
    emit(d, src(d, &d->op[2], T_B32));
}

/* op: d, p, member mask. The lowest lane is elected, as on the chip. */
static enum next exec_elect(struct run *run, const struct insn *insn, uint32_t mask) {
    enum next next = gather(run, insn->op[2], &mask);
    if (next != NEXT) {
        return next;
    }
    uint32_t leader = (uint32_t)__builtin_ctz(mask);
    uint32_t *d = row(run, insn->op[0]);
    if (!insn->op[0].sink) {
        LANEWISE(mask, d[l] = leader);
    }
    set_pred(run, insn->op[1], mask, 1u << leader);
    return NEXT;
}

void decode_elect(struct decoder *d) {
    if (!mod(d, "sync")) {
        decode_fail(d, "expected elect.sync");
    }
    need_operands(d, 2, 2);
    if (d->op[0].second == NULL) {
        decode_fail(d, "expected a predicate destination");
    }
    d->insn->fn = exec_elect;
    emit_dst(d, &d->op[0], T_B32);
    emit_dst(d, d->op[0].second, T_PRED);
    emit(d, src(d, &d->op[1], T_B32));
}

/* op: d, a, member mask */
static enum next exec_redux(struct run *run, const struct insn *insn, uint32_t mask) {
    enum next next = gather(run, insn->op[2], &mask);
    if (next != NEXT) {
        return next;
    }
    const uint32_t *a = row(run, insn->op[1]), kept = insn->warp.absolute ? INT32_MAX : UINT32_MAX;
    uint32_t sum = a[__builtin_ctz(mask)] & kept;
    FOR_LANES(rest, mask & (mask - 1)) {
        uint32_t b = a[LANE(rest)] & kept;
        if (insn->type == T_F32) {
            float x = tc_f32_of_bits(sum), y = tc_f32_of_bits(b);
            sum = tc_bits_of_f32(insn->warp.nan && (x != x || y != y) ? NAN
                                 : insn->warp.operation == REDUCE_MIN ? fminf(x, y)
                                                                      : fmaxf(x, y));
        } else {
            sum = (uint32_t)reduced(insn->warp.operation, insn->type, sum, b);
        }
    }
    uint32_t *d = row(run, insn->op[0]);
    LANEWISE(mask, d[l] = sum);
    return NEXT;
}

void decode_redux(struct decoder *d) {
    bool sync = mod(d, "sync");
    int op = decode_reduction(d);
    d->insn->warp.absolute = mod(d, "abs");
    d->insn->warp.nan = mod(d, "NaN");
    unsigned type = mod_type(d);
    if (!sync || op == REDUCE_NONE || op == REDUCE_INC || op == REDUCE_DEC || ptx_type_bytes(type) != 4 ||
        (type == T_F32 ? op != REDUCE_MIN && op != REDUCE_MAX : d->insn->warp.absolute || d->insn->warp.nan)) {
        decode_fail(d, "there is no form for this operation and type");
    }
    d->insn->type = (uint8_t)type;
    d->insn->warp.operation = (uint8_t)op;
    d->insn->fn = exec_redux;
    EMIT_OPERANDS(d, type, type, T_B32);
}

static enum next exec_activemask(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    LANEWISE(mask, d[l] = mask);
    return NEXT;
}

void decode_activemask(struct decoder *d) {
    if (mod_type(d) != T_B32) {
        decode_fail(d, "expected type .b32");
    }
    d->insn->fn = exec_activemask;
    EMIT_OPERANDS(d, T_B32);
}
