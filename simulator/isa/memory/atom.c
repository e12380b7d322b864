/* Atomics (PTX ISA: atom, red). All spaces are host memory, so host atomics implement them. */
#include <math.h>

#include "async/async.h"
#include "async/bulk.h"
#include "isa/opcodes.h"
#include "load_store.h"
#include "machine/machine.h"
#include "ptx/ir.h"
#include "tensorcore/half.h"
#include "tensorcore/mma/formats.h"

#define MOST_GIVEN_WAY 4 /* per cluster: one that polls with atomics must run on in the end */

/* In the order of enum reduction. */
static const char *const op_names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};

static uint32_t half_step(unsigned op, bool bf16, uint32_t a, uint32_t b) {
    float x = bf16 ? bf16_to_f32(a & 0xffff) : f16_to_f32(a),
          y = bf16 ? bf16_to_f32(b & 0xffff) : f16_to_f32(b);
    float r = op == REDUCE_ADD ? x + y : op == REDUCE_MIN ? fminf(x, y) : fmaxf(x, y);
    return bf16 ? f32_to_bf16(r) : f32_to_f16(r);
}

/* The value that the atomic stores. */
static uint64_t step(const struct insn *insn, uint64_t old, uint64_t b, uint64_t c) {
    unsigned op = insn->atomic.operation;
    double x, y;
    if (op == REDUCE_EXCHANGE) {
        return b;
    }
    if (op == REDUCE_COMPARE) {
        return old == b ? c : old;
    }
    switch (insn->type) {
    case T_F32:
        return tc_bits_of_f32(tc_f32_of_bits((uint32_t)old) + tc_f32_of_bits((uint32_t)b));
    case T_F64:
        memcpy(&x, &old, 8);
        memcpy(&y, &b, 8);
        x += y;
        memcpy(&old, &x, 8);
        return old;
    case T_F16:
    case T_BF16:
        return half_step(op, insn->type == T_BF16, (uint32_t)old & 0xffff, (uint32_t)b & 0xffff);
    case T_F16X2:
    case T_BF16X2:
        return half_step(op, insn->type == T_BF16X2, (uint32_t)old & 0xffff, (uint32_t)b & 0xffff) |
               half_step(op, insn->type == T_BF16X2, (uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
    default:
        return reduced(op, insn->type, old, b);
    }
}

/* Replaces the value of type T at `at`, and returns the old one from the enclosing function. */
#define UPDATE(T)                                                                                              \
    T old = __atomic_load_n((T *)(void *)at, __ATOMIC_SEQ_CST), new;                                           \
    do {                                                                                                       \
        new = (T)step(insn, old, (T)b, (T)c);                                                                  \
    } while (                                                                                                  \
        !__atomic_compare_exchange_n((T *)(void *)at, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));  \
    *changes |= new != old;                                                                                    \
    return old

/* An atomic that leaves the value as it was, as in the loop of a lock, is a poll. */
static uint64_t update(const struct insn *insn, uint8_t *at, uint32_t bytes, uint64_t b, uint64_t c,
                       bool *changes) {
    if (bytes == 8) {
        UPDATE(uint64_t);
    }
    if (bytes == 2) {
        UPDATE(uint16_t);
    }
    UPDATE(uint32_t);
}

/* In mode reverse, lets later clusters run first, so that those which depend on this one have to wait. */
static void give_way(struct run *run) {
    struct cluster *cluster = run->cluster;
    if (run->launch->mode == SIM_REVERSE && !cluster->gives_way && cluster->given_way < MOST_GIVEN_WAY) {
        cluster->gives_way = true;
        cluster->given_way++;
    }
}

/* The word of global memory that the lanes before have used, mostly the one of all lanes. */
struct used {
    uint64_t address, noted; /* noted: the number of findings before its checks */
    uint8_t *at;             /* NULL: none */
};

/* The host address of a lane's location, after all checks; NULL after a report.  A lane passes the checks that
 * one before it has passed for the same word. */
static uint8_t *atom_place(struct run *run, const struct insn *insn, uint32_t bytes, int lane,
                           struct used *used) {
    struct operand base = insn->op[insn->nop - 1];
    bool shared = insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER;
    uint64_t address = lane_u64(run, base, lane) + (uint64_t)insn->offset;
    const uint64_t noted = atomic_load(&run->launch->sim->noted);
    if (used->at != NULL && used->address == address && used->noted == noted) {
        return used->at;
    }
    struct cta *cta;
    uint32_t offsets[LANES];
    offsets[lane] = 0;
    address = base.wide ? address : (uint32_t)address;
    if (address % bytes != 0) {
        (void)sim_report(run, SIM_ERROR, "misaligned", lane, "atomic at address %#llx, not aligned to %u bytes",
                         (unsigned long long)address, bytes);
        return NULL;
    }
    address = shared ? address | SHARED_WINDOW : address;
    if (insn->space == SP_SHARED &&
        shared_cta(run, address & ~WINDOW_MASK, bytes, bytes, lane, true, &offsets[lane]) == NULL) {
        return NULL;
    }
    uint8_t *at = generic_memory(run, address, bytes, lane, true, &cta, &offsets[lane]);
    if (at == NULL) {
        return NULL;
    }
    if (cta != NULL && run->cluster->checks) {
        hazard_lanes(run, cta, offsets, 1u << lane, bytes, ACCESS_WRITE | ACCESS_ATOMIC);
    }
    if ((address & WINDOW_MASK) == 0) {
        touch_global(run, address, bytes, lane,
                     ACCESS_WRITE | ACCESS_ATOMIC | (insn->atomic.of_cta ? ACCESS_OF_CTA : 0u));
        give_way(run);
        *used = (struct used){address, noted, at};
    }
    return at;
}

static void give(struct run *run, const struct insn *insn, uint32_t i, int lane, uint64_t value) {
    if (i < insn->ndst && !insn->op[i].sink) {
        set_lane(run, insn->op[i], lane, value);
    }
}

/* op: registers for the old values (atom: one per element; red: none), b per element, [c of cas], address. */
static void update_words(struct run *run, const struct insn *insn, uint8_t *at, int lane, bool *changes) {
    uint32_t bytes = ptx_type_bytes(insn->type), vec = insn->atomic.elements, nb = insn->ndst;
    for (uint32_t i = 0; i < vec; i++) {
        uint64_t b = lane_u64(run, insn->op[nb + i], lane);
        uint64_t c = insn->atomic.operation == REDUCE_COMPARE ? lane_u64(run, insn->op[nb + vec], lane) : 0;
        give(run, insn, i, lane, update(insn, at + i * bytes, bytes, b, c, changes));
    }
}

/* op: as above, each 128-bit operand as two halves. */
static void update_quad(struct run *run, const struct insn *insn, uint8_t *at, int lane, bool *changes) {
    bool cas = insn->atomic.operation == REDUCE_COMPARE;
    uint64_t b[2], c[2], old[2];
    for (int i = 0; i < 2; i++) {
        b[i] = lane_u64(run, insn->op[2 + i], lane);
        c[i] = cas ? lane_u64(run, insn->op[4 + i], lane) : b[i];
    }
    quad_begin();
    memcpy(old, at, sizeof old);
    if (!cas || memcmp(old, b, sizeof old) == 0) {
        memcpy(at, c, sizeof old);
        *changes |= memcmp(old, c, sizeof old) != 0;
    }
    quad_end();
    give(run, insn, 0, lane, old[0]);
    give(run, insn, 1, lane, old[1]);
}

static enum next exec_atom(struct run *run, const struct insn *insn, uint32_t mask) {
    const bool quad = insn->type == T_B128;
    const uint32_t bytes = ptx_type_bytes(insn->type) * insn->atomic.elements;
    struct used used = {.at = NULL};
    bool changes = false;
    sync_location(run, mask, sync_order(insn->atomic.ordered, insn->atomic.of_cta), true);
    FOR_LANES(rest, mask) {
        uint8_t *at = atom_place(run, insn, bytes, LANE(rest), &used);
        if (at == NULL) {
            return FAIL;
        }
        (quad ? update_quad : update_words)(run, insn, at, LANE(rest), &changes);
    }
    run->cluster->events += changes;
    sync_location(run, mask, sync_order(insn->atomic.ordered, insn->atomic.of_cta), false);
    return YIELD;
}

/* In the mnemonic's order: destination, address, b, [c of cas]. */
static void decode_quad(struct decoder *d, int op, bool gives) {
    bool cas = op == REDUCE_COMPARE;
    if (!gives || (!cas && op != REDUCE_EXCHANGE) || d->parser->module->sm < 90) {
        decode_fail(d, "128-bit atomics are atom.exch and atom.cas, on sm_90 or later");
    }
    need_operands(d, 3 + cas, 4);
    emit_dst_halves(d, &d->op[0]);
    emit_halves(d, src(d, &d->op[2], T_B128));
    if (cas) {
        emit_halves(d, src(d, &d->op[3], T_B128));
    }
    emit_address(d, &d->op[1]);
}

static void check_space(struct decoder *d) {
    const unsigned space = d->insn->space;
    if (space == SP_LOCAL || space == SP_PARAM || space == SP_CONST) {
        decode_fail(d, "there is no form for this state space");
    }
}

void decode_atomic(struct decoder *d) {
    const bool gives = named(d, "atom");
    static const char *const orders[] = {"relaxed", "acquire", "release", "acq_rel"};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys"};
    static const char *const vectors[] = {"v2", "v4", "v8"};
    struct insn *insn = d->insn;
    int order = mod_of(d, COUNTED(orders));
    insn->atomic.of_cta = mod_of(d, COUNTED(scopes)) == 0;
    skip_cache_hints(d);
    insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    if (mod(d, "async")) {
        decode_red_async(d);
        return;
    }
    int op = mod_of(d, COUNTED(op_names)) + 1;
    (void)mod(d, "noftz");
    int vector = mod_of(d, COUNTED(vectors));
    unsigned type = mod_type(d);
    const bool exchanges = op == REDUCE_EXCHANGE || op == REDUCE_COMPARE, adds = op == REDUCE_ADD;
    if (op == REDUCE_NONE || (exchanges && !gives) || type == T_PRED || ptx_type_bytes(type) < 2 ||
        (ptx_type_bytes(type) > 8 && (type != T_B128 || vector >= 0))) {
        decode_fail(d, "there is no form for this operation and type");
    }
    if ((type == T_F32 || type == T_F64) && !adds && !exchanges) {
        decode_fail(d, ".%s has only .add, .exch and .cas", ptx_type_name(type));
    }
    if (is_float_type(type) && !adds && !exchanges && op != REDUCE_MIN && op != REDUCE_MAX) {
        decode_fail(d, ".%s has only .add, .min, .max, .exch and .cas", ptx_type_name(type));
    }
    insn->atomic.elements = vector < 0 ? 1 : (uint8_t)(2 << vector);
    insn->atomic.operation = (uint8_t)op;
    insn->type = (uint8_t)type;
    insn->atomic.ordered = order > 0; /* PTX ISA, atom and red: without a .sem it is .relaxed */
    insn->fn = exec_atom;
    if (type == T_B128) {
        decode_quad(d, op, gives);
        check_space(d);
        return;
    }
    int at = gives ? 1 : 0;
    need_operands(d, at + 2 + (op == REDUCE_COMPARE), at + 3 + (op == REDUCE_COMPARE));
    if ((gives && emit_vector(d, &d->op[0], true, type) != insn->atomic.elements) ||
        emit_vector(d, &d->op[at + 1], false, type) != insn->atomic.elements) {
        decode_fail(d, "a vector of the wrong length");
    }
    if (op == REDUCE_COMPARE) {
        emit(d, src(d, &d->op[at + 2], type));
    }
    emit_address(d, &d->op[at]);
    check_space(d);
}
