/* Parses operands as they are written, before the decoder gives them meaning. */
#include <string.h>

#include "parse.h"

/* The unused fourth component reads as zero. */
#define VECTOR(name, kind)                                                                                     \
    {name ".x", kind##_X}, {name ".y", kind##_Y}, {name ".z", kind##_Z}, {                                     \
        name ".w", SR_ZERO                                                                                     \
    }

static const struct {
    const char *name;
    uint8_t kind;
} specials[] = {
    VECTOR("%tid", SR_TID),
    VECTOR("%ntid", SR_NTID),
    VECTOR("%ctaid", SR_CTAID),
    VECTOR("%nctaid", SR_NCTAID),
    {"%laneid", SR_LANEID},
    {"%warpid", SR_WARPID},
    {"%nwarpid", SR_NWARPID},
    {"%smid", SR_SMID},
    {"%nsmid", SR_NSMID},
    {"%gridid", SR_GRIDID},
    {"%envreg0", SR_ZERO},
    {"%envreg1", SR_ENVREG1},
    {"%envreg2", SR_ENVREG2},
    VECTOR("%clusterid", SR_CLUSTERID),
    VECTOR("%nclusterid", SR_NCLUSTERID),
    VECTOR("%cluster_ctaid", SR_CLUSTER_CTAID),
    VECTOR("%cluster_nctaid", SR_CLUSTER_NCTAID),
    {"%cluster_ctarank", SR_CLUSTER_CTARANK},
    {"%cluster_nctarank", SR_CLUSTER_NCTARANK},
    {"%is_explicit_cluster", SR_IS_EXPLICIT_CLUSTER},
    {"%lanemask_eq", SR_LANEMASK_EQ},
    {"%lanemask_le", SR_LANEMASK_LE},
    {"%lanemask_lt", SR_LANEMASK_LT},
    {"%lanemask_ge", SR_LANEMASK_GE},
    {"%lanemask_gt", SR_LANEMASK_GT},
    {"%dynamic_smem_size", SR_DYNAMIC_SMEM_SIZE},
    {"%total_smem_size", SR_TOTAL_SMEM_SIZE},
    {"%reserved_smem_offset_begin", SR_RESERVED_SMEM_BEGIN},
    {"%reserved_smem_offset_end", SR_RESERVED_SMEM_END},
    {"%reserved_smem_offset_cap", SR_RESERVED_SMEM_CAP},
    {"%reserved_smem_offset_0", SR_RESERVED_SMEM_BEGIN},
    {"%reserved_smem_offset_1", SR_RESERVED_SMEM_1},
    {"%clock", SR_CLOCK},
    {"%clock_hi", SR_CLOCK_HI},
    {"%clock64", SR_CLOCK64},
    {"%globaltimer", SR_GLOBALTIMER},
    {"%globaltimer_lo", SR_GLOBALTIMER_LO},
    {"%globaltimer_hi", SR_GLOBALTIMER_HI},
};

int special_kind(const struct token *name) {
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (token_is(name, specials[i].name)) {
            return specials[i].kind;
        }
    }
    return -1;
}

static void parse_elements(struct parser *parser, struct operand_text *written, const char *end) {
    struct operand_text list[MAX_OPERANDS];
    uint32_t count = 0;
    while (!parse_accept(parser, end)) {
        if (count == MAX_OPERANDS) {
            parse_fail(parser, parser->token.line, "more than %d elements", MAX_OPERANDS);
        }
        list[count++] = parse_operand(parser);
        if (list[count - 1].kind == PO_VECTOR && written->kind == PO_VECTOR) {
            parse_fail(parser, parser->token.line, "a vector inside a vector");
        }
        if (!token_is(&parser->token, end)) {
            parse_expect(parser, ",");
        }
    }
    written->count = count;
    written->sub = parse_take(parser, (count + 1) * sizeof *list);
    memcpy(written->sub, list, count * sizeof *list);
}

/* The index of a component such as .x of a vector register; -1: none. */
static int component_of(const struct token *word) {
    static const char letters[] = "xyzwrgba";
    const char *found =
        word->length == 2 && word->text[0] == '.' ? memchr(letters, word->text[1], sizeof letters - 1) : NULL;
    return found == NULL ? -1 : (int)((found - letters) % 4);
}

static struct operand_text register_of(const struct symbol *symbol, const struct token *name,
                                       uint32_t element) {
    return (struct operand_text){.kind = PO_REG,
                                 .name = *name,
                                 .type = symbol->type,
                                 .off = symbol->off + element * register_bytes(symbol->type)};
}

static struct operand_text parse_named(struct parser *parser) {
    struct operand_text written = {.kind = PO_NAME, .name = parser->token};
    parse_advance(parser);
    if (token_is(&written.name, "_")) {
        written.kind = PO_SINK;
        return written;
    }
    written.symbol = parse_find(parser, written.name);
    struct token whole = written.name, suffix = written.name;
    const bool inside = written.symbol == NULL && whole.length > 2; /* a name with % holds its component */
    if (inside) {
        whole.length -= 2;
        suffix.text += whole.length;
        suffix.length = 2;
        struct symbol *vector = component_of(&suffix) >= 0 ? parse_find(parser, whole) : NULL;
        written.symbol = vector != NULL && vector->elements > 1 ? vector : NULL;
    }
    if (written.symbol != NULL && written.symbol->kind == SYM_REG && written.symbol->elements > 1) {
        const int component = component_of(inside ? &suffix : &parser->token);
        if (component >= written.symbol->elements) {
            parse_fail(parser, written.name.line, "the vector has %u components", written.symbol->elements);
        }
        if (component >= 0) {
            if (!inside) {
                parse_advance(parser);
            }
            return register_of(written.symbol, &written.name, (uint32_t)component);
        }
        written.kind = PO_VECTOR;
        written.count = written.symbol->elements;
        written.sub = parse_take(parser, written.count * sizeof *written.sub);
        for (uint32_t i = 0; i < written.count; i++) {
            written.sub[i] = register_of(written.symbol, &written.name, i);
        }
    } else if (written.symbol != NULL && written.symbol->kind == SYM_REG) {
        written.kind = PO_REG;
        written.type = written.symbol->type;
        written.off = written.symbol->off;
    } else if (token_is(&parser->token, "+") || token_is(&parser->token, "-")) {
        written.bits = parse_addend(parser);
    }
    return written;
}

struct operand_text parse_operand(struct parser *parser) {
    struct operand_text written = {.kind = PO_NONE};
    struct token token = parser->token;
    static const struct {
        char open;
        const char *close;
        enum operand_text_kind kind;
    } brackets[] = {{'{', "}", PO_VECTOR}, {'[', "]", PO_ADDRESS}, {'(', ")", PO_LIST}};
    if (token_is(&token, "~") || (token_is(&token, "(") && parse_starts_constant(parser))) {
        written.kind = PO_INT;
        written.bits = parse_constant(parser);
        return written;
    }
    for (int i = 0; i < 3; i++) {
        if (token.kind == TOK_PUNCT && token.value == (unsigned char)brackets[i].open) {
            written.kind = brackets[i].kind;
            if (parser->depth > 60) {
                parse_fail(parser, token.line, "brackets nested too deep");
            }
            parser->depth++; /* guards the recursion; no scope is opened */
            parser->scopes[parser->depth] = (struct scope){NULL, parser->nfixups};
            parse_advance(parser);
            parse_elements(parser, &written, brackets[i].close);
            parser->depth--;
            return written;
        }
    }
    if (token_is(&token, "!")) {
        parse_advance(parser);
        written = parse_operand(parser);
        written.negated = !written.negated;
        return written;
    }
    if (token.kind == TOK_NAME) {
        written = parse_named(parser);
        if (written.kind == PO_REG && token_is(&parser->token, "+")) { /* [%r1+4], [%r1+-4] */
            written.bits = parse_addend(parser);
        } else if (parse_accept(parser, "|")) {
            written.second = parse_take(parser, sizeof written);
            *written.second = parse_named(parser);
        }
        return written;
    }
    if (token_is(&token, "-") || token_is(&token, "+") || token.kind == TOK_INT) {
        struct lexer ahead = parser->lexer;
        struct token next = token.kind == TOK_INT ? token : lex_next(&ahead);
        if (next.kind == TOK_F64 || next.kind == TOK_F32) {
            parse_advance(parser);
            written.kind = next.kind == TOK_F64 ? PO_F64 : PO_F32;
            written.bits = next.value ^
                           (token_is(&token, "-") ? (next.kind == TOK_F64 ? (uint64_t)1 << 63 : 1u << 31) : 0);
            parse_advance(parser);
            return written;
        }
        written.kind = PO_INT;
        written.bits = parse_constant(parser);
        return written;
    }
    if (token.kind == TOK_F32 || token.kind == TOK_F64) {
        written.kind = token.kind == TOK_F32 ? PO_F32 : PO_F64;
        written.bits = token.value;
        parse_advance(parser);
        return written;
    }
    parse_fail(parser, token.line, "'%.*s' where an operand was expected", SHOWN(token));
}
