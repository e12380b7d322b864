/* State and functions that the parser's files and the instruction decoders share. */
#ifndef SIM_PTX_PARSE_H
#define SIM_PTX_PARSE_H

#include <setjmp.h>

#include "arena.h"
#include "ir.h"
#include "lex.h"
#include "list.h"

#define SYMBOL_BUCKETS 4096
#define MAX_MODIFIERS  24
#define MAX_TOP        16 /* operands of an instruction; a vector counts once */
#define MOST_SHOWN     60 /* characters of a token in a message */

enum symbol_kind {
    SYM_REG,
    SYM_VARIABLE,
    SYM_PARAM,
    SYM_FRAME,
    SYM_LABEL,
    SYM_FUNCTION,
    SYM_PROTOTYPE,
    SYM_TARGETS
};

struct symbol {
    struct symbol *bucket_next, *scope_next;
    const char *name;
    uint32_t length, line;
    enum symbol_kind kind;
    uint8_t type;     /* a register's */
    uint8_t range;    /* name<count> */
    uint8_t elements; /* of a vector register (.v2, .v4); 1: no vector */
    uint32_t count;   /* a range's */
    uint32_t off;     /* register row, parameter offset, frame offset, pc */
    uint32_t bytes;   /* a parameter's or frame variable's */
    struct variable *variable;
    struct function *function;
    struct branch_targets *targets;
};

struct scope {
    struct symbol *symbols;
    uint32_t first_fixup;
};

struct fixup { /* a reference to a label that may be defined later */
    const char *name;
    uint32_t length, line;
    uint32_t *target; /* where the label's pc goes; NULL: control.target of instruction pc */
    uint32_t pc;
};

enum operand_text_kind {
    PO_NONE,
    PO_REG,
    PO_INT,
    PO_F32,
    PO_F64,
    PO_NAME,
    PO_VECTOR,
    PO_ADDRESS,
    PO_SINK,
    PO_LIST
};

/* An operand as it was written. */
struct operand_text {
    enum operand_text_kind kind;
    bool negated;  /* !p */
    uint8_t type;  /* a register's */
    uint32_t off;  /* a register's */
    uint64_t bits; /* a number's value, or the offset added to a register or name */
    struct token name;
    struct symbol *symbol;    /* NULL: the name is not declared */
    struct operand_text *sub; /* a vector's or list's elements; an address's base, then what follows */
    uint32_t count;
    struct operand_text *second; /* p|q */
};

struct const_fixup { /* a constant row that receives a variable's address */
    uint32_t off;
    uint8_t wide, generic;
    const struct variable *variable;
    int64_t addend;
};

struct decoder;

/* A mnemonic up to its first dot, its decoder, and the counter class of its instructions. */
struct opcode {
    const char *name; /* NULL ends a table */
    void (*decode)(struct decoder *d);
    uint8_t cls; /* enum insn_class */
};

struct parser {
    struct lexer lexer;
    struct token token;
    struct arena *arena;
    struct module *module;
    const struct opcode *opcodes;
    jmp_buf fail, body_fail;
    bool in_body; /* a failure loses only the function, not the module */
    char *message;
    size_t message_bytes;
    bool *no_memory; /* the caller's flag: set if memory ran out */
    struct symbol *buckets[SYMBOL_BUCKETS];
    struct scope scopes[64];
    int depth;
    struct fixup *fixups;
    uint32_t nfixups, fixups_room;
    struct const_fixup *const_fixups;
    uint32_t nconst_fixups, const_fixups_room;
    uint32_t code_room, functions_room, variables_room, locs_room, files_room, constants_room, specials_room,
        calls_room;
    struct special *specials; /* the parsed function's special registers */
    const struct function **calls;
    uint32_t *const_index; /* hash table of constant rows */
    uint32_t const_index_size, const_count;
    struct function *function; /* whose body is being parsed */
    uint32_t loc;
    uint32_t sink64, sink_pred;
    struct decoder *decoder;
};

struct decoder {
    struct parser *parser;
    struct insn *insn;
    struct token mnemonic;
    const char *base; /* the mnemonic up to its first dot */
    struct token mods[MAX_MODIFIERS];
    bool used[MAX_MODIFIERS];
    int nmods;
    struct operand_text op[MAX_TOP];
    int nop;
    struct operand out[MAX_OPERANDS];
    int nout;
};

/* Ends the parse, or inside a body only that function's, with the message "line N: ...". */
_Noreturn void parse_fail(struct parser *parser, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Allocation for the parser; each ends the parse when memory runs out. */
_Noreturn void parse_no_memory(struct parser *parser);
void *parse_take(struct parser *parser, size_t bytes); /* zeroed; lives as long as the module */
char *parse_string(struct parser *parser, const char *text, size_t length);
/* Makes room for one more element in a malloc'ed array. */
void *parse_grow(struct parser *parser, void *array, uint32_t count, uint32_t *room, size_t size);
/* A token as the arguments of "%.*s". */
#define SHOWN(token) (int)((token).length < MOST_SHOWN ? (token).length : MOST_SHOWN), (token).text
void parse_advance(struct parser *parser);
bool parse_accept(struct parser *parser, const char *text);
void parse_expect(struct parser *parser, const char *text);
uint64_t parse_integer(struct parser *parser);           /* optionally signed */
uint64_t parse_constant(struct parser *parser);          /* an expression of numbers */
uint64_t parse_addend(struct parser *parser);            /* the sum of + and - terms after a name or register */
bool parse_starts_constant(const struct parser *parser); /* a "(" opens an expression */
unsigned parse_type_name(const char *text, size_t length); /* T_NONE: not a type */

uint32_t register_bytes(unsigned type); /* bytes of a row in the register file */
struct symbol *parse_find(struct parser *parser, struct token name);
struct symbol *parse_declare(struct parser *parser, struct token name, enum symbol_kind kind);
void parse_open_scope(struct parser *parser);
void parse_close_scope(struct parser *parser);

struct token parse_name(struct parser *parser);
/* Directives before a declared name: `.align N`, a vector size and a type, in any order; if it may_point,
 * `.ptr` and the space behind it too. */
unsigned parse_declared_type(struct parser *parser, bool may_point, uint32_t *align, uint32_t *vector);
/* Product of the extents [4][8]..., at most `most` + 1; `[]` sets *open and gives 0. */
uint64_t parse_extents(struct parser *parser, uint64_t most, bool *open);
void parse_module(struct parser *parser);
/* What follows .callprototype; the label becomes a symbol whose function has the parameters. */
void parse_prototype(struct parser *parser, struct token label);
void parse_body(struct parser *parser, struct function *function);
/* The declaration behind .shared, .global or .const; false: `word` is another directive. */
bool parse_variable(struct parser *parser, struct token word, bool is_extern);
struct operand_text parse_operand(struct parser *parser);

/* Decodes d->mnemonic and d->op into d->insn. */
void decode(struct decoder *d);

/* ---- for decoders: mod... take a modifier, emit... append to op[] ---- */

static inline bool named(const struct decoder *d, const char *base) {
    return strcmp(d->base, base) == 0;
}
bool mod(struct decoder *d, const char *name);
unsigned mod_type(struct decoder *d); /* the next type modifier; an error if there is none */
int mod_of(struct decoder *d, const char *const *words, uint32_t count); /* index of the word found, or -1 */
unsigned mod_space(struct decoder *d, unsigned otherwise);
unsigned mod_rounding(struct decoder *d);
void skip_cache_hints(struct decoder *d); /* modifiers that only advise caches */
_Noreturn void decode_fail(struct decoder *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void need_operands(struct decoder *d, int least, int most);
_Noreturn void no_form(struct decoder *d, unsigned type);
/* Sets the instruction's type, and fns[type] to execute it; an error if that is NULL. */
void form_of_type(struct decoder *d, const exec_fn fns[T_TYPES], unsigned type);
/* Decodes so many operands, of which the first is the destination; EMIT_OPERANDS(d, type, ...) counts them. */
void emit_operands(struct decoder *d, const unsigned *types, int count);
#define EMIT_OPERANDS(d, ...)                                                                                  \
    emit_operands(d, (const unsigned[]){__VA_ARGS__}, sizeof((unsigned[]){__VA_ARGS__}) / sizeof(unsigned))
/* Emits a vector's elements, or the operand itself, as destinations or sources; returns their number. */
int emit_vector(struct decoder *d, const struct operand_text *written, bool write, unsigned type);
/* Decodes a destination and up to three sources of one type; fns[type] executes it. */
void of_one_type(struct decoder *d, const exec_fn fns[T_TYPES], unsigned type, int sources);
void emit(struct decoder *d, struct operand operand);
/* A destination. Destinations must come before all other operands: insn->ndst counts them. */
void emit_dst(struct decoder *d, const struct operand_text *written, unsigned type);
struct operand dst(struct decoder *d, const struct operand_text *written, unsigned type); /* a register or _ */
/* A register, number or address; src_any takes a register of any width up to 64 bits. */
struct operand src(struct decoder *d, const struct operand_text *written, unsigned type);
struct operand src_any(struct decoder *d, const struct operand_text *written, unsigned type);
/* A .b128 register as its two 64-bit rows. */
void emit_halves(struct decoder *d, struct operand quad);
void emit_dst_halves(struct decoder *d, const struct operand_text *written);
/* An address: emits its base row, sets insn->offset, and derives insn->space from a named variable where the
 * mnemonic leaves it open. */
void emit_address(struct decoder *d, const struct operand_text *written);
struct operand address_base(struct decoder *d, const struct operand_text *written, int64_t *offset);
/* For instructions with several addresses: take_offsets makes a zeroed list, and emit_offset_address emits an
 * address whose constant goes into the list at the operand's index in op[]. */
int64_t *take_offsets(struct decoder *d);
void emit_offset_address(struct decoder *d, const struct operand_text *written, int64_t *offsets);
int special_kind(const struct token *name); /* enum special_kind; -1: not a special register */
int64_t immediate(struct decoder *d, const struct operand_text *written);
/* A vector's elements, or the operand itself as a list of one. */
const struct operand_text *elements(const struct operand_text *written, uint32_t *count);
/* Records that *target receives the label's pc; NULL: control.target of the instruction being decoded. */
void branch_to(struct parser *parser, struct token label, uint32_t *target);

#endif
