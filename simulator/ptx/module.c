/* Directives of a module: variables, function headers, source files. */
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define MAX_VARIABLE_BYTES ((uint64_t)1 << 30)
#define MAX_SHARED_WINDOW  ((uint64_t)1 << 20)
#define MAX_PARAMETERS     256
#define MAX_PARAM_BYTES    32764 /* HW: kernel parameters since PTX ISA 8.1 */

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static bool is_directive(struct parser *parser, const char *name) {
    return parser->token.kind == TOK_DIRECTIVE && token_is(&parser->token, name);
}

static uint32_t take_align(struct parser *parser) {
    uint32_t line = parser->token.line;
    uint64_t align = parse_integer(parser);
    if (align == 0 || align > 4096 || (align & (align - 1)) != 0) {
        parse_fail(parser, line, "alignment %llu is no power of two up to 4096", (unsigned long long)align);
    }
    return (uint32_t)align;
}

/* `.align N`, `.ptr`, a space and a type in any order, as declarations have them. */
static unsigned declared_type(struct parser *parser, uint32_t *align, uint32_t *vector) {
    unsigned type = T_NONE;
    *align = 0;
    *vector = 1;
    while (parser->token.kind == TOK_DIRECTIVE) {
        struct token token = parser->token;
        unsigned found = parse_type_name(token.text + 1, token.length - 1);
        parse_advance(parser);
        if (token_is(&token, ".align")) {
            uint32_t stated = take_align(parser);
            *align = type == T_NONE ? stated : *align; /* behind the type it is the pointee's (.ptr) */
        } else if (token_is(&token, ".v2") || token_is(&token, ".v4")) {
            *vector = (uint32_t)(token.text[2] - '0');
        } else if (found != T_NONE) {
            type = found;
        } else if (!token_is(&token, ".ptr") && !token_is(&token, ".global") && !token_is(&token, ".shared") &&
                   !token_is(&token, ".const") && !token_is(&token, ".local")) {
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

static struct token take_name(struct parser *parser) {
    struct token name = parser->token;
    if (name.kind != TOK_NAME) {
        parse_fail(parser, name.line, "'%.*s' where a name was expected",
                   (int)(name.length < 60 ? name.length : 60), name.text);
    }
    parse_advance(parser);
    return name;
}

/* [4][8]...; `[]` gives 0. */
static uint64_t take_extents(struct parser *parser, bool *is_array, bool *open) {
    uint64_t count = 1;
    *is_array = *open = false;
    while (parse_accept(parser, "[")) {
        *is_array = true;
        if (parse_accept(parser, "]")) {
            *open = true;
            count = 0;
            continue;
        }
        uint64_t extent = parse_integer(parser);
        if (extent > MAX_VARIABLE_BYTES || count * extent > MAX_VARIABLE_BYTES) {
            parse_fail(parser, parser->token.line, "an array of more than %llu elements",
                       (unsigned long long)MAX_VARIABLE_BYTES);
        }
        count *= extent;
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
            token = take_name(parser);
        }
        struct init_ref *ref = parse_take(parser, sizeof *ref);
        ref->symbol = arena_string(parser->arena, token.text, token.length);
        ref->at = at;
        ref->bytes = (uint8_t)bytes;
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

/* Counts what an open array `x[] = {...}` holds by reading it twice. */
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
    return count + 1;
}

void parse_variable(struct parser *parser, unsigned space, bool is_extern, bool visible) {
    uint32_t align, vector;
    unsigned type = declared_type(parser, &align, &vector);
    do {
        struct token name = take_name(parser);
        bool is_array, open;
        uint64_t count = take_extents(parser, &is_array, &open);
        bool initialised = parse_accept(parser, "=");
        if (open && initialised) {
            count = count_values(parser);
        }
        struct module *module = parser->module;
        module->variables = parse_grow(parser, module->variables, module->nvariables, &parser->variables_room,
                                       sizeof *module->variables);
        struct variable *variable = parse_take(parser, sizeof *variable);
        variable->name = arena_string(parser->arena, name.text, name.length);
        variable->space = (uint8_t)space;
        variable->align = align;
        variable->is_extern = is_extern || (open && !initialised);
        variable->defined = !variable->is_extern;
        variable->visible = visible;
        variable->bytes = count * ptx_type_bytes(type) * vector;
        if (variable->bytes > MAX_VARIABLE_BYTES ||
            (space == SP_SHARED && variable->bytes > MAX_SHARED_WINDOW)) {
            parse_fail(parser, name.line, "'%s' has %llu bytes, too many", variable->name,
                       (unsigned long long)variable->bytes);
        }
        module->variables[module->nvariables++] = variable;
        uint64_t in_function = parser->function != NULL ? parser->function->shared_bytes : 0;
        uint64_t *end = space == SP_SHARED  ? (parser->function != NULL ? &in_function : &module->shared_bytes)
                        : space == SP_CONST ? &module->const_bytes
                                            : &module->global_bytes;
        if (!variable->is_extern) {
            variable->offset = round_up(*end, align);
            *end = variable->offset + variable->bytes;
            if (space == SP_SHARED && parser->function != NULL) {
                parser->function->shared_bytes = (uint32_t)in_function;
            }
            if (*end > MAX_VARIABLE_BYTES) {
                parse_fail(parser, name.line, "the module's variables have too many bytes");
            }
        } else if (space == SP_SHARED) {
            module->dynamic_shared = module->nvariables - 1;
        } else {
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
}

/* ---- functions ---- */

static uint32_t parse_parameters(struct parser *parser, struct parameter **out, uint32_t *total, bool declare) {
    struct parameter list[MAX_PARAMETERS];
    uint32_t count = 0;
    parse_expect(parser, "(");
    while (!parse_accept(parser, ")")) {
        if (count == MAX_PARAMETERS) {
            parse_fail(parser, parser->token.line, "more than %d parameters", MAX_PARAMETERS);
        }
        if (!parse_accept(parser, ".param") && !parse_accept(parser, ".reg")) {
            parse_fail(parser, parser->token.line, "a parameter without .param");
        }
        uint32_t align, vector;
        unsigned type = declared_type(parser, &align, &vector);
        struct token name = take_name(parser);
        bool is_array, open;
        uint64_t bytes = take_extents(parser, &is_array, &open) * ptx_type_bytes(type) * vector;
        uint64_t offset = round_up(*total, align);
        if (offset + bytes > MAX_PARAM_BYTES) {
            parse_fail(parser, name.line, "parameters of more than %d bytes", MAX_PARAM_BYTES);
        }
        list[count++] = (struct parameter){arena_string(parser->arena, name.text, name.length),
                                           (uint32_t)offset, (uint32_t)bytes, align};
        *total = (uint32_t)(offset + bytes);
        if (declare) {
            struct symbol *symbol = parse_declare(parser, name, SYM_PARAM);
            symbol->off = (uint32_t)offset;
            symbol->bytes = (uint32_t)bytes;
        }
        if (!token_is(&parser->token, ")")) {
            parse_expect(parser, ",");
        }
    }
    *out = parse_take(parser, (count + 1) * sizeof **out);
    memcpy(*out, list, count * sizeof *list);
    return count;
}

static void take_triple(struct parser *parser, uint32_t triple[3]) {
    for (int i = 0; i < 3; i++) {
        triple[i] = 1;
    }
    triple[0] = (uint32_t)parse_integer(parser);
    for (int i = 1; i < 3 && parse_accept(parser, ","); i++) {
        triple[i] = (uint32_t)parse_integer(parser);
    }
}

static void performance_directives(struct parser *parser, struct function *function) {
    while (parser->token.kind == TOK_DIRECTIVE) {
        uint32_t ignored[3];
        struct token token = parser->token;
        parse_advance(parser);
        if (token_is(&token, ".maxntid")) {
            take_triple(parser, function->maxntid);
        } else if (token_is(&token, ".reqntid")) {
            take_triple(parser, function->reqntid);
        } else if (token_is(&token, ".reqnctapercluster")) {
            take_triple(parser, function->cluster);
        } else if (token_is(&token, ".maxnreg")) {
            function->maxnreg = (uint32_t)parse_integer(parser);
        } else if (token_is(&token, ".minnctapersm") || token_is(&token, ".maxclusterrank") ||
                   token_is(&token, ".abi_preserve") || token_is(&token, ".abi_preserve_control")) {
            take_triple(parser, ignored);
        } else if (!token_is(&token, ".explicitcluster") && !token_is(&token, ".blocksareclusters") &&
                   !token_is(&token, ".noreturn") && !token_is(&token, ".unified")) {
            if (token_is(&token, ".pragma")) {
                parse_advance(parser);
                parse_expect(parser, ";");
                continue;
            }
            parse_fail(parser, token.line, "unknown directive '%.*s'", (int)token.length, token.text);
        }
    }
}

static struct function *function_named(struct parser *parser, struct token name) {
    struct symbol *known = parse_find(parser, name);
    if (known != NULL && known->kind == SYM_FUNCTION) {
        return known->function;
    }
    struct module *module = parser->module;
    module->functions = parse_grow(parser, module->functions, module->nfunctions, &parser->functions_room,
                                   sizeof *module->functions);
    struct function *function = parse_take(parser, sizeof *function);
    function->name = arena_string(parser->arena, name.text, name.length);
    function->index = module->nfunctions;
    function->line = name.line;
    function->builtin = token_is(&name, "vprintf")        ? BUILTIN_VPRINTF
                        : token_is(&name, "__assertfail") ? BUILTIN_ASSERTFAIL
                                                          : BUILTIN_NONE;
    module->functions[module->nfunctions++] = function;
    parse_declare(parser, name, SYM_FUNCTION)->function = function;
    return function;
}

static void parse_function(struct parser *parser, bool is_entry) {
    struct parameter *returns = NULL;
    struct token name;
    uint32_t nreturns = 0, total = 0;
    /* The name comes between returned and taken parameters, whose scope is the body's: look ahead. */
    struct lexer lexer = parser->lexer;
    name = parser->token;
    if (!is_entry && token_is(&name, "(")) {
        while (name.kind != TOK_END && name.kind != TOK_BAD && !token_is(&name, ")")) {
            name = lex_next(&lexer);
        }
        name = lex_next(&lexer);
    }
    if (name.kind != TOK_NAME) {
        parse_fail(parser, name.line, "a function without a name");
    }
    struct function *function = function_named(parser, name);
    parse_open_scope(parser);
    if (!is_entry && token_is(&parser->token, "(")) {
        nreturns = parse_parameters(parser, &returns, &total, true);
    }
    (void)take_name(parser);
    struct parameter *params = parse_take(parser, sizeof *params);
    uint32_t nparams = 0;
    if (token_is(&parser->token, "(")) {
        nparams = parse_parameters(parser, &params, &total, true);
    }
    function->params = params;
    function->nparams = nparams;
    function->returns = returns;
    function->nreturns = nreturns;
    function->param_bytes = total;
    function->is_entry = is_entry;
    performance_directives(parser, function);
    if (!parse_accept(parser, ";")) {
        if (function->is_defined) {
            parse_fail(parser, name.line, "'%s' is defined twice", function->name);
        }
        parse_body(parser, function);
    }
    parse_close_scope(parser);
    if (parser->nfixups > 0) {
        const struct fixup *fixup = &parser->fixups[0];
        parse_fail(parser, fixup->line, "no label '%.*s'", (int)fixup->length, fixup->name);
    }
}

/* ---- module ---- */

static void parse_file(struct parser *parser) {
    struct module *module = parser->module;
    uint64_t index = parse_integer(parser);
    struct token name = parser->token;
    if (name.kind != TOK_STRING) {
        parse_fail(parser, name.line, ".file without a name");
    }
    parse_advance(parser);
    while (parse_accept(parser, ",")) {
        (void)parse_integer(parser);
    }
    module->files =
        parse_grow(parser, module->files, module->nfiles, &parser->files_room, sizeof *module->files);
    module->files[module->nfiles++] =
        (struct source_file){(uint32_t)index, arena_string(parser->arena, name.text, name.length)};
}

static void skip_section(struct parser *parser) {
    while (parser->token.kind != TOK_END && !token_is(&parser->token, "{")) {
        parse_advance(parser);
    }
    while (parser->token.kind != TOK_END && !token_is(&parser->token, "}")) {
        parse_advance(parser);
    }
    parse_expect(parser, "}");
}

static void parse_target(struct parser *parser) {
    struct token name = take_name(parser);
    struct module *module = parser->module;
    size_t length = name.length < sizeof module->target - 1 ? name.length : sizeof module->target - 1;
    memcpy(module->target, name.text, length);
    module->sm = strncmp(module->target, "sm_", 3) == 0 ? (unsigned)strtoul(module->target + 3, NULL, 10) : 0;
    while (parse_accept(parser, ",")) {
        (void)take_name(parser);
    }
}

/* One module directive, whose word has been taken. */
static void parse_directive(struct parser *parser, struct token word, bool is_extern, bool visible) {
    if (token_is(&word, ".version")) {
        struct token number = parser->token; /* 9.0 reads as a number with a fraction */
        double value = 0;
        if (number.kind != TOK_F64) {
            parse_fail(parser, number.line, ".version without a number");
        }
        memcpy(&value, &number.value, sizeof value);
        parser->module->version = value > 0 && value < 100 ? (unsigned)(value * 10 + 0.5) : 0;
        parse_advance(parser);
    } else if (token_is(&word, ".target")) {
        parse_target(parser);
    } else if (token_is(&word, ".address_size")) {
        if (parse_integer(parser) != 64) {
            parse_fail(parser, word.line, "only .address_size 64 is supported");
        }
    } else if (token_is(&word, ".file")) {
        parse_file(parser);
    } else if (token_is(&word, ".section")) {
        skip_section(parser);
    } else if (token_is(&word, ".entry") || token_is(&word, ".func")) {
        parse_function(parser, token_is(&word, ".entry"));
    } else if (token_is(&word, ".global") || token_is(&word, ".shared") || token_is(&word, ".const")) {
        parse_variable(parser,
                       token_is(&word, ".shared")  ? SP_SHARED
                       : token_is(&word, ".const") ? SP_CONST
                                                   : SP_GLOBAL,
                       is_extern, visible);
    } else {
        parse_fail(parser, word.line, "unknown directive '%.*s'", (int)(word.length < 60 ? word.length : 60),
                   word.text);
    }
}

/* Addresses in initialisers, once every variable has its place. */
static void resolve_initialisers(struct parser *parser) {
    struct module *module = parser->module;
    for (uint32_t i = 0; i < module->nvariables; i++) {
        const struct variable *variable = module->variables[i];
        uint8_t *memory = variable->space == SP_CONST ? module->const_memory : module->global_memory;
        if (variable->space == SP_SHARED || variable->init == NULL) {
            continue;
        }
        memcpy(memory + variable->offset, variable->init, variable->bytes);
        for (const struct init_ref *ref = variable->refs; ref != NULL; ref = ref->next) {
            const struct variable *to = NULL;
            for (uint32_t j = 0; j < module->nvariables && to == NULL; j++) {
                to = strcmp(module->variables[j]->name, ref->symbol) == 0 ? module->variables[j] : NULL;
            }
            if (to == NULL || to->space == SP_SHARED) {
                parse_fail(parser, 0, "the initialiser of '%s' names '%s', which has no address",
                           variable->name, ref->symbol);
            }
            const uint8_t *base = to->space == SP_CONST ? module->const_memory : module->global_memory;
            uint64_t address = (uint64_t)(uintptr_t)base + to->offset + (uint64_t)ref->addend;
            memcpy(memory + variable->offset + ref->at, &address, ref->bytes);
        }
    }
}

static uint8_t *take_memory(struct parser *parser, uint64_t bytes) {
    const uint64_t page = 4096; /* the largest alignment a variable may ask for */
    uint8_t *memory = aligned_alloc(page, round_up(bytes + 1, page));
    if (memory == NULL) {
        parse_fail(parser, 0, "out of memory");
    }
    memset(memory, 0, round_up(bytes + 1, page));
    return memory;
}

void parse_module(struct parser *parser) {
    struct module *module = parser->module;
    module->locs = parse_grow(parser, module->locs, 0, &parser->locs_room, sizeof *module->locs);
    module->nlocs = 1; /* number 0: unknown */
    parse_advance(parser);
    while (parser->token.kind != TOK_END) {
        bool is_extern = false, visible = false;
        while (is_directive(parser, ".visible") || is_directive(parser, ".extern") ||
               is_directive(parser, ".weak") || is_directive(parser, ".common")) {
            is_extern |= is_directive(parser, ".extern");
            visible = true;
            parse_advance(parser);
        }
        struct token word = parser->token;
        if (word.kind != TOK_DIRECTIVE) {
            parse_fail(parser, word.line, "'%.*s' where a directive was expected",
                       (int)(word.length < 60 ? word.length : 60), word.text);
        }
        parse_advance(parser);
        parse_directive(parser, word, is_extern, visible);
    }
    if (module->version == 0 || module->sm == 0) {
        parse_fail(parser, 1, "no .version or no .target sm_NN");
    }
    module->global_memory = take_memory(parser, module->global_bytes);
    module->const_memory = take_memory(parser, module->const_bytes);
    resolve_initialisers(parser);
}
