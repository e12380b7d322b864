/* Constant expressions, as PTX has them where a number may stand.
 *
 * All operators of integers but the conditional, the comparisons, the logical ones and the remainder, whose sign is
 * that of a register's name.  Arithmetic is that of .s64.
 */
#include "parse.h"

#define MAX_NESTING 60

static uint64_t level(struct parser *parser, int least, int depth);

static uint64_t unary(struct parser *parser, int depth) {
    if (depth > MAX_NESTING) {
        parse_fail(parser, parser->token.line, "an expression nested too deep");
    }
    if (parse_accept(parser, "-")) {
        return 0 - unary(parser, depth + 1);
    }
    if (parse_accept(parser, "+")) {
        return unary(parser, depth + 1);
    }
    if (parse_accept(parser, "~")) {
        return ~unary(parser, depth + 1);
    }
    if (parse_accept(parser, "(")) {
        uint64_t value = level(parser, 0, depth + 1);
        parse_expect(parser, ")");
        return value;
    }
    return parse_integer(parser);
}

/* The operator's place among the levels of C, loosest first; -1: none. */
static int binding(const struct token *token) {
    static const char *const levels[] = {"|", "^", "&", "<>", "+-", "*/"};
    for (int i = 0; token->kind == TOK_PUNCT && i < (int)(sizeof levels / sizeof *levels); i++) {
        for (const char *operator = levels[i]; *operator != '\0'; operator++) {
            if (token->value == (unsigned char)*operator) {
                return i;
            }
        }
    }
    return -1;
}

static uint64_t apply(struct parser *parser, uint64_t operator, uint64_t left, uint64_t right) {
    uint32_t line = parser->token.line;
    if ((operator == '<' || operator == '>') && right > 63) {
        parse_fail(parser, line, "a number shifted by more than 63 bits");
    }
    if (operator == '/' && right == 0) {
        parse_fail(parser, line, "a number divided by zero");
    }
    switch (operator) {
    case '|':
        return left | right;
    case '^':
        return left ^ right;
    case '&':
        return left & right;
    case '<':
        return left << right;
    case '>':
        return (uint64_t)((int64_t)left >> right);
    case '+':
        return left + right;
    case '-':
        return left - right;
    case '*':
        return left * right;
    default: /* of the least number by -1: itself */
        return right == UINT64_MAX ? 0 - left : (uint64_t)((int64_t)left / (int64_t)right);
    }
}

/* What follows `left` of operators that bind as `least` or tighter. */
static uint64_t rest(struct parser *parser, uint64_t left, int least, int depth) {
    for (int binds; (binds = binding(&parser->token)) >= least;) {
        uint64_t operator = parser->token.value;
        parse_advance(parser);
        if (operator == '<' || operator == '>') {
            parse_expect(parser, operator == '<' ? "<" : ">");
        }
        left = apply(parser, operator, left, level(parser, binds + 1, depth + 1));
    }
    return left;
}

static uint64_t level(struct parser *parser, int least, int depth) {
    return rest(parser, unary(parser, depth), least, depth);
}

uint64_t parse_constant(struct parser *parser) {
    return level(parser, 0, 0);
}

uint64_t parse_addend(struct parser *parser) {
    return rest(parser, 0, binding(&(struct token){.kind = TOK_PUNCT, .value = '+'}), 0);
}

bool parse_starts_constant(const struct parser *parser) {
    struct lexer ahead = parser->lexer;
    struct token token = lex_next(&ahead);
    int open = 1;
    while (token_is(&token, "(") || token_is(&token, "-") || token_is(&token, "~")) {
        open += token_is(&token, "(");
        token = lex_next(&ahead);
    }
    if (token.kind != TOK_INT) {
        return false;
    }
    for (token = lex_next(&ahead); token_is(&token, ")") && open > 0; token = lex_next(&ahead)) {
        open--;
    }
    return binding(&token) >= 0;
}
