/* Turns a mnemonic and its operands into a struct insn with the decoder that the opcode table names, and the
 * helpers that decoders use. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

void decode_fail(struct decoder *d, const char *format, ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    uint32_t length = d->mnemonic.length < 100 ? d->mnemonic.length : 100;
    parse_fail(d->parser, d->mnemonic.line, "instruction '%.*s': %s", (int)length, d->mnemonic.text, what);
}

bool mod(struct decoder *d, const char *name) {
    for (int i = 0; i < d->nmods; i++) {
        if (!d->used[i] && token_is(&d->mods[i], name)) {
            d->used[i] = true;
            return true;
        }
    }
    return false;
}

int mod_of(struct decoder *d, const char *const *words, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (mod(d, words[i])) {
            return (int)i;
        }
    }
    return -1;
}

static unsigned mod_type_or(struct decoder *d, unsigned otherwise) {
    for (int i = 0; i < d->nmods; i++) {
        unsigned type = d->used[i] ? T_NONE : parse_type_name(d->mods[i].text, d->mods[i].length);
        if (type != T_NONE) {
            d->used[i] = true;
            return type;
        }
    }
    return otherwise;
}

unsigned mod_type(struct decoder *d) {
    unsigned type = mod_type_or(d, T_NONE);
    if (type == T_NONE) {
        decode_fail(d, "expected a type");
    }
    return type;
}

unsigned mod_space(struct decoder *d, unsigned otherwise) {
    static const char *const names[] = {"global",          "shared",      "shared::cta",
                                        "shared::cluster", "local",       "param",
                                        "param::entry",    "param::func", "const"};
    static const uint8_t spaces[] = {SP_GLOBAL, SP_SHARED, SP_SHARED, SP_SHARED_CLUSTER, SP_LOCAL,
                                     SP_PARAM,  SP_PARAM,  SP_PARAM,  SP_CONST};
    for (int i = 0; i < d->nmods; i++) { /* in the order written: a copy names its destination's space first */
        for (uint32_t j = 0; !d->used[i] && j < sizeof names / sizeof *names; j++) {
            if (token_is(&d->mods[i], names[j])) {
                d->used[i] = true;
                return spaces[j];
            }
        }
    }
    return otherwise;
}

unsigned mod_rounding(struct decoder *d) {
    static const char *const names[] = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"};
    return (unsigned)(mod_of(d, COUNTED(names)) + 1);
}

void skip_cache_hints(struct decoder *d) {
    static const char *const hints[] = {"ca",
                                        "cg",
                                        "cs",
                                        "lu",
                                        "cv",
                                        "wb",
                                        "wt",
                                        "nc",
                                        "volatile",
                                        "L1::evict_normal",
                                        "L1::evict_unchanged",
                                        "L1::evict_first",
                                        "L1::evict_last",
                                        "L1::no_allocate",
                                        "L2::evict_normal",
                                        "L2::evict_first",
                                        "L2::evict_last",
                                        "L2::cache_hint",
                                        "L2::64B",
                                        "L2::128B",
                                        "L2::256B",
                                        "unified"};
    while (mod_of(d, COUNTED(hints)) >= 0) {
    }
}

void need_operands(struct decoder *d, int least, int most) {
    if (d->nop < least || d->nop > most) {
        decode_fail(d, "%d operands; expected %d%s", d->nop, least, least == most ? "" : " or more");
    }
}

void emit(struct decoder *d, struct operand operand) {
    if (d->nout == MAX_OPERANDS) {
        decode_fail(d, "more than %d operands", MAX_OPERANDS);
    }
    d->out[d->nout++] = operand;
}

void emit_dst(struct decoder *d, const struct operand_text *written, unsigned type) {
    d->insn->ndst += d->nout == d->insn->ndst;
    emit(d, dst(d, written, type));
}

void no_form(struct decoder *d, unsigned type) {
    decode_fail(d, "there is no form for type .%s", ptx_type_name(type));
}

void form_of_type(struct decoder *d, const exec_fn fns[T_TYPES], unsigned type) {
    d->insn->type = (uint8_t)type;
    d->insn->fn = fns[type];
    if (d->insn->fn == NULL) {
        no_form(d, type);
    }
}

void emit_operands(struct decoder *d, const unsigned *types, int count) {
    need_operands(d, count, count);
    emit_dst(d, &d->op[0], types[0]);
    for (int i = 1; i < count; i++) {
        emit(d, src(d, &d->op[i], types[i]));
    }
}

int emit_vector(struct decoder *d, const struct operand_text *written, bool write, unsigned type) {
    uint32_t count;
    const struct operand_text *list = elements(written, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (write) {
            emit_dst(d, &list[i], type);
        } else {
            emit(d, src(d, &list[i], type));
        }
    }
    return (int)count;
}

void of_one_type(struct decoder *d, const exec_fn fns[T_TYPES], unsigned type, int sources) {
    const unsigned types[] = {type, type, type, type};
    form_of_type(d, fns, type);
    emit_operands(d, types, sources + 1);
}

static void split_mnemonic(struct decoder *d, struct token *base) {
    const char *at = d->mnemonic.text, *end = at + d->mnemonic.length;
    const char *dot = memchr(at, '.', d->mnemonic.length);
    *base = d->mnemonic;
    base->length = (uint32_t)((dot == NULL ? end : dot) - at);
    d->nmods = 0;
    while (dot != NULL) {
        const char *start = dot + 1;
        dot = memchr(start, '.', (size_t)(end - start));
        if (d->nmods == MAX_MODIFIERS) {
            decode_fail(d, "too many modifiers");
        }
        d->mods[d->nmods] = (struct token){
            .kind = TOK_NAME, .text = start, .length = (uint32_t)((dot == NULL ? end : dot) - start)};
        d->used[d->nmods++] = false;
    }
}

void decode(struct decoder *d) {
    struct token base;
    d->nout = 0;
    split_mnemonic(d, &base);
    for (const struct opcode *opcode = d->parser->opcodes; opcode->name != NULL; opcode++) {
        if (!token_is(&base, opcode->name)) {
            continue;
        }
        struct insn *insn = d->insn;
        insn->cls = opcode->cls;
        d->base = opcode->name;
        opcode->decode(d);
        for (int j = 0; j < d->nmods; j++) {
            if (!d->used[j]) {
                decode_fail(d, "unknown modifier '.%.*s'", (int)d->mods[j].length, d->mods[j].text);
            }
        }
        struct operand *operands = parse_take(d->parser, (size_t)(d->nout + 1) * sizeof *operands);
        memcpy(operands, d->out, (size_t)d->nout * sizeof *operands);
        insn->op = operands;
        insn->nop = (uint16_t)d->nout;
        insn->name = parse_string(d->parser, d->mnemonic.text, d->mnemonic.length);
        if (insn->fn == NULL) {
            decode_fail(d, "not supported");
        }
        return;
    }
    decode_fail(d, "unknown instruction");
}
