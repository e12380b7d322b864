/* Turns parsed operands into rows of registers, predicates or constants. */
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static void const_store(uint8_t *row, uint64_t bits, bool wide) {
    for (int lane = 0; lane < LANES; lane++) {
        memcpy(row + lane * (wide ? 8 : 4), &bits, wide ? 8 : 4);
    }
}

static uint32_t new_const_row(struct parser *parser, uint64_t bits, bool wide) {
    struct module *module = parser->module;
    uint64_t rows = module->constant_bytes / ROW32;
    while (rows + 2 > parser->constants_room) {
        module->constants =
            parse_grow(parser, module->constants, parser->constants_room, &parser->constants_room, ROW32);
    }
    uint32_t off = (uint32_t)module->constant_bytes;
    const_store(module->constants + off, bits, wide);
    module->constant_bytes += wide ? ROW64 : ROW32;
    if (module->constant_bytes > (uint64_t)1 << 30) {
        parse_fail(parser, parser->token.line, "too many constants");
    }
    return off;
}

/* The place of a constant in an open-addressing hash table: entry 2 i holds 1 + offset of a row (0: free),
 * entry 2 i + 1 its width. */
static uint32_t const_place(const struct module *module, const uint32_t *index, uint32_t size, uint64_t bits,
                            bool wide) {
    uint32_t at = (uint32_t)((bits * 0x9e3779b97f4a7c15u) >> 40) % size;
    for (; index[2 * at] != 0; at = (at + 1) % size) {
        uint64_t value = 0;
        memcpy(&value, module->constants + index[2 * at] - 1, wide ? 8 : 4);
        if (index[2 * at + 1] == wide && value == bits) {
            break;
        }
    }
    return at;
}

static struct operand const_row(struct decoder *d, uint64_t bits, bool wide) {
    struct parser *parser = d->parser;
    bits = wide ? bits : (uint32_t)bits;
    if (parser->const_count * 2 >= parser->const_index_size) {
        uint32_t size = parser->const_index_size == 0 ? 1024 : parser->const_index_size * 2;
        uint32_t *index = calloc(size, sizeof *index * 2);
        if (index == NULL) {
            parse_no_memory(parser);
        }
        for (uint32_t i = 0; i < parser->const_index_size; i++) {
            uint32_t key = parser->const_index[2 * i], wide_key = parser->const_index[2 * i + 1];
            if (key != 0) {
                uint64_t value = 0;
                memcpy(&value, parser->module->constants + key - 1, wide_key ? 8 : 4);
                uint32_t at = const_place(parser->module, index, size, value, wide_key != 0);
                index[2 * at] = key;
                index[2 * at + 1] = wide_key;
            }
        }
        free(parser->const_index);
        parser->const_index = index;
        parser->const_index_size = size;
    }
    uint32_t *entry = &parser->const_index[2 * const_place(parser->module, parser->const_index,
                                                           parser->const_index_size, bits, wide)];
    if (entry[0] == 0) {
        entry[0] = new_const_row(parser, bits, wide) + 1;
        entry[1] = wide;
        parser->const_count++;
    }
    return (struct operand){.off = entry[0] - 1, .base = BASE_CONST, .wide = wide};
}

static uint32_t special_row(struct parser *parser, unsigned kind, unsigned width, int64_t value,
                            const struct variable *variable) {
    struct function *function = parser->function;
    for (uint32_t i = 0; i < function->nspecials; i++) {
        const struct special *known = &parser->specials[i];
        if (known->kind == kind && known->width == width && known->value == value &&
            known->variable == variable) {
            return known->off;
        }
    }
    parser->specials = parse_grow(parser, parser->specials, function->nspecials, &parser->specials_room,
                                  sizeof *parser->specials);
    uint32_t *end = width == SPECIAL_PREDICATE ? &function->pred_bytes : &function->reg_bytes;
    uint32_t off = *end;
    *end += width == SPECIAL_PREDICATE ? (uint32_t)sizeof(uint32_t) : width == SPECIAL_64 ? ROW64 : ROW32;
    parser->specials[function->nspecials++] = (struct special){kind, off, width, value, variable};
    return off;
}

static bool is_wide(unsigned type) {
    return ptx_type_bytes(type) == 8;
}

static struct operand register_row(struct decoder *d, const struct operand_text *written, unsigned type,
                                   bool any) {
    bool wide = is_wide(written->type), quad = written->type == T_B128;
    if ((written->type == T_PRED) != (type == T_PRED) || quad != (type == T_B128) ||
        (!any && wide != is_wide(type))) {
        decode_fail(d, "'%.*s' is a .%s register, the operand is .%s", (int)written->name.length,
                    written->name.text, ptx_type_name(written->type), ptx_type_name(type));
    }
    return (struct operand){.off = written->off,
                            .base = type == T_PRED ? BASE_PREDS : BASE_REGS,
                            .wide = wide,
                            .negated = written->negated};
}

struct operand dst(struct decoder *d, const struct operand_text *written, unsigned type) {
    struct parser *parser = d->parser;
    if (written->kind == PO_SINK) {
        if (type == T_PRED) {
            return (struct operand){.off = parser->sink_pred, .base = BASE_PREDS, .sink = 1};
        }
        return (struct operand){.off = parser->sink64, .base = BASE_REGS, .wide = is_wide(type), .sink = 1};
    }
    if (written->kind != PO_REG || written->negated) {
        decode_fail(d, "the destination is not a register");
    }
    return register_row(d, written, type, type == T_NONE);
}

static uint64_t number_bits(struct decoder *d, const struct operand_text *written, unsigned type) {
    double value;
    float narrow;
    if (written->kind == PO_INT) { /* 8- and 16-bit values are kept zero-extended in their rows */
        uint32_t bytes = ptx_type_bytes(type);
        return bytes == 1 ? written->bits & 0xff : bytes == 2 ? written->bits & 0xffff : written->bits;
    }
    if (written->kind == PO_F32) {
        if (type == T_F64) {
            uint32_t bits = (uint32_t)written->bits;
            memcpy(&narrow, &bits, sizeof narrow);
            value = narrow;
            uint64_t wide;
            memcpy(&wide, &value, sizeof wide);
            return wide;
        }
        return written->bits;
    }
    memcpy(&value, &written->bits, sizeof value);
    if (type == T_F64 || type == T_B64) {
        return written->bits;
    }
    if (type != T_F32 && type != T_B32) {
        decode_fail(d, "a floating-point number for a .%s operand", ptx_type_name(type));
    }
    narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

/* A row that holds a special register's value or a symbol's address. */
static struct operand symbol_row(struct decoder *d, const struct operand_text *written, bool wide) {
    struct parser *parser = d->parser;
    const struct symbol *symbol = written->symbol;
    if (symbol == NULL) {
        int kind = special_kind(&written->name);
        if (kind < 0) {
            decode_fail(d, "'%.*s' is not declared", SHOWN(written->name));
        }
        return (struct operand){.off = special_row(parser, (unsigned)kind, wide, 0, NULL), .wide = wide};
    }
    int64_t offset = (int64_t)written->bits;
    if (symbol->kind == SYM_FRAME || (symbol->kind == SYM_PARAM && !parser->function->is_entry)) {
        return (struct operand){.off = special_row(parser, SR_LOCAL_SYMBOL, wide, symbol->off + offset, NULL),
                                .wide = wide};
    }
    if (symbol->kind == SYM_PARAM) {
        return const_row(d, symbol->off + (uint64_t)offset, wide);
    }
    if (symbol->kind == SYM_FUNCTION) {
        symbol->function->address_taken = 1;
        return const_row(d, symbol->function->index + 1, wide);
    }
    if (symbol->kind != SYM_VARIABLE) {
        decode_fail(d, "'%.*s' has no address", SHOWN(written->name));
    }
    const struct variable *variable = symbol->variable;
    if (variable->space == SP_SHARED) {
        unsigned kind = variable->is_extern ? SR_DYNAMIC_SYMBOL : SR_SHARED_SYMBOL;
        return (struct operand){
            .off = special_row(parser, kind, wide, offset, variable->is_extern ? NULL : variable),
            .wide = wide};
    }
    struct operand row = {.off = new_const_row(parser, 0, wide), .base = BASE_CONST, .wide = wide};
    parser->const_fixups = parse_grow(parser, parser->const_fixups, parser->nconst_fixups,
                                      &parser->const_fixups_room, sizeof *parser->const_fixups);
    parser->const_fixups[parser->nconst_fixups++] = (struct const_fixup){row.off, wide, 0, variable, offset};
    return row;
}

struct operand src(struct decoder *d, const struct operand_text *written, unsigned type) {
    switch (written->kind) {
    case PO_REG:
        return register_row(d, written, type, false);
    case PO_INT:
    case PO_F32:
    case PO_F64:
        if (type == T_B128) {
            decode_fail(d, "a number for a .b128 operand");
        }
        if (type == T_PRED) {
            return (struct operand){.off = 0, .base = BASE_PREDS, .negated = written->bits == 0};
        }
        return const_row(d, number_bits(d, written, type), is_wide(type));
    case PO_NAME:
        if (type == T_PRED && written->symbol == NULL &&
            special_kind(&written->name) == SR_IS_EXPLICIT_CLUSTER) {
            uint32_t off = special_row(d->parser, SR_IS_EXPLICIT_CLUSTER, SPECIAL_PREDICATE, 0, NULL);
            return (struct operand){.off = off, .base = BASE_PREDS, .negated = written->negated};
        }
        if (type == T_PRED) {
            decode_fail(d, "'%.*s' is not a predicate", SHOWN(written->name));
        }
        return symbol_row(d, written, is_wide(type));
    default:
        decode_fail(d, "an operand of the wrong kind");
    }
}

struct operand src_any(struct decoder *d, const struct operand_text *written, unsigned type) {
    return written->kind == PO_REG ? register_row(d, written, type, true) : src(d, written, type);
}

struct operand address_base(struct decoder *d, const struct operand_text *written, int64_t *offset) {
    const struct operand_text *base =
        written->kind == PO_ADDRESS && written->count > 0 ? &written->sub[0] : NULL;
    if (base == NULL) {
        decode_fail(d, "an address in brackets was expected");
    }
    *offset = 0;
    if (base->kind == PO_REG && base->type != T_PRED && ptx_type_bytes(base->type) >= 4) {
        *offset = (int64_t)base->bits;
        return (struct operand){.off = base->off, .base = BASE_REGS, .wide = is_wide(base->type)};
    }
    if (base->kind == PO_INT) {
        return const_row(d, base->bits, true);
    }
    if (base->kind == PO_NAME && base->symbol != NULL) {
        return symbol_row(d, base, true);
    }
    if (base->kind == PO_NAME) {
        decode_fail(d, "'%.*s' is not declared", SHOWN(base->name));
    }
    decode_fail(d, "an address has to be a register, a name or a number");
}

void emit_address(struct decoder *d, const struct operand_text *written) {
    struct operand base = address_base(d, written, &d->insn->offset);
    const struct operand_text *name = &written->sub[0];
    bool entry = d->parser->function->is_entry;
    if (d->insn->space == SP_PARAM) {
        bool frame = name->kind == PO_NAME && name->symbol->kind == SYM_FRAME;
        if (frame || !entry) {
            d->insn->space = SP_LOCAL;
        }
    } else if (d->insn->space == SP_GENERIC && name->kind == PO_NAME && name->symbol->kind == SYM_VARIABLE) {
        /* An instruction without a space uses the named variable's. */
        d->insn->space = name->symbol->variable->space;
    } else if (d->insn->space == SP_GENERIC && name->kind == PO_NAME && name->symbol->kind == SYM_FRAME) {
        d->insn->space = SP_LOCAL;
    }
    emit(d, base);
}

int64_t *take_offsets(struct decoder *d) {
    return parse_take(d->parser, MAX_ADDRESS_OPERANDS * sizeof(int64_t));
}

void emit_offset_address(struct decoder *d, const struct operand_text *written, int64_t *offsets) {
    int at = d->nout;
    if (at >= MAX_ADDRESS_OPERANDS) {
        decode_fail(d, "too many addresses");
    }
    emit(d, address_base(d, written, &offsets[at]));
}

void emit_halves(struct decoder *d, struct operand quad) {
    quad.wide = 1;
    emit(d, quad);
    quad.off += quad.sink ? 0 : ROW64;
    emit(d, quad);
}

void emit_dst_halves(struct decoder *d, const struct operand_text *written) {
    d->insn->ndst = 2;
    emit_halves(d, dst(d, written, T_B128));
}

int64_t immediate(struct decoder *d, const struct operand_text *written) {
    if (written->kind != PO_INT) {
        decode_fail(d, "an integer constant was expected");
    }
    return (int64_t)written->bits;
}

const struct operand_text *elements(const struct operand_text *written, uint32_t *count) {
    *count = written->kind == PO_VECTOR ? written->count : 1;
    return written->kind == PO_VECTOR ? written->sub : written;
}
