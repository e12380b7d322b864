/* Constant expressions, which PTX allows in place of a number (PTX ISA, Constant Expressions).
 *
 * Supported are the integer operators except the conditional, comparisons, logical operators and the remainder
 * (% also starts a register name). Types: a value is .s64, but .u64 if its literal has a U or exceeds .s64, if
 * it is the result of ~, or if either operand is .u64; a shift has the type of its left operand. */
#include "parse.h"

#define MAX_NESTING 60

struct number {
    uint64_t bits;
    bool is_unsigned;
};

static struct number level(struct parser *parser, int least, int depth);

static struct number literal(struct parser *parser) {
    struct token token = parser->token;
    uint64_t bits = parse_integer(parser);
    char last = token.length > 0 ? token.text[token.length - 1] : '\0';
    return (struct number){bits, last == 'U' || last == 'u' || bits > INT64_MAX};
}

static struct number unary(struct parser *parser, int depth) {
    if (depth > MAX_NESTING) {
        parse_fail(parser, parser->token.line, "an expression nested too deep");
    }
    if (parse_accept(parser, "-")) {
        struct number number = unary(parser, depth + 1);
        return (struct number){0 - number.bits, number.is_unsigned};
    }
    if (parse_accept(parser, "+")) {
        return unary(parser, depth + 1);
    }
    if (parse_accept(parser, "~")) {
        return (struct number){~unary(parser, depth + 1).bits, true};
    }
    if (parse_accept(parser, "(")) {
        struct number number = level(parser, 0, depth + 1);
        parse_expect(parser, ")");
        return number;
    }
    return literal(parser);
}

/* Precedence of a binary operator as in C, 0 binds loosest; -1: not an operator. */
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

static struct number apply(struct parser *parser, uint64_t operator, struct number a, struct number b) {
    uint32_t line = parser->token.line;
    uint64_t left = a.bits, right = b.bits;
    bool mixed = a.is_unsigned || b.is_unsigned;
    if ((operator == '<' || operator == '>') && right > 63) {
        parse_fail(parser, line, "a number shifted by more than 63 bits");
    }
    if (operator == '/' && right == 0) {
        parse_fail(parser, line, "a number divided by zero");
    }
    switch (operator) {
    case '|':
        return (struct number){left | right, mixed};
    case '^':
        return (struct number){left ^ right, mixed};
    case '&':
        return (struct number){left & right, mixed};
    case '<':
        return (struct number){left << right, a.is_unsigned};
    case '>':
        return (struct number){a.is_unsigned ? left >> right : (uint64_t)((int64_t)left >> right),
                               a.is_unsigned};
    case '+':
        return (struct number){left + right, mixed};
    case '-':
        return (struct number){left - right, mixed};
    case '*':
        return (struct number){left * right, mixed};
    default:
        if (mixed) {
            return (struct number){left / right, true};
        }
        /* INT64_MIN / -1 would trap, so dividing by -1 negates. */
        return (struct number){right == UINT64_MAX ? 0 - left : (uint64_t)((int64_t)left / (int64_t)right),
                               false};
    }
}

/* Applies the operators after `left` whose precedence is at least `least`. */
static struct number rest(struct parser *parser, struct number left, int least, int depth) {
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

static struct number level(struct parser *parser, int least, int depth) {
    return rest(parser, unary(parser, depth), least, depth);
}

uint64_t parse_constant(struct parser *parser) {
    return level(parser, 0, 0).bits;
}

uint64_t parse_addend(struct parser *parser) {
    return rest(parser, (struct number){0, false}, binding(&(struct token){.kind = TOK_PUNCT, .value = '+'}), 0)
        .bits;
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
