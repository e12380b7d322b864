/* Parses a module's directives: function headers, source files, target; fills variables with their initial
 * values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define MAX_PARAMETERS  256
#define MAX_PARAM_BYTES 32764 /* HW: limit on kernel parameters since PTX ISA 8.1 */

static bool is_directive(struct parser *parser, const char *name) {
    return parser->token.kind == TOK_DIRECTIVE && token_is(&parser->token, name);
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
        unsigned type = parse_declared_type(parser, true, &align, &vector);
        struct token name = parse_name(parser);
        bool open;
        uint64_t bytes = parse_extents(parser, MAX_PARAM_BYTES, &open) * ptx_type_bytes(type) * vector;
        uint64_t offset = round_up(*total, align);
        if (offset + bytes > MAX_PARAM_BYTES) {
            parse_fail(parser, name.line, "parameters of more than %d bytes", MAX_PARAM_BYTES);
        }
        list[count++] = (struct parameter){parse_string(parser, name.text, name.length), (uint32_t)offset,
                                           (uint32_t)bytes, align};
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
        } else if (token_is(&token, ".minnctapersm")) {
            function->min_ctas = (uint32_t)parse_integer(parser);
        } else if (token_is(&token, ".maxclusterrank") || token_is(&token, ".abi_preserve") ||
                   token_is(&token, ".abi_preserve_control")) {
            take_triple(parser, ignored);
        } else if (!token_is(&token, ".explicitcluster") && !token_is(&token, ".blocksareclusters") &&
                   !token_is(&token, ".noreturn") && !token_is(&token, ".unified")) {
            if (token_is(&token, ".pragma")) {
                parse_advance(parser);
                parse_expect(parser, ";");
                continue;
            }
            parse_fail(parser, token.line, "unknown directive '%.*s'", SHOWN(token));
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
    function->name = parse_string(parser, name.text, name.length);
    function->index = module->nfunctions;
    function->line = name.line;
    function->builtin = token_is(&name, "vprintf")        ? BUILTIN_VPRINTF
                        : token_is(&name, "__assertfail") ? BUILTIN_ASSERTFAIL
                        : token_is(&name, "malloc")       ? BUILTIN_MALLOC
                        : token_is(&name, "free")         ? BUILTIN_FREE
                                                          : BUILTIN_NONE;
    module->functions[module->nfunctions++] = function;
    parse_declare(parser, name, SYM_FUNCTION)->function = function;
    return function;
}

void parse_prototype(struct parser *parser, struct token label) {
    struct function *function = parse_take(parser, sizeof *function);
    uint32_t total = 0;
    if (token_is(&parser->token, "(")) {
        function->nreturns = parse_parameters(parser, &function->returns, &total, false);
    }
    (void)parse_name(parser); /* _ */
    if (token_is(&parser->token, "(")) {
        function->nparams = parse_parameters(parser, &function->params, &total, false);
    }
    performance_directives(parser, function);
    parse_expect(parser, ";");
    parse_declare(parser, label, SYM_PROTOTYPE)->function = function;
}

/* Parses a body; false if it cannot. A function of its own, so that no local lives across the longjmp. */
static bool body_reads(struct parser *parser, struct function *function) {
    if (setjmp(parser->body_fail) != 0) {
        return false;
    }
    parser->in_body = true;
    parse_body(parser, function);
    parse_close_scope(parser);
    if (parser->nfixups > 0) {
        const struct fixup *fixup = &parser->fixups[0];
        parse_fail(parser, fixup->line, "no label '%.*s'", (int)fixup->length, fixup->name);
    }
    parser->in_body = false;
    return true;
}

/* Recovers from an unreadable body: drops its instructions, branches and symbols, keeps the error as the
 * function's `unreadable`, and continues after the closing brace. The lexer is behind the opening brace. */
static void leave_body(struct parser *parser, struct function *function) {
    parser->nfixups = 0;
    for (int depth = 0; depth <= parser->depth; depth++) {
        parser->scopes[depth].first_fixup = 0;
    }
    while (parser->depth > 0) {
        parse_close_scope(parser);
    }
    parser->function = NULL;
    parser->module->ncode = function->first_pc;
    function->end_pc = function->first_pc;
    function->nspecials = function->ncalls = function->calls_pointers = 0;
    function->unreadable = parse_string(parser, parser->message, strlen(parser->message));
    for (int open = 1; open > 0;) { /* lex_next, as parse_advance would fail again at a bad token */
        struct token token = lex_next(&parser->lexer);
        if (token.kind == TOK_END) {
            longjmp(parser->fail, 1);
        }
        open += token_is(&token, "{") - token_is(&token, "}");
    }
    parse_advance(parser);
}

/* Fails if no kernel of the module could be parsed, with the first function's reason. */
static void need_readable(struct parser *parser) {
    const struct module *module = parser->module;
    const struct function *unreadable = NULL;
    for (uint32_t i = module->nfunctions; i > 0; i--) {
        const struct function *function = module->functions[i - 1];
        if (function->is_entry && function->is_defined && function->unreadable == NULL) {
            return;
        }
        unreadable = function->unreadable != NULL ? function : unreadable;
    }
    if (unreadable != NULL) {
        (void)snprintf(parser->message, parser->message_bytes, "%s", unreadable->unreadable);
        longjmp(parser->fail, 1);
    }
}

static void parse_function(struct parser *parser, bool is_entry) {
    struct parameter *returns = NULL;
    struct token name;
    uint32_t nreturns = 0, total = 0;
    /* The name follows the return parameters, but those belong to the scope opened for the body: find the name
     * first. */
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
    (void)parse_name(parser);
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
    if (parse_accept(parser, ";")) {
        parse_close_scope(parser);
        return;
    }
    if (function->is_defined) {
        parse_fail(parser, name.line, "'%s' is defined twice", function->name);
    }
    if (!token_is(&parser->token, "{")) {
        parse_expect(parser, "{");
    }
    struct lexer body = parser->lexer; /* just behind the opening brace */
    if (!body_reads(parser, function)) {
        parser->lexer = body;
        leave_body(parser, function);
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
        (struct source_file){(uint32_t)index, parse_string(parser, name.text, name.length)};
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
    struct token name = parse_name(parser);
    struct module *module = parser->module;
    size_t length = name.length < sizeof module->target - 1 ? name.length : sizeof module->target - 1;
    memcpy(module->target, name.text, length);
    module->sm = strncmp(module->target, "sm_", 3) == 0 ? (unsigned)strtoul(module->target + 3, NULL, 10) : 0;
    while (parse_accept(parser, ",")) {
        (void)parse_name(parser);
    }
}

/* Parses the rest of a directive whose keyword is `word`. */
static void parse_directive(struct parser *parser, struct token word, bool is_extern) {
    if (token_is(&word, ".version")) {
        struct token number = parser->token; /* "9.0" is lexed as a floating-point number */
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
    } else if (!parse_variable(parser, word, is_extern)) {
        parse_fail(parser, word.line, "unknown directive '%.*s'", SHOWN(word));
    }
}

static struct function *function_of(const struct module *module, const char *name) {
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        if (strcmp(module->functions[i]->name, name) == 0) {
            return module->functions[i];
        }
    }
    return NULL;
}

/* Copies initial values and fills in the addresses they contain; every variable has an offset by now. */
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
            struct function *function = to == NULL ? function_of(module, ref->symbol) : NULL;
            if (function != NULL) {
                uint64_t address = function->index + 1;
                function->address_taken = 1;
                memcpy(memory + variable->offset + ref->at, &address, ref->bytes);
                continue;
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
    const uint64_t page = 4096; /* largest alignment that a variable may have */
    uint8_t *memory = aligned_alloc(page, round_up(bytes + 1, page));
    if (memory == NULL) {
        parse_no_memory(parser);
    }
    memset(memory, 0, round_up(bytes + 1, page));
    return memory;
}

void parse_module(struct parser *parser) {
    struct module *module = parser->module;
    module->locs = parse_grow(parser, module->locs, 0, &parser->locs_room, sizeof *module->locs);
    module->nlocs = 1; /* index 0 means unknown */
    parse_advance(parser);
    while (parser->token.kind != TOK_END) {
        bool is_extern = false;
        while (is_directive(parser, ".visible") || is_directive(parser, ".extern") ||
               is_directive(parser, ".weak") || is_directive(parser, ".common")) {
            is_extern |= is_directive(parser, ".extern");
            parse_advance(parser);
        }
        struct token word = parser->token;
        if (word.kind != TOK_DIRECTIVE) {
            parse_fail(parser, word.line, "'%.*s' where a directive was expected", SHOWN(word));
        }
        parse_advance(parser);
        parse_directive(parser, word, is_extern);
    }
    if (module->version == 0 || module->sm == 0) {
        parse_fail(parser, 1, "no .version or no .target sm_NN");
    }
    need_readable(parser);
    module->global_memory = take_memory(parser, module->global_bytes);
    module->const_memory = take_memory(parser, module->const_bytes);
    resolve_initialisers(parser);
}
