/* Exchanges between the lanes of a warp (PTX ISA: shfl.sync, vote.sync, match.sync, elect.sync, redux.sync,
 * activemask). */
#include <math.h>

#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "machine/machine.h"

/* Lanes named by the member mask have to be here; the mask is the same in all of them. */
static enum next gather(struct run *run, struct operand members, uint32_t mask, uint32_t *named) {
    *named = lane_u32(run, members, __builtin_ctz(mask));
    uint32_t wanted = *named & run->warp->live;
    FOR_LANES(rest, mask) {
        if (!(*named >> LANE(rest) & 1)) {
            return sim_report(run, SIM_ERROR, "member-mask", LANE(rest),
                              "lane %d executes a .sync instruction whose member mask %#x leaves it out",
                              LANE(rest), *named);
        }
    }
    if ((mask & wanted) == wanted) {
        warp_synced(run);
        return NEXT;
    }
    return wait_for(run, (struct wait){.kind = WAIT_CONVERGE, .a = *named, .what = "lanes of the member mask"});
}

/* op: d, p (predicate or sink), a, b, c, membermask */
static enum next exec_shfl(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t named, source[LANES], found = 0, result[LANES];
    enum next next = gather(run, insn->op[5], mask, &named);
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
            return sim_report(run, SIM_ERROR, "shuffle-source", lane,
                              "lane %d reads lane %d, which does not take part in the shuffle", lane, from);
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
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    const struct pop none = {.kind = PO_SINK};
    bool sync = mod(d, "sync");
    int mode = mod_of(d, modes);
    unsigned type = mod_type(d);
    need_operands(d, 5, 5);
    if (!sync || mode < 0 || type != T_B32) {
        decode_fail(d, "only shfl.sync.{up,down,bfly,idx}.b32");
    }
    d->insn->warp.mode = (uint8_t)mode;
    d->insn->fn = exec_shfl;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], T_B32));
    emit(d, dst(d, d->op[0].second != NULL ? d->op[0].second : &none, T_PRED));
    for (int i = 1; i < 5; i++) {
        emit(d, src(d, &d->op[i], T_B32));
    }
}

/* op: d, predicate, membermask */
static enum next exec_vote(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t named, yes = pred(run, insn->op[1]) & mask;
    enum next next = gather(run, insn->op[2], mask, &named);
    if (next != NEXT) {
        return next;
    }
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
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    bool sync = mod(d, "sync");
    int mode = mod_of(d, modes);
    unsigned type = mod_type(d);
    need_operands(d, 3, 3);
    if (!sync || mode < 0 || type != (mode == 3 ? T_B32 : T_PRED)) {
        decode_fail(d, "only vote.sync.{all,any,uni}.pred and .ballot.b32");
    }
    d->insn->warp.mode = (uint8_t)mode;
    d->insn->fn = exec_vote;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], type));
    emit(d, src(d, &d->op[1], T_PRED));
    emit(d, src(d, &d->op[2], T_B32));
}

/* op: d, p or sink, a, membermask */
static enum next exec_match(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t named, result[LANES], same = ALL_LANES;
    enum next next = gather(run, insn->op[3], mask, &named);
    if (next != NEXT) {
        return next;
    }
    FOR_LANES(rest, mask) {
        uint64_t value = lane_u64(run, insn->op[2], LANE(rest));
        uint32_t equal = 0;
        FOR_LANES(other, mask) {
            equal |= (uint32_t)(lane_u64(run, insn->op[2], LANE(other)) == value) << LANE(other);
        }
        result[LANE(rest)] = equal;
        same &= equal == mask ? ALL_LANES : 0;
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
    const struct pop none = {.kind = PO_SINK};
    bool all = mod(d, "all");
    if (!mod(d, "sync") || (!all && !mod(d, "any"))) {
        decode_fail(d, "only match.{any,all}.sync");
    }
    unsigned type = mod_type(d);
    need_operands(d, 3, 3);
    d->insn->warp.all = all;
    d->insn->fn = exec_match;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], T_B32));
    emit(d, dst(d, d->op[0].second != NULL ? d->op[0].second : &none, T_PRED));
    emit(d, src(d, &d->op[1], type));
    emit(d, src(d, &d->op[2], T_B32));
}

/* op: d, p, membermask.  The lowest lane is the leader, as on the chip. */
static enum next exec_elect(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t named;
    enum next next = gather(run, insn->op[2], mask, &named);
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
        decode_fail(d, "only elect.sync");
    }
    need_operands(d, 2, 2);
    if (d->op[0].second == NULL) {
        decode_fail(d, "no predicate destination");
    }
    d->insn->fn = exec_elect;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], T_B32));
    emit(d, dst(d, d->op[0].second, T_PRED));
    emit(d, src(d, &d->op[1], T_B32));
}

enum { R_ADD, R_MIN, R_MAX, R_AND, R_OR, R_XOR };

/* op: d, a, membermask */
static enum next exec_redux(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t named;
    enum next next = gather(run, insn->op[2], mask, &named);
    if (next != NEXT) {
        return next;
    }
    const uint32_t *a = row(run, insn->op[1]);
    uint32_t sum = a[__builtin_ctz(mask)];
    FOR_LANES(rest, mask & (mask - 1)) {
        uint32_t b = a[LANE(rest)];
        if (insn->type == T_F32) {
            float x, y;
            memcpy(&x, &sum, 4);
            memcpy(&y, &b, 4);
            x = insn->warp.absolute ? fabsf(x) : x;
            y = insn->warp.absolute ? fabsf(y) : y;
            x = insn->warp.nan && (x != x || y != y) ? NAN
                : insn->warp.operation == R_MIN      ? fminf(x, y)
                                                     : fmaxf(x, y);
            memcpy(&sum, &x, 4);
            continue;
        }
        bool less = insn->type == T_S32 ? (int32_t)b < (int32_t)sum : b < sum;
        bool more = insn->type == T_S32 ? (int32_t)b > (int32_t)sum : b > sum;
        sum = insn->warp.operation == R_ADD   ? sum + b
              : insn->warp.operation == R_MIN ? (less ? b : sum)
              : insn->warp.operation == R_MAX ? (more ? b : sum)
              : insn->warp.operation == R_AND ? (sum & b)
              : insn->warp.operation == R_OR  ? (sum | b)
                                              : (sum ^ b);
    }
    uint32_t *d = row(run, insn->op[0]);
    LANEWISE(mask, d[l] = sum);
    return NEXT;
}

void decode_redux(struct decoder *d) {
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
    bool sync = mod(d, "sync");
    int op = mod_of(d, ops);
    d->insn->warp.absolute = mod(d, "abs");
    d->insn->warp.nan = mod(d, "NaN");
    unsigned type = mod_type(d);
    need_operands(d, 3, 3);
    if (!sync || op < 0 || ptx_type_bytes(type) != 4 || (type == T_F32 && op != R_MIN && op != R_MAX)) {
        decode_fail(d, "not with this operation or type");
    }
    d->insn->type = (uint8_t)type;
    d->insn->warp.operation = (uint8_t)op;
    d->insn->fn = exec_redux;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], type));
    emit(d, src(d, &d->op[1], type));
    emit(d, src(d, &d->op[2], T_B32));
}

static enum next exec_activemask(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    LANEWISE(mask, d[l] = mask);
    return NEXT;
}

void decode_activemask(struct decoder *d) {
    need_operands(d, 1, 1);
    if (mod_type(d) != T_B32) {
        decode_fail(d, "only with type .b32");
    }
    d->insn->fn = exec_activemask;
    d->insn->ndst = 1;
    emit(d, dst(d, &d->op[0], T_B32));
}
