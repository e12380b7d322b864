/* Tokens of PTX text. */
#ifndef SIM_PTX_LEX_H
#define SIM_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
    TOK_END,
    TOK_NAME,      /* identifier; one that starts with % may contain dots (%tid.x) */
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
    const char *problem; /* what is wrong with the last TOK_BAD */
};

/* The next token; at the end of the text TOK_END, any number of times. */
struct token lex_next(struct lexer *lexer);
/* Extends the name token `first` to a whole mnemonic with its dotted modifiers. */
struct token lex_mnemonic(struct lexer *lexer, struct token first);
bool token_is(const struct token *token, const char *text);

#endif
