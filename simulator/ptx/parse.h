/* The parser's state, shared by its files.  Internal. */
#ifndef SIM_PTX_PARSE_H
#define SIM_PTX_PARSE_H

#include <setjmp.h>

#include "arena.h"
#include "ir.h"
#include "lex.h"

#define SYMBOL_BUCKETS 4096
#define MAX_MODIFIERS  24
#define MAX_TOP        16 /* operands of an instruction, vectors counted as one */

enum symbol_kind { SYM_REG, SYM_VARIABLE, SYM_PARAM, SYM_FRAME, SYM_LABEL, SYM_FUNCTION, SYM_TARGETS };

struct symbol {
    struct symbol *bucket_next, *scope_next;
    const char *name;
    uint32_t length, line;
    enum symbol_kind kind;
    uint8_t type;   /* of a register */
    uint8_t range;  /* name<count> */
    uint32_t count; /* of a range */
    uint32_t off;   /* register row, parameter offset, frame offset, pc */
    uint32_t bytes; /* of a parameter or a frame variable */
    struct variable *variable;
    struct function *function;
    struct branch_targets *targets;
};

struct scope {
    struct symbol *symbols;
    uint32_t first_fixup;
};

struct fixup { /* a branch to a label that may come later */
    const char *name;
    uint32_t length, line;
    uint32_t *target; /* NULL: that of instruction number pc */
    uint32_t pc;
};

enum pop_kind { PO_NONE, PO_REG, PO_INT, PO_F32, PO_F64, PO_NAME, PO_VECTOR, PO_ADDRESS, PO_SINK, PO_LIST };

/* An operand as it was written. */
struct pop {
    enum pop_kind kind;
    bool negated;  /* !p */
    uint8_t type;  /* of a register */
    uint32_t off;  /* of a register */
    uint64_t bits; /* of a number; an address's or name's offset */
    struct token name;
    struct symbol *symbol; /* of a name that is known */
    struct pop *sub;       /* elements; an address's base and then what follows its comma */
    uint32_t count;
    struct pop *second; /* p|q */
};

struct const_fixup { /* a constant row that becomes a variable's address */
    uint32_t off;
    uint8_t wide, generic;
    const struct variable *variable;
    int64_t addend;
};

struct decoder;

/* A mnemonic up to its first dot, what decodes it, and its class in the counters. */
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
    bool in_body; /* then a failure loses the function, not the module */
    char *message;
    size_t message_bytes;
    bool *no_memory; /* the caller's: why the parse failed */
    struct symbol *buckets[SYMBOL_BUCKETS];
    struct scope scopes[64];
    int depth;
    struct fixup *fixups;
    uint32_t nfixups, fixups_room;
    struct const_fixup *const_fixups;
    uint32_t nconst_fixups, const_fixups_room;
    uint32_t code_room, functions_room, variables_room, locs_room, files_room, constants_room, specials_room,
        calls_room;
    struct special *specials; /* of the function being read */
    const struct function **calls;
    uint32_t *const_index; /* open hash of constant rows */
    uint32_t const_index_size, const_count;
    struct function *function; /* whose body is being read */
    uint32_t loc;
    uint32_t sink64, sink_pred;
    struct decoder *decoder;
};

struct decoder {
    struct parser *parser;
    struct insn *insn;
    struct token mnemonic;
    struct token mods[MAX_MODIFIERS];
    bool used[MAX_MODIFIERS];
    int nmods;
    struct pop op[MAX_TOP];
    int nop;
    struct operand out[MAX_OPERANDS];
    int nout;
};

/* Ends the parse, or inside a body that of its function, with "line N: ..." */
_Noreturn void parse_fail(struct parser *parser, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What the parser takes from the heap or the arena comes through these, which end the parse where there is
 * none. */
_Noreturn void parse_no_memory(struct parser *parser);
void *parse_take(struct parser *parser, size_t bytes); /* zeroed; lives as long as the module */
char *parse_string(struct parser *parser, const char *text, size_t length);
/* Makes room for one more in a malloc'ed array. */
void *parse_grow(struct parser *parser, void *array, uint32_t count, uint32_t *room, size_t size);
void parse_advance(struct parser *parser);
bool parse_accept(struct parser *parser, const char *text);
void parse_expect(struct parser *parser, const char *text);
uint64_t parse_integer(struct parser *parser);             /* with sign */
uint64_t parse_constant(struct parser *parser);            /* an expression of numbers */
uint64_t parse_addend(struct parser *parser);              /* what + and - add to a name or a register */
bool parse_starts_constant(const struct parser *parser);   /* of a token (: it opens no list of operands */
unsigned parse_type_name(const char *text, size_t length); /* T_NONE if it is none */

uint32_t register_bytes(unsigned type); /* what it takes of the register file */
struct symbol *parse_find(struct parser *parser, struct token name);
struct symbol *parse_declare(struct parser *parser, struct token name, enum symbol_kind kind);
void parse_open_scope(struct parser *parser);
void parse_close_scope(struct parser *parser);

struct token parse_name(struct parser *parser);
/* `.align N`, `.ptr`, a space and a type in any order, as declarations have them. */
unsigned parse_declared_type(struct parser *parser, uint32_t *align, uint32_t *vector);
/* [4][8]...; `[]` is open and gives 0. */
uint64_t parse_extents(struct parser *parser, bool *is_array, bool *open);
void parse_module(struct parser *parser);
void parse_body(struct parser *parser, struct function *function);
void parse_variable(struct parser *parser, unsigned space, bool is_extern);
struct pop parse_operand(struct parser *parser);

/* Decodes d->mnemonic and d->op into d->insn. */
void decode(struct decoder *d);

/* For decoders. */
bool mod(struct decoder *d, const char *name);
unsigned mod_type(struct decoder *d); /* the next type modifier, else an error */
int mod_of(struct decoder *d, const char *const *words, uint32_t count); /* which of COUNTED(), or -1 */
unsigned mod_space(struct decoder *d, unsigned otherwise);
unsigned mod_rounding(struct decoder *d);
void skip_cache_hints(struct decoder *d); /* everything that only advises caches */
_Noreturn void decode_fail(struct decoder *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void need_operands(struct decoder *d, int least, int most);
/* dst, then `sources` operands, all of one type whose function is in the table. */
void plain(struct decoder *d, const exec_fn fns[T_TYPES], unsigned type, int sources);
void emit(struct decoder *d, struct operand operand);
/* A destination: those before all other operands are counted, as what the instruction writes. */
void emit_dst(struct decoder *d, const struct pop *pop, unsigned type);
struct operand dst(struct decoder *d, const struct pop *pop, unsigned type); /* register or sink */
struct operand src(struct decoder *d, const struct pop *pop, unsigned type); /* register, number or address */
struct operand src_any(struct decoder *d, const struct pop *pop, unsigned type); /* of any width up to 64 */
/* A .b128 register as its two 64-bit rows. */
void emit_halves(struct decoder *d, struct operand quad);
void emit_dst_halves(struct decoder *d, const struct pop *pop);
/* An address: emits its base row, its offset becomes insn->offset, corrects insn->space for parameters. */
void emit_address(struct decoder *d, const struct pop *pop);
struct operand address_base(struct decoder *d, const struct pop *pop, int64_t *offset);
/* For instructions with several addresses: a list of zeros for the constants added to them, and an address
 * whose constant goes into that list at the operand's place in op[]. */
int64_t *take_offsets(struct decoder *d);
void emit_offset_address(struct decoder *d, const struct pop *pop, int64_t *offsets);
int special_kind(const struct token *name); /* of a special register, -1 if it is none */
int64_t immediate(struct decoder *d, const struct pop *pop);
/* All elements of a vector, or the operand itself. */
const struct pop *elements(const struct pop *pop, uint32_t *count);
/* target NULL: insn->control.target */
void branch_to(struct parser *parser, struct token label, uint32_t *target);

#endif
