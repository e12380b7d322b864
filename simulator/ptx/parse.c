/* Parser basics (errors, tokens, memory), symbols and scopes, and the entry point ptx_parse. */
#include "parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t type, bytes;
} types[] = {
    {"pred", T_PRED, 1},     {"b8", T_B8, 1},         {"b16", T_B16, 2},       {"b32", T_B32, 4},
    {"b64", T_B64, 8},       {"b128", T_B128, 16},    {"u8", T_U8, 1},         {"u16", T_U16, 2},
    {"u32", T_U32, 4},       {"u64", T_U64, 8},       {"s8", T_S8, 1},         {"s16", T_S16, 2},
    {"s32", T_S32, 4},       {"s64", T_S64, 8},       {"f16", T_F16, 2},       {"f16x2", T_F16X2, 4},
    {"bf16", T_BF16, 2},     {"bf16x2", T_BF16X2, 4}, {"tf32", T_TF32, 4},     {"f32", T_F32, 4},
    {"f32x2", T_F32X2, 8},   {"f64", T_F64, 8},       {"u16x2", T_U16X2, 4},   {"s16x2", T_S16X2, 4},
    {"e4m3", T_E4M3, 1},     {"e5m2", T_E5M2, 1},     {"e4m3x2", T_E4M3X2, 2}, {"e5m2x2", T_E5M2X2, 2},
    {"e2m1x2", T_E2M1X2, 1}, {"e2m3x2", T_E2M3X2, 2}, {"e3m2x2", T_E3M2X2, 2}, {"ue8m0x2", T_UE8M0X2, 2},
};

unsigned parse_type_name(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i].name) == length && memcmp(types[i].name, text, length) == 0) {
            return types[i].type;
        }
    }
    return T_NONE;
}

unsigned ptx_type_bytes(unsigned type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) {
            return types[i].bytes;
        }
    }
    return 0;
}

bool is_float_type(unsigned type) {
    return type == T_F16 || type == T_F16X2 || type == T_BF16 || type == T_BF16X2 || type == T_F32 ||
           type == T_F32X2 || type == T_F64;
}

const char *ptx_type_name(unsigned type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) {
            return types[i].name;
        }
    }
    return "?";
}

void parse_fail(struct parser *parser, uint32_t line, const char *format, ...) {
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    (void)snprintf(parser->message, parser->message_bytes, "line %u: %s", line, what);
    if (parser->in_body && !*parser->no_memory) {
        parser->in_body = false;
        longjmp(parser->body_fail, 1);
    }
    longjmp(parser->fail, 1);
}

void parse_no_memory(struct parser *parser) {
    *parser->no_memory = true;
    parse_fail(parser, parser->token.line, "out of memory");
}

void *parse_take(struct parser *parser, size_t bytes) {
    void *taken = arena_take(parser->arena, bytes);
    if (taken == NULL) {
        parse_no_memory(parser);
    }
    return taken;
}

char *parse_string(struct parser *parser, const char *text, size_t length) {
    char *copy = parse_take(parser, length + 1);
    memcpy(copy, text, length);
    return copy;
}

void *parse_grow(struct parser *parser, void *array, uint32_t count, uint32_t *room, size_t size) {
    const size_t before = *room;
    if (!list_grow((void *)&array, count, room, size, LONG_LIST)) {
        parse_no_memory(parser);
    }
    memset((char *)array + before * size, 0, (*room - before) * size);
    return array;
}

void parse_advance(struct parser *parser) {
    parser->token = lex_next(&parser->lexer);
    if (parser->token.kind == TOK_BAD) {
        parse_fail(parser, parser->token.line, "%s: '%.*s'", parser->lexer.problem,
                   (int)(parser->token.length < 40 ? parser->token.length : 40), parser->token.text);
    }
}

bool parse_accept(struct parser *parser, const char *text) {
    if (!token_is(&parser->token, text)) {
        return false;
    }
    parse_advance(parser);
    return true;
}

void parse_expect(struct parser *parser, const char *text) {
    if (!parse_accept(parser, text)) {
        parse_fail(parser, parser->token.line, "'%.*s' where '%s' was expected", SHOWN(parser->token), text);
    }
}

uint64_t parse_integer(struct parser *parser) {
    bool negative = false;
    while (token_is(&parser->token, "-") || token_is(&parser->token, "+")) {
        negative ^= parser->token.value == '-';
        parse_advance(parser);
    }
    if (parser->token.kind != TOK_INT) {
        parse_fail(parser, parser->token.line, "'%.*s' where a number was expected", SHOWN(parser->token));
    }
    uint64_t value = parser->token.value;
    parse_advance(parser);
    return negative ? 0 - value : value;
}

/* ---- symbols ---- */

static uint32_t hash(const char *text, uint32_t length) {
    uint32_t value = 2166136261u;
    for (uint32_t i = 0; i < length; i++) {
        value = (value ^ (unsigned char)text[i]) * 16777619u;
    }
    return value % SYMBOL_BUCKETS;
}

static struct symbol *find_exact(struct parser *parser, const char *name, uint32_t length, bool range) {
    for (struct symbol *s = parser->buckets[hash(name, length)]; s != NULL; s = s->bucket_next) {
        if (s->length == length && s->range == range && memcmp(s->name, name, length) == 0) {
            return s;
        }
    }
    return NULL;
}

uint32_t register_bytes(unsigned type) {
    uint32_t bytes = ptx_type_bytes(type);
    return type == T_PRED ? 4 : bytes == 16 ? ROW128 : bytes == 8 ? ROW64 : ROW32;
}

/* Makes a symbol for one register of a range such as `.reg .b32 %r<9>`. */
static struct symbol *find_in_range(struct parser *parser, struct token name) {
    uint32_t digits = 0, number = 0, unit = 1;
    while (digits < 8 && digits + 1 < name.length && name.text[name.length - digits - 1] >= '0' &&
           name.text[name.length - digits - 1] <= '9') {
        number += (uint32_t)(name.text[name.length - digits - 1] - '0') * unit;
        unit *= 10;
        digits++;
        bool leading_zero = name.text[name.length - digits] == '0' && digits > 1;
        struct symbol *range = leading_zero ? NULL : find_exact(parser, name.text, name.length - digits, true);
        if (range != NULL && number < range->count) {
            struct symbol *found = parse_take(parser, sizeof *found);
            *found = *range;
            found->off = range->off + number * register_bytes(range->type) * range->elements;
            return found;
        }
    }
    return NULL;
}

struct symbol *parse_find(struct parser *parser, struct token name) {
    struct symbol *found = find_exact(parser, name.text, name.length, false);
    return found != NULL ? found : find_in_range(parser, name);
}

struct symbol *parse_declare(struct parser *parser, struct token name, enum symbol_kind kind) {
    uint32_t bucket = hash(name.text, name.length);
    struct symbol *symbol = parse_take(parser, sizeof *symbol);
    struct scope *scope = &parser->scopes[parser->depth];
    symbol->name = name.text;
    symbol->length = name.length;
    symbol->line = name.line;
    symbol->kind = kind;
    symbol->bucket_next = parser->buckets[bucket];
    parser->buckets[bucket] = symbol;
    symbol->scope_next = scope->symbols;
    scope->symbols = symbol;
    return symbol;
}

void parse_open_scope(struct parser *parser) {
    if (parser->depth + 1 >= (int)(sizeof parser->scopes / sizeof *parser->scopes)) {
        parse_fail(parser, parser->token.line, "scopes nested too deep");
    }
    parser->scopes[++parser->depth] = (struct scope){NULL, parser->nfixups};
}

/* Resolves branches to labels of this scope; the others are left to the enclosing scope. */
void parse_close_scope(struct parser *parser) {
    struct scope *scope = &parser->scopes[parser->depth];
    uint32_t kept = scope->first_fixup;
    for (uint32_t i = scope->first_fixup; i < parser->nfixups; i++) {
        struct fixup *fixup = &parser->fixups[i];
        struct symbol *label = find_exact(parser, fixup->name, fixup->length, false);
        if (label != NULL && label->kind == SYM_LABEL) {
            *(fixup->target != NULL ? fixup->target : &parser->module->code[fixup->pc].control.target) =
                label->off;
        } else {
            parser->fixups[kept++] = *fixup;
        }
    }
    parser->nfixups = kept;
    while (scope->symbols != NULL) {
        struct symbol *symbol = scope->symbols;
        scope->symbols = symbol->scope_next;
        parser->buckets[hash(symbol->name, symbol->length)] = symbol->bucket_next;
    }
    parser->depth--;
}

/* ---- entry ---- */

static void fill_addresses(struct parser *parser) {
    struct module *module = parser->module;
    for (uint32_t i = 0; i < parser->nconst_fixups; i++) {
        const struct const_fixup *fixup = &parser->const_fixups[i];
        const uint8_t *memory =
            fixup->variable->space == SP_CONST ? module->const_memory : module->global_memory;
        uint64_t address = (uint64_t)(uintptr_t)memory + fixup->variable->offset + (uint64_t)fixup->addend;
        for (int lane = 0; lane < LANES; lane++) {
            if (fixup->wide) {
                memcpy(module->constants + fixup->off + lane * 8, &address, 8);
            } else {
                memcpy(module->constants + fixup->off + lane * 4, &address, 4);
            }
        }
    }
}

static void release(struct parser *parser) {
    free(parser->fixups);
    free(parser->const_fixups);
    free(parser->const_index);
    free(parser->specials);
    free(parser->calls);
    free(parser);
}

/* False after parse_fail. A function of its own, so that no local variable lives across the longjmp. */
static bool parse_text(struct parser *parser, const char *text, size_t bytes) {
    if (setjmp(parser->fail) != 0) {
        return false;
    }
    char *copy = parse_string(parser, text, bytes); /* symbol names point into the copy */
    parser->decoder = parse_take(parser, sizeof *parser->decoder);
    /* PTX embedded in an executable may end with a zero byte. */
    parser->lexer = (struct lexer){copy, copy + strnlen(copy, bytes), 1, NULL};
    parse_module(parser);
    fill_addresses(parser);
    return true;
}

struct module *ptx_parse(const char *text, size_t bytes, const struct opcode *opcodes, char *message,
                         size_t message_bytes, bool *no_memory) {
    struct parser *parser = calloc(1, sizeof *parser);
    *no_memory = false;
    struct module *module = calloc(1, sizeof *module);
    struct arena *arena = arena_make();
    if (parser == NULL || module == NULL || arena == NULL) {
        free(parser);
        free(module);
        arena_free(arena);
        *no_memory = true;
        (void)snprintf(message, message_bytes, "out of memory");
        return NULL;
    }
    module->arena = parser->arena = arena;
    module->dynamic_shared = -1;
    parser->module = module;
    parser->opcodes = opcodes;
    parser->message = message;
    parser->message_bytes = message_bytes;
    parser->no_memory = no_memory;
    bool parsed = parse_text(parser, text, bytes);
    release(parser);
    if (!parsed) {
        ptx_free(module);
        return NULL;
    }
    return module;
}

void ptx_free(struct module *module) {
    if (module == NULL) {
        return;
    }
    free(module->code);
    free(module->functions);
    free(module->variables);
    free(module->constants);
    free(module->text);
    free(module->locs);
    free(module->files);
    free(module->global_memory);
    free(module->const_memory);
    arena_free(module->arena);
    free(module);
}

const struct function *ptx_find_entry(const struct module *module, const char *name) {
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        if (module->functions[i]->is_entry && strcmp(module->functions[i]->name, name) == 0) {
            return module->functions[i];
        }
    }
    return NULL;
}
