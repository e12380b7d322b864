/* Parses function bodies: declarations, labels, instructions. */
#include <string.h>

#include "parse.h"

#define MAX_REGISTERS  200000
#define MAX_FRAME      ((uint32_t)1 << 20)
#define MAX_CODE       ((uint32_t)1 << 22)
#define FIRST_PRED_OFF 12 /* word 0: always true; word 1: discarded results (_); word 2: carry flag */

static void parse_registers(struct parser *parser) {
    struct function *function = parser->function;
    const uint32_t elements = parse_accept(parser, ".v2") ? 2 : parse_accept(parser, ".v4") ? 4 : 1;
    struct token word = parser->token;
    unsigned type = word.kind == TOK_DIRECTIVE ? parse_type_name(word.text + 1, word.length - 1) : T_NONE;
    uint32_t bytes = register_bytes(type) * elements;
    if (type == T_NONE || (type == T_PRED && elements > 1)) {
        parse_fail(parser, word.line, "'.reg %.*s' is not supported", SHOWN(word));
    }
    parse_advance(parser);
    do {
        struct token name = parse_name(parser);
        uint64_t count = 1;
        bool range = parse_accept(parser, "<");
        if (range) {
            count = parse_integer(parser);
            parse_expect(parser, ">");
        }
        if (count > MAX_REGISTERS || function->reg_bytes > MAX_REGISTERS * ROW32 ||
            function->pred_bytes > MAX_REGISTERS * sizeof(uint32_t)) {
            parse_fail(parser, name.line, "more than %d registers", MAX_REGISTERS);
        }
        struct symbol *symbol = parse_declare(parser, name, SYM_REG);
        uint32_t *end = type == T_PRED ? &function->pred_bytes : &function->reg_bytes;
        symbol->type = (uint8_t)type;
        symbol->range = range;
        symbol->elements = (uint8_t)elements;
        symbol->count = (uint32_t)count;
        symbol->off = *end;
        *end += (uint32_t)count * bytes;
    } while (parse_accept(parser, ","));
    parse_expect(parser, ";");
}

/* .local and .param inside a body: space in the thread's frame. */
static void parse_frame_variable(struct parser *parser) {
    struct function *function = parser->function;
    uint32_t align, vector;
    const uint32_t element = ptx_type_bytes(parse_declared_type(parser, false, &align, &vector)) * vector;
    do {
        struct token name = parse_name(parser);
        bool open;
        const uint64_t count = parse_extents(parser, MAX_FRAME, &open);
        if (open) {
            parse_fail(parser, name.line, "an array in a frame without a size");
        }
        if (count * element > MAX_FRAME || function->local_bytes > MAX_FRAME) {
            parse_fail(parser, name.line, "a frame of more than %u bytes", MAX_FRAME);
        }
        struct symbol *symbol = parse_declare(parser, name, SYM_FRAME);
        symbol->off = (uint32_t)round_up(function->local_bytes, align);
        symbol->bytes = (uint32_t)count * element;
        function->local_bytes = symbol->off + symbol->bytes;
    } while (parse_accept(parser, ","));
    parse_expect(parser, ";");
}

static void parse_loc(struct parser *parser) {
    struct module *module = parser->module;
    struct source_loc loc = {0, 0, 0, 0};
    loc.file = (uint32_t)parse_integer(parser);
    loc.line = (uint32_t)parse_integer(parser);
    (void)parse_integer(parser);
    while (parse_accept(parser, ",")) {
        if (parse_accept(parser, "function_name")) {
            (void)parse_name(parser);
            if (token_is(&parser->token, "+")) {
                (void)parse_integer(parser);
            }
        } else if (parse_accept(parser, "inlined_at")) {
            loc.at_file = (uint32_t)parse_integer(parser);
            loc.at_line = (uint32_t)parse_integer(parser);
            (void)parse_integer(parser);
        } else {
            parse_fail(parser, parser->token.line, "a malformed .loc");
        }
    }
    module->locs = parse_grow(parser, module->locs, module->nlocs, &parser->locs_room, sizeof *module->locs);
    parser->loc = module->nlocs;
    module->locs[module->nlocs++] = loc;
}

void branch_to(struct parser *parser, struct token label, uint32_t *target) {
    parser->fixups =
        parse_grow(parser, parser->fixups, parser->nfixups, &parser->fixups_room, sizeof *parser->fixups);
    parser->fixups[parser->nfixups++] =
        (struct fixup){label.text, label.length, label.line, target, parser->module->ncode};
}

static void parse_targets(struct parser *parser, struct token label) {
    struct branch_targets *targets = parse_take(parser, sizeof *targets);
    struct token names[512];
    do {
        if (targets->count == sizeof names / sizeof *names) {
            parse_fail(parser, label.line, "more than %zu branch targets", sizeof names / sizeof *names);
        }
        names[targets->count++] = parse_name(parser);
    } while (parse_accept(parser, ","));
    parse_expect(parser, ";");
    targets->pc = parse_take(parser, targets->count * sizeof *targets->pc);
    for (uint32_t i = 0; i < targets->count; i++) {
        branch_to(parser, names[i], &targets->pc[i]);
    }
    parse_declare(parser, label, SYM_TARGETS)->targets = targets;
}

static struct insn *new_insn(struct parser *parser, uint32_t line) {
    struct module *module = parser->module;
    if (module->ncode >= MAX_CODE) {
        parse_fail(parser, line, "more than %u instructions", MAX_CODE);
    }
    module->code = parse_grow(parser, module->code, module->ncode, &parser->code_room, sizeof *module->code);
    struct insn *insn = &module->code[module->ncode];
    *insn = (struct insn){.line = line, .loc = parser->loc};
    return insn;
}

static void parse_instruction(struct parser *parser) {
    struct decoder *d = parser->decoder;
    d->parser = parser;
    d->nop = d->nout = d->nmods = 0;
    uint32_t line = parser->token.line;
    uint8_t guard = 0;
    uint32_t guard_off = 0;
    if (parse_accept(parser, "@")) {
        guard = parse_accept(parser, "!") ? 2 : 1;
        struct operand_text written = parse_operand(parser);
        if (written.kind != PO_REG || written.type != T_PRED) {
            parse_fail(parser, line, "the guard is not a predicate");
        }
        guard_off = written.off;
    }
    if (parser->token.kind != TOK_NAME) {
        parse_fail(parser, parser->token.line, "'%.*s' where an instruction was expected",
                   SHOWN(parser->token));
    }
    line = parser->token.line;
    d->mnemonic = lex_mnemonic(&parser->lexer, parser->token);
    parse_advance(parser);
    while (!token_is(&parser->token, ";")) {
        if (d->nop == MAX_TOP) {
            parse_fail(parser, line, "too many operands of '%.*s'", (int)d->mnemonic.length, d->mnemonic.text);
        }
        d->op[d->nop++] = parse_operand(parser);
        if (!token_is(&parser->token, ";")) {
            parse_expect(parser, ",");
        }
    }
    d->insn = new_insn(parser, line);
    d->insn->guard = guard;
    d->insn->guard_off = guard_off;
    decode(d);
    parser->module->ncode++;
    parse_advance(parser);
}

static bool parse_label(struct parser *parser) {
    struct lexer ahead = parser->lexer;
    struct token name = parser->token, colon = lex_next(&ahead);
    if (name.kind != TOK_NAME || !token_is(&colon, ":")) {
        return false;
    }
    parse_advance(parser);
    parse_advance(parser);
    if (parse_accept(parser, ".branchtargets")) {
        parse_targets(parser, name);
    } else if (parse_accept(parser, ".callprototype")) {
        parse_prototype(parser, name);
    } else if (parse_accept(parser, ".calltargets")) {
        parse_fail(parser, name.line, ".calltargets is not supported");
    } else {
        parse_declare(parser, name, SYM_LABEL)->off = parser->module->ncode;
    }
    return true;
}

static void parse_statement(struct parser *parser) {
    struct token word = parser->token;
    if (word.kind != TOK_DIRECTIVE) {
        if (!parse_label(parser)) {
            parse_instruction(parser);
        }
        return;
    }
    parse_advance(parser);
    if (token_is(&word, ".reg")) {
        parse_registers(parser);
    } else if (token_is(&word, ".loc")) {
        parse_loc(parser);
    } else if (token_is(&word, ".local") || token_is(&word, ".param")) {
        parse_frame_variable(parser);
    } else if (token_is(&word, ".pragma")) {
        parse_advance(parser);
        parse_expect(parser, ";");
    } else if (token_is(&word, ".file")) {
        parse_fail(parser, word.line, ".file inside a function");
    } else if (!parse_variable(parser, word, false)) {
        parse_fail(parser, word.line, "unknown directive '%.*s'", SHOWN(word));
    }
}

static void finish(struct parser *parser, struct function *function) {
    struct decoder *d = parser->decoder; /* append a `ret`, so that execution cannot run past the end */
    d->parser = parser;
    d->nop = 0;
    d->mnemonic = (struct token){.kind = TOK_NAME, .text = "ret", .length = 3, .line = parser->token.line};
    d->insn = new_insn(parser, parser->token.line);
    decode(d);
    parser->module->ncode++;
    function->end_pc = parser->module->ncode;
    struct special *specials = parse_take(parser, (function->nspecials + 1) * sizeof *specials);
    const struct function **calls = parse_take(parser, (function->ncalls + 1) * sizeof(struct function *));
    if (function->nspecials > 0) {
        memcpy(specials, parser->specials, function->nspecials * sizeof *specials);
    }
    if (function->ncalls > 0) {
        memcpy(calls, parser->calls, function->ncalls * sizeof *calls);
    }
    function->specials = specials;
    function->calls = calls;
}

void parse_body(struct parser *parser, struct function *function) {
    int depth = 0;
    parse_expect(parser, "{");
    parser->function = function;
    parser->loc = 0;
    function->is_defined = 1;
    function->first_pc = parser->module->ncode;
    function->pred_bytes = FIRST_PRED_OFF;
    parser->sink_pred = 4;
    parser->sink64 = 0;
    function->reg_bytes = ROW64;
    /* A device function's parameters come first in its frame; a kernel's are in parameter space. */
    function->local_bytes = function->is_entry ? 0 : function->param_bytes;
    for (;;) {
        if (parser->token.kind == TOK_END) {
            parse_fail(parser, parser->token.line, "'%s' has no end", function->name);
        }
        if (parse_accept(parser, "{")) {
            parse_open_scope(parser);
            depth++;
        } else if (parse_accept(parser, "}")) {
            if (depth-- == 0) {
                break;
            }
            parse_close_scope(parser);
        } else {
            parse_statement(parser);
        }
    }
    finish(parser, function);
    parser->function = NULL;
}
