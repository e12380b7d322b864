/* Moves and address conversion (PTX ISA: mov, cvta, mapa, getctarank, isspacep). */
#include <time.h>

#include "clock/timing.h"
#include "isa/opcodes.h"
#include "machine/machine.h"

static enum next mov_32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = a[l]);
    return NEXT;
}

static enum next mov_64(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    const uint64_t *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = a[l]);
    return NEXT;
}

static enum next mov_pred(struct run *run, const struct insn *insn, uint32_t mask) {
    set_pred(run, insn->op[0], mask, pred(run, insn->op[1]));
    return NEXT;
}

/* Without simulated time the clock registers count reads of clocks: two reads differ, and no run depends on the
 * host's time. */
static enum next mov_clock(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t now = run->launch->timing != NULL ? time_clock_register(run->launch->timing, insn->move.clock)
                                               : atomic_fetch_add(&run->launch->clock, 32) + 32;
    now = insn->move.clock == SR_CLOCK_HI || insn->move.clock == SR_GLOBALTIMER_HI ? now >> 32 : now;
    FOR_LANES(rest, mask) {
        set_lane(run, insn->op[0], LANE(rest), now);
    }
    return NEXT;
}

/* {d0, d1, ...} = a; op: the pieces, a. */
static enum next mov_unpack(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t pieces = insn->move.pieces, bits = insn->move.piece_bits;
    struct operand from = insn->op[pieces];
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t value = lane_u64(run, from, lane);
        for (uint32_t i = 0; i < pieces; i++) {
            uint64_t piece = value >> (i * bits) & (bits == 32 ? UINT32_MAX : (1u << bits) - 1);
            if (!insn->op[i].sink) {
                ((uint32_t *)row(run, insn->op[i]))[lane] = (uint32_t)piece;
            }
        }
    }
    return NEXT;
}

/* d = {a0, a1, ...}; op: d, the pieces. */
static enum next mov_pack(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t pieces = insn->move.pieces, bits = insn->move.piece_bits;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t value = 0;
        for (uint32_t i = 0; i < pieces; i++) {
            uint64_t piece = lane_u32(run, insn->op[1 + i], lane);
            value |= (piece & (bits == 32 ? UINT32_MAX : (1u << bits) - 1)) << (i * bits);
        }
        set_lane(run, insn->op[0], lane, value);
    }
    return NEXT;
}

static void decode_pieces(struct decoder *d, unsigned type, int vector_at) {
    uint32_t count;
    (void)elements(&d->op[vector_at], &count);
    uint32_t bytes = ptx_type_bytes(type);
    if ((count != 2 && count != 4 && count != 8) || bytes / count == 0 || bytes / count > 4) {
        decode_fail(d, "%u pieces of .%s", count, ptx_type_name(type));
    }
    unsigned piece = bytes / count == 4 ? T_B32 : bytes / count == 2 ? T_B16 : T_B8;
    d->insn->move.pieces = (uint8_t)count;
    d->insn->move.piece_bits = (uint8_t)(bytes / count * 8);
    if (vector_at == 0) {
        (void)emit_vector(d, &d->op[0], true, piece);
        emit(d, src(d, &d->op[1], type));
        d->insn->fn = mov_unpack;
    } else {
        emit_dst(d, &d->op[0], type);
        (void)emit_vector(d, &d->op[1], false, piece);
        d->insn->fn = mov_pack;
    }
}

/* op: the two halves of d, the two halves of a */
static enum next mov_128(struct run *run, const struct insn *insn, uint32_t mask) {
    for (int half = 0; half < 2; half++) {
        uint64_t *d = row(run, insn->op[half]);
        const uint64_t *a = row(run, insn->op[2 + half]);
        LANEWISE(mask, d[l] = a[l]);
    }
    return NEXT;
}

static void decode_mov_128(struct decoder *d) {
    for (int i = 0; i < 2; i++) {
        int count = 2;
        if (d->op[i].kind == PO_VECTOR) {
            count = emit_vector(d, &d->op[i], i == 0, T_B64);
        } else if (i == 0) {
            emit_dst_halves(d, &d->op[i]);
        } else {
            emit_halves(d, src(d, &d->op[i], T_B128));
        }
        if (count != 2) {
            decode_fail(d, "%d pieces of .b128; expected 2", count);
        }
    }
    d->insn->fn = mov_128;
}

void decode_mov(struct decoder *d) {
    unsigned type = mod_type(d);
    need_operands(d, 2, 2);
    d->insn->type = (uint8_t)type;
    if (type == T_B128) {
        decode_mov_128(d);
        return;
    }
    if (d->op[0].kind == PO_VECTOR || d->op[1].kind == PO_VECTOR) {
        decode_pieces(d, type, d->op[0].kind == PO_VECTOR ? 0 : 1);
        return;
    }
    emit_dst(d, &d->op[0], type);
    const int special = d->op[1].kind == PO_NAME ? special_kind(&d->op[1].name) : -1;
    if (special >= SR_CLOCK && special <= SR_GLOBALTIMER_HI) {
        d->insn->move.clock = (uint8_t)special;
        d->insn->fn = mov_clock;
        return;
    }
    emit(d, src(d, &d->op[1], type));
    d->insn->fn = type == T_PRED ? mov_pred : ptx_type_bytes(type) == 8 ? mov_64 : mov_32;
}

/* ---- address spaces ---- */

static uint64_t window_of(unsigned space) {
    return space == SP_SHARED || space == SP_SHARED_CLUSTER ? SHARED_WINDOW
           : space == SP_LOCAL                              ? LOCAL_WINDOW
           : space == SP_PARAM                              ? PARAM_WINDOW
                                                            : 0;
}

static enum next exec_cvta(struct run *run, const struct insn *insn, uint32_t mask) {
    const uint64_t window = window_of(insn->space), set = insn->move.to_space ? 0 : window;
    const uint64_t kept = insn->move.to_space && window != 0 ? ~WINDOW_MASK : UINT64_MAX;
    if (mask == ALL_LANES && insn->op[0].wide && insn->op[1].wide) {
        const uint64_t *from = row(run, insn->op[1]);
        uint64_t *to = row(run, insn->op[0]);
        for (int lane = 0; lane < LANES; lane++) {
            to[lane] = (from[lane] & kept) | set;
        }
        return NEXT;
    }
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        set_lane(run, insn->op[0], lane, (lane_u64(run, insn->op[1], lane) & kept) | set);
    }
    return NEXT;
}

void decode_cvta(struct decoder *d) {
    d->insn->move.to_space = mod(d, "to");
    d->insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    unsigned type = mod_type(d);
    if (d->insn->space == SP_GENERIC || (type != T_U64 && type != T_U32)) {
        decode_fail(d, "there is no form for this space and type");
    }
    EMIT_OPERANDS(d, type, type);
    d->insn->fn = exec_cvta;
}

#define NO_RANK 0xffu

static enum next exec_mapa(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t address = lane_u64(run, insn->op[1], lane);
        uint32_t rank = lane_u32(run, insn->op[2], lane);
        rank = rank < NO_RANK ? rank : NO_RANK; /* reported when the address is used */
        if (insn->space == SP_GENERIC && (address & WINDOW_MASK) != SHARED_WINDOW) {
            return sim_report(run, SIM_ERROR, "bad-address", lane,
                              "mapa of %#llx, which is not a shared address", (unsigned long long)address);
        }
        address = (address & ~(uint64_t)((uint64_t)0xff << RANK_SHIFT)) | (uint64_t)rank << RANK_SHIFT;
        set_lane(run, insn->op[0], lane, address);
    }
    return NEXT;
}

void decode_mapa(struct decoder *d) {
    d->insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    unsigned type = mod_type(d);
    EMIT_OPERANDS(d, type, type, T_U32);
    d->insn->fn = exec_mapa;
}

static enum next exec_getctarank(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        d[lane] = (uint32_t)(lane_u64(run, insn->op[1], lane) >> RANK_SHIFT & 0xff);
    }
    return NEXT;
}

void decode_getctarank(struct decoder *d) {
    d->insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    EMIT_OPERANDS(d, T_U32, mod_type(d));
    d->insn->fn = exec_getctarank;
}

static enum next exec_isspacep(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t bits = 0;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t address = lane_u64(run, insn->op[1], lane), window = address & WINDOW_MASK;
        bool own = (address >> RANK_SHIFT & 0xff) == run->cta->rank;
        bool holds = window == window_of(insn->space) && (insn->space != SP_SHARED || own);
        bits |= (uint32_t)holds << lane;
    }
    set_pred(run, insn->op[0], mask, bits);
    return NEXT;
}

void decode_isspacep(struct decoder *d) {
    d->insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    EMIT_OPERANDS(d, T_PRED, T_U64);
    d->insn->fn = exec_isspacep;
}
