#include "lex.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NUMBER 64
#define WARP_SIZE  32

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return is_letter(c) || is_digit(c);
}

static char peek(const struct lexer *lexer, size_t ahead) {
    return (size_t)(lexer->end - lexer->at) > ahead ? lexer->at[ahead] : '\0';
}

static void skip_line(struct lexer *lexer) {
    while (lexer->at < lexer->end && *lexer->at != '\n') {
        lexer->at++;
    }
}

/* Skips white space and comments; false if a comment is not closed. */
static bool skip_blank(struct lexer *lexer) {
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == '\n') {
            lexer->line++;
            lexer->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            lexer->at++;
        } else if (c == '/' && peek(lexer, 1) == '/') {
            skip_line(lexer);
        } else if (c == '/' && peek(lexer, 1) == '*') {
            lexer->at += 2;
            while (lexer->at < lexer->end && !(*lexer->at == '*' && peek(lexer, 1) == '/')) {
                lexer->line += *lexer->at == '\n';
                lexer->at++;
            }
            if (lexer->at >= lexer->end) {
                return false;
            }
            lexer->at += 2;
        } else {
            break;
        }
    }
    return true;
}

static struct token bad(struct lexer *lexer, struct token token, const char *problem) {
    lexer->problem = problem;
    token.kind = TOK_BAD;
    token.length = (uint32_t)(lexer->at - token.text);
    return token;
}

static int digit_value(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Reads digits of the base, `exactly` so many or (0) at least one; false if none or above 64 bits. */
static bool read_digits(struct lexer *lexer, int base, int exactly, uint64_t *value) {
    int count = 0;
    *value = 0;
    while (lexer->at < lexer->end && digit_value(*lexer->at) < base && (exactly == 0 || count < exactly)) {
        if (__builtin_mul_overflow(*value, (uint64_t)base, value) ||
            __builtin_add_overflow(*value, (uint64_t)digit_value(*lexer->at), value)) {
            return false;
        }
        lexer->at++;
        count++;
    }
    return exactly == 0 ? count > 0 : count == exactly;
}

static struct token decimal_float(struct lexer *lexer, struct token token) {
    char text[MAX_NUMBER];
    size_t length = 0;
    const char *at = token.text;
    while (at < lexer->end && length + 1 < sizeof text &&
           (is_digit(*at) || *at == '.' || *at == 'e' || *at == 'E' ||
            ((*at == '+' || *at == '-') && (at[-1] == 'e' || at[-1] == 'E')))) {
        text[length++] = *at++;
    }
    text[length] = '\0';
    char *end;
    double value = strtod(text, &end);
    lexer->at = token.text + (end - text);
    if (end == text) {
        return bad(lexer, token, "a malformed number");
    }
    token.kind = TOK_F64;
    memcpy(&token.value, &value, sizeof value);
    return token;
}

static struct token number(struct lexer *lexer, struct token token) {
    char second = peek(lexer, 1);
    bool fits;
    token.kind = TOK_INT;
    if (*lexer->at == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
        bool narrow = second == 'f' || second == 'F';
        lexer->at += 2;
        fits = read_digits(lexer, 16, narrow ? 8 : 16, &token.value);
        token.kind = narrow ? TOK_F32 : TOK_F64;
    } else if (*lexer->at == '0' && (second == 'x' || second == 'X')) {
        lexer->at += 2;
        fits = read_digits(lexer, 16, 0, &token.value);
    } else if (*lexer->at == '0' && (second == 'b' || second == 'B')) {
        lexer->at += 2;
        fits = read_digits(lexer, 2, 0, &token.value);
    } else {
        const char *at = lexer->at;
        while (at < lexer->end && is_digit(*at)) {
            at++;
        }
        if (at < lexer->end && (*at == '.' || *at == 'e' || *at == 'E')) {
            return decimal_float(lexer, token);
        }
        fits = read_digits(lexer, *lexer->at == '0' && is_digit(second) ? 8 : 10, 0, &token.value);
    }
    if (!fits) {
        return bad(lexer, token, "a malformed number");
    }
    if (token.kind == TOK_INT && (peek(lexer, 0) == 'U' || peek(lexer, 0) == 'u')) {
        lexer->at++;
    }
    if (is_name(peek(lexer, 0))) {
        return bad(lexer, token, "a malformed number");
    }
    token.length = (uint32_t)(lexer->at - token.text);
    return token;
}

struct token lex_next(struct lexer *lexer) {
    bool closed = skip_blank(lexer);
    struct token token = {.kind = TOK_END, .text = lexer->at, .line = lexer->line};
    if (!closed) {
        return bad(lexer, token, "a comment without an end");
    }
    if (lexer->at >= lexer->end) {
        return token;
    }
    char c = *lexer->at;
    if (is_letter(c) || (c == '%' && is_name(peek(lexer, 1)))) {
        token.kind = TOK_NAME;
        lexer->at++;
        while (is_name(peek(lexer, 0)) || (c == '%' && peek(lexer, 0) == '.' && is_letter(peek(lexer, 1)))) {
            lexer->at++;
        }
    } else if (c == '.' && is_letter(peek(lexer, 1))) {
        token.kind = TOK_DIRECTIVE;
        lexer->at++;
        while (is_name(peek(lexer, 0)) || (peek(lexer, 0) == ':' && peek(lexer, 1) == ':')) {
            lexer->at += peek(lexer, 0) == ':' ? 2 : 1;
        }
    } else if (is_digit(c)) {
        return number(lexer, token);
    } else if (c == '"') {
        token.kind = TOK_STRING;
        token.text = ++lexer->at;
        while (lexer->at < lexer->end && *lexer->at != '"' && *lexer->at != '\n') {
            lexer->at++;
        }
        if (peek(lexer, 0) != '"') {
            return bad(lexer, token, "a string without an end");
        }
        token.length = (uint32_t)(lexer->at - token.text);
        lexer->at++;
        return token;
    } else if (c > ' ' && c < 127) {
        token.kind = TOK_PUNCT;
        token.value = (unsigned char)c;
        lexer->at++;
    } else {
        lexer->at++;
        return bad(lexer, token, "a character that PTX does not have");
    }
    token.length = (uint32_t)(lexer->at - token.text);
    if (token_is(&token, "WARP_SZ")) { /* PTX ISA, predefined constants: usable wherever a number is */
        token.kind = TOK_INT;
        token.value = WARP_SIZE;
    }
    return token;
}

struct token lex_mnemonic(struct lexer *lexer, struct token first) {
    while ((peek(lexer, 0) == '.' && is_name(peek(lexer, 1))) || is_name(peek(lexer, 0)) ||
           (peek(lexer, 0) == ':' && peek(lexer, 1) == ':')) {
        lexer->at += peek(lexer, 0) == ':' ? 2 : 1;
    }
    first.length = (uint32_t)(lexer->at - first.text);
    return first;
}

bool token_is(const struct token *token, const char *text) {
    return (token->kind == TOK_NAME || token->kind == TOK_DIRECTIVE || token->kind == TOK_PUNCT) &&
           strlen(text) == token->length && memcmp(token->text, text, token->length) == 0;
}
