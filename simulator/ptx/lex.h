/* Tokens of PTX text. */
#ifndef SIM_PTX_LEX_H
#define SIM_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
    TOK_END,
    TOK_NAME,      /* identifier; a leading % may be followed by .x etc. */
    TOK_DIRECTIVE, /* .reg and the like; text includes the dot */
    TOK_INT,
    TOK_F32, /* 0fXXXXXXXX: bits in value */
    TOK_F64, /* 0d... or a decimal: bits in value */
    TOK_STRING,
    TOK_PUNCT, /* one character, in value */
    TOK_BAD
};

struct token {
    enum token_kind kind;
    const char *text;
    uint32_t length;
    uint32_t line;
    uint64_t value;
};

struct lexer {
    const char *at, *end;
    uint32_t line;
    const char *problem; /* of the last TOK_BAD */
};

/* The next token; after the text's end TOK_END for ever. */
struct token lex_next(struct lexer *lexer);
/* An instruction's mnemonic with its dots and colons, from a token that lex_next has given. */
struct token lex_mnemonic(struct lexer *lexer, struct token first);
bool token_is(const struct token *token, const char *text);

#endif
