/* Decodes ld and st, and the instructions that only advise caches: prefetch, prefetchu, discard, applypriority,
 * createpolicy. */
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "lane_access.h"
#include "load_store.h"
#include "machine/machine.h"

void decode_memory_access(struct decoder *d) {
    const bool write = named(d, "st");
    static const char *const strengths[] = {"weak", "relaxed", "acquire", "release"};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys"};
    static const char *const vectors[] = {"v2", "v4", "v8"};
    struct insn *insn = d->insn;
    bool is_volatile = mod(d, "volatile");
    bool hinted = mod(d, "L2::cache_hint");
    (void)mod(d, "mmio"); /* .mmio.relaxed.sys: nor does a relaxed access here combine with others */
    int strength = mod_of(d, COUNTED(strengths));
    insn->memory.of_cta = mod_of(d, COUNTED(scopes)) == 0;
    skip_cache_hints(d);
    insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    int vector = mod_of(d, COUNTED(vectors));
    unsigned type = mod_type(d);
    need_operands(d, 2, hinted ? 3 : 2);
    uint32_t bytes = ptx_type_bytes(type), count;
    const struct operand_text *list = elements(&d->op[write ? 1 : 0], &count);
    uint32_t wanted = vector < 0 ? 1 : 2u << vector;
    bool quad = type == T_B128 && count == 1 && vector < 0 && list->kind == PO_REG;
    insn->memory.quad = quad;
    if (quad) { /* as two 64-bit halves */
        type = T_B64;
        bytes = 8;
        count = 2;
        if (write) {
            emit_halves(d, src(d, list, T_B128));
        } else {
            emit_dst_halves(d, list);
        }
        wanted = 2;
    }
    if (count != wanted || type == T_PRED || bytes > 8 || bytes * count > 32) {
        decode_fail(d, "%u elements of .%s; expected %u", count, ptx_type_name(type), wanted);
    }
    insn->type = (uint8_t)type;
    insn->memory.elements = (uint8_t)count;
    insn->memory.element_bytes = (uint8_t)bytes;
    insn->memory.register_mask = UINT32_MAX;
    for (uint32_t i = 0; i < count && !quad; i++) {
        if (write) {
            emit(d, list[i].kind == PO_REG ? src_any(d, &list[i], type) : src(d, &list[i], type));
        } else if (list[i].kind == PO_SINK) {
            emit_dst(d, &list[i], type);
        } else {
            if (list[i].kind != PO_REG || ptx_type_bytes(list[i].type) < bytes) {
                decode_fail(d, "a register is narrower than its type");
            }
            emit_dst(d, &list[i], ptx_type_bytes(list[i].type) == 8 ? T_B64 : T_B32);
            insn->memory.register_mask = ptx_type_bytes(list[i].type) == 2   ? 0xffff
                                         : ptx_type_bytes(list[i].type) == 1 ? 0xff
                                                                             : UINT32_MAX;
        }
        if (list[i].kind == PO_REG && ptx_type_bytes(list[i].type) < bytes) {
            decode_fail(d, "a register is narrower than its type");
        }
    }
    emit_address(d, &d->op[write ? 0 : 1]);
    bool strong = (strength > 0 || is_volatile) && insn->space != SP_LOCAL && insn->space != SP_PARAM;
    insn->memory.ordered = strength == 2 || strength == 3;
    insn->memory.strong = strong;
    insn->memory.is_volatile = strong && is_volatile;
    insn->cls = insn->space == SP_GLOBAL || insn->space == SP_GENERIC          ? CL_MEM_GLOBAL
                : insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER ? CL_MEM_SHARED
                                                                               : CL_MEM_OTHER;
    if (write && (insn->space == SP_CONST || insn->space == SP_PARAM)) {
        decode_fail(d, "this space cannot be written");
    }
    insn->fn = memory_fn(insn->space, write, strong);
}

/* op: address, size. Writes zeros in the generic proxy, each lane its own range. */
static enum next exec_st_bulk(struct run *run, const struct insn *insn, uint32_t mask) {
    enum { UNIT = 8 };
    uint64_t most = 0;
    FOR_LANES(rest, mask) {
        const uint64_t bytes = lane_u64(run, insn->op[1], LANE(rest));
        if (bytes % UNIT != 0 || bytes == 0) {
            return sim_report(run, SIM_ERROR, "copy-size", LANE(rest),
                              "st.bulk of %llu bytes; expected a positive multiple of 8",
                              (unsigned long long)bytes);
        }
        most = bytes > most ? bytes : most;
    }
    for (uint64_t at = 0; at < most; at += UNIT) {
        uint64_t addresses[LANES], zeros[LANES] = {0};
        uint32_t part = 0;
        FOR_LANES(rest, mask) {
            const int lane = LANE(rest);
            addresses[lane] = lane_u64(run, insn->op[0], lane) + (uint64_t)insn->offset + at;
            part |= (uint32_t)(at < lane_u64(run, insn->op[1], lane)) << lane;
        }
        const enum next next = lane_access(run, insn->space, addresses, part, UNIT, true, zeros);
        if (next != NEXT) {
            return next;
        }
    }
    return NEXT;
}

static void decode_st_bulk(struct decoder *d) {
    (void)mod(d, "weak");
    d->insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    need_operands(d, 3, 3);
    if ((d->insn->space != SP_GENERIC && d->insn->space != SP_SHARED) || immediate(d, &d->op[2]) != 0 ||
        d->parser->module->sm < 100) {
        decode_fail(d, "expected shared::cta memory, a value of 0, and sm_100 or later");
    }
    emit_address(d, &d->op[0]);
    emit(d, src(d, &d->op[1], T_U64));
    d->insn->cls = CL_MEM_SHARED;
    d->insn->fn = exec_st_bulk;
}

void decode_st(struct decoder *d) {
    if (mod(d, "async")) {
        decode_st_async(d);
        return;
    }
    if (mod(d, "bulk")) {
        decode_st_bulk(d);
        return;
    }
    decode_memory_access(d);
}

enum next exec_nothing(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)run;
    (void)insn;
    (void)mask;
    return NEXT;
}

/* Only affects simulated time: notes the addresses that L2 fetches. */
static enum next exec_prefetch_l2(struct run *run, const struct insn *insn, uint32_t mask) {
    struct footprint *footprint = run->worker->footprint;
    if (footprint != NULL) {
        FOR_LANES(rest, mask) {
            footprint->address[LANE(rest)] = lane_u64(run, insn->op[0], LANE(rest)) + (uint64_t)insn->offset;
        }
        footprint->mask = mask;
        footprint->bytes = 1;
    }
    return NEXT;
}

void decode_prefetch(struct decoder *d) {
    bool to_l2 = mod(d, "global") && mod(d, "L2");
    decode_advice(d);
    if (to_l2) {
        d->insn->space = SP_GLOBAL;
        need_operands(d, 1, 1);
        emit_address(d, &d->op[0]);
        d->insn->fn = exec_prefetch_l2;
    }
}

void decode_advice(struct decoder *d) {
    d->nmods = 0; /* accept any modifiers */
    d->insn->fn = exec_nothing;
}

static enum next exec_policy(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    LANEWISE(mask, d[l] = 0);
    return NEXT;
}

void decode_createpolicy(struct decoder *d) {
    d->nmods = 0;
    if (d->nop < 1) {
        decode_fail(d, "expected a destination");
    }
    emit_dst(d, &d->op[0], T_B64);
    d->insn->fn = exec_policy;
}
