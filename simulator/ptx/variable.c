/* Parses declarations of variables and their initialisers. */
#include <string.h>

#include "parse.h"

#define MAX_VARIABLE_BYTES ((uint64_t)1 << 30)
#define MAX_SHARED_WINDOW  ((uint64_t)1 << 20)

static uint32_t take_align(struct parser *parser) {
    uint32_t line = parser->token.line;
    uint64_t align = parse_integer(parser);
    if (align == 0 || align > 4096 || (align & (align - 1)) != 0) {
        parse_fail(parser, line, "alignment %llu is not a power of two up to 4096", (unsigned long long)align);
    }
    return (uint32_t)align;
}

unsigned parse_declared_type(struct parser *parser, bool may_point, uint32_t *align, uint32_t *vector) {
    unsigned type = T_NONE;
    *align = 0;
    *vector = 1;
    while (parser->token.kind == TOK_DIRECTIVE) {
        struct token token = parser->token;
        unsigned found = parse_type_name(token.text + 1, token.length - 1);
        parse_advance(parser);
        if (token_is(&token, ".align")) {
            uint32_t stated = take_align(parser);
            *align =
                type == T_NONE ? stated : *align;    /* after the type, .align describes the pointee of .ptr */
        } else if (token_is(&token, ".attribute")) { /* .managed: host and device share all memory here */
            parse_expect(parser, "(");
            parse_expect(parser, ".managed");
            parse_expect(parser, ")");
        } else if (token_is(&token, ".v2") || token_is(&token, ".v4")) {
            *vector = (uint32_t)(token.text[2] - '0');
        } else if (found != T_NONE) {
            type = found;
        } else if (!may_point ||
                   (!token_is(&token, ".ptr") && !token_is(&token, ".global") && !token_is(&token, ".shared") &&
                    !token_is(&token, ".const") && !token_is(&token, ".local"))) {
            parse_fail(parser, token.line, "unknown directive '%.*s' in a declaration", (int)token.length,
                       token.text);
        }
    }
    if (type == T_NONE || type == T_PRED) {
        parse_fail(parser, parser->token.line, "a declaration without a type");
    }
    uint32_t natural = ptx_type_bytes(type) * *vector;
    *align = *align == 0 ? natural : *align;
    return type;
}

struct token parse_name(struct parser *parser) {
    struct token name = parser->token;
    if (name.kind != TOK_NAME) {
        parse_fail(parser, name.line, "'%.*s' where a name was expected", SHOWN(name));
    }
    parse_advance(parser);
    return name;
}

uint64_t parse_extents(struct parser *parser, uint64_t most, bool *open) {
    uint64_t count = 1;
    *open = false;
    while (parse_accept(parser, "[")) {
        if (parse_accept(parser, "]")) {
            *open = true;
            count = 0;
            continue;
        }
        uint64_t extent = parse_integer(parser);
        count = extent > most || count * extent > most ? most + 1 : count * extent;
        parse_expect(parser, "]");
    }
    return count;
}

/* ---- initialisers ---- */

static void put_value(struct parser *parser, uint8_t *to, unsigned type, struct init_ref ***tail, uint64_t at) {
    uint32_t bytes = ptx_type_bytes(type);
    struct token token = parser->token;
    if (token.kind == TOK_F64 || token.kind == TOK_F32) {
        double value;
        parse_advance(parser);
        if (token.kind == TOK_F32 || type == T_F64) {
            memcpy(to, &token.value, bytes < 8 ? bytes : 8);
            return;
        }
        memcpy(&value, &token.value, sizeof value);
        float narrow = (float)value;
        memcpy(to, &narrow, bytes < 4 ? bytes : 4);
        return;
    }
    if (token.kind == TOK_NAME) {
        bool generic = token_is(&token, "generic");
        parse_advance(parser);
        if (generic) {
            parse_expect(parser, "(");
            token = parse_name(parser);
        }
        struct init_ref *ref = parse_take(parser, sizeof *ref);
        ref->symbol = parse_string(parser, token.text, token.length);
        ref->at = at;
        ref->bytes = (uint8_t)(bytes < 8 ? bytes : 8); /* upper bytes stay zero */
        if (token_is(&parser->token, "+") || token_is(&parser->token, "-")) {
            ref->addend = (int64_t)parse_integer(parser);
        }
        if (generic) {
            parse_expect(parser, ")");
            if (token_is(&parser->token, "+") || token_is(&parser->token, "-")) {
                ref->addend += (int64_t)parse_integer(parser);
            }
        }
        **tail = ref;
        *tail = &ref->next;
        return;
    }
    uint64_t value = parse_integer(parser);
    memcpy(to, &value, bytes < 8 ? bytes : 8);
}

static void put_values(struct parser *parser, uint8_t *bytes, uint64_t size, unsigned type, uint64_t *at,
                       struct init_ref ***tail, int depth) {
    if (depth > 8) {
        parse_fail(parser, parser->token.line, "an initialiser nested too deep");
    }
    if (!parse_accept(parser, "{")) {
        if (*at + ptx_type_bytes(type) > size) {
            parse_fail(parser, parser->token.line, "more initialisers than elements");
        }
        put_value(parser, bytes + *at, type, tail, *at);
        *at += ptx_type_bytes(type);
        return;
    }
    while (!parse_accept(parser, "}")) {
        put_values(parser, bytes, size, type, at, tail, depth + 1);
        if (!token_is(&parser->token, "}")) {
            parse_expect(parser, ",");
        }
    }
}

/* Element count of an open array `x[] = {...}`, by scanning its initialiser ahead of parsing it. */
static uint64_t count_values(struct parser *parser) {
    struct lexer lexer = parser->lexer;
    uint64_t count = 0;
    int depth = 0;
    for (struct token token = parser->token; token.kind != TOK_END && token.kind != TOK_BAD;
         token = lex_next(&lexer)) {
        depth += token_is(&token, "{") - token_is(&token, "}");
        if (depth <= 0) {
            break;
        }
        count += token_is(&token, ",") || (count == 0 && !token_is(&token, "{"));
    }
    return count;
}

bool parse_variable(struct parser *parser, struct token word, bool is_extern) {
    const unsigned space = token_is(&word, ".shared")   ? SP_SHARED
                           : token_is(&word, ".global") ? SP_GLOBAL
                           : token_is(&word, ".const")  ? SP_CONST
                                                        : SP_GENERIC;
    if (space == SP_GENERIC) {
        return false;
    }
    uint32_t align, vector;
    unsigned type = parse_declared_type(parser, false, &align, &vector);
    do {
        struct token name = parse_name(parser);
        bool open;
        uint64_t count = parse_extents(parser, MAX_VARIABLE_BYTES, &open);
        if (count > MAX_VARIABLE_BYTES) {
            parse_fail(parser, name.line, "an array of more than %llu elements",
                       (unsigned long long)MAX_VARIABLE_BYTES);
        }
        bool initialised = parse_accept(parser, "=");
        if (open && initialised) {
            count = count_values(parser);
        }
        struct module *module = parser->module;
        module->variables = parse_grow(parser, module->variables, module->nvariables, &parser->variables_room,
                                       sizeof *module->variables);
        struct variable *variable = parse_take(parser, sizeof *variable);
        variable->name = parse_string(parser, name.text, name.length);
        variable->space = (uint8_t)space;
        variable->align = align;
        variable->is_extern = is_extern || (open && !initialised);
        variable->bytes = count * ptx_type_bytes(type) * vector;
        if (variable->bytes > MAX_VARIABLE_BYTES ||
            (space == SP_SHARED && variable->bytes > MAX_SHARED_WINDOW)) {
            parse_fail(parser, name.line, "'%s' has %llu bytes, too many", variable->name,
                       (unsigned long long)variable->bytes);
        }
        variable->index = module->nvariables;
        module->variables[module->nvariables++] = variable;
        uint64_t *end = space == SP_CONST ? &module->const_bytes : &module->global_bytes;
        if (!variable->is_extern && space != SP_SHARED) {
            variable->offset = round_up(*end, align);
            *end = variable->offset + variable->bytes;
            if (*end > MAX_VARIABLE_BYTES) {
                parse_fail(parser, name.line, "the module's variables have too many bytes");
            }
        } else if (space == SP_SHARED && variable->is_extern) {
            module->dynamic_shared = module->nvariables - 1;
        } else if (variable->is_extern) {
            parse_fail(parser, name.line, "'%s' is external; only shared memory may be", variable->name);
        }
        struct symbol *symbol = parse_declare(parser, name, SYM_VARIABLE);
        symbol->variable = variable;
        if (initialised) {
            uint8_t *bytes = parse_take(parser, variable->bytes + 16);
            struct init_ref **tail = &variable->refs;
            uint64_t at = 0;
            put_values(parser, bytes, variable->bytes, type, &at, &tail, 0);
            variable->init = bytes;
        }
    } while (parse_accept(parser, ","));
    parse_expect(parser, ";");
    return true;
}
