/* A decoded PTX module: the parser's output, which the interpreter runs. */
#ifndef SIM_PTX_IR_H
#define SIM_PTX_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "insn.h"

#define LANES        32
#define ROW32        128 /* bytes of a 32-bit register, all 32 lanes */
#define ROW64        256
#define ROW128       512 /* two 64-bit rows, the low one first */
#define MAX_OPERANDS 300 /* wgmma m64n256 has 128 + 4 registers and a few more */

/* Passes an array and its length as two arguments. */
#define COUNTED(list) (list), (uint32_t)(sizeof(list) / sizeof *(list))

enum ptx_type {
    T_NONE,
    T_PRED,
    T_B8,
    T_B16,
    T_B32,
    T_B64,
    T_B128,
    T_U8,
    T_U16,
    T_U32,
    T_U64,
    T_S8,
    T_S16,
    T_S32,
    T_S64,
    T_F16,
    T_F16X2,
    T_BF16,
    T_BF16X2,
    T_TF32,
    T_F32,
    T_F32X2,
    T_F64,
    T_U16X2,
    T_S16X2,
    T_E4M3,
    T_E5M2,
    T_E4M3X2,
    T_E5M2X2,
    T_E2M1X2,
    T_E2M3X2,
    T_E3M2X2,
    T_UE8M0X2,
    T_TYPES
};

enum space {
    SP_GENERIC,
    SP_GLOBAL,
    SP_SHARED, /* shared::cta */
    SP_SHARED_CLUSTER,
    SP_LOCAL,
    SP_PARAM,
    SP_CONST
};

enum rounding { RND_NONE, RND_RN, RND_RZ, RND_RM, RND_RP, RND_RNA, RND_RNI, RND_RZI, RND_RMI, RND_RPI };

/* Classes of the instruction counters. */
enum insn_class {
    CL_INT,
    CL_FLOAT,
    CL_CVT,
    CL_MOVE,
    CL_MEM_GLOBAL,
    CL_MEM_SHARED,
    CL_MEM_OTHER,
    CL_ATOM,
    CL_WARP,
    CL_CONTROL,
    CL_BARRIER,
    CL_MBARRIER,
    CL_ASYNC_COPY,
    CL_TENSOR,
    CL_FENCE,
    CL_CLASSES
};

/* Source position of an instruction; at_file and at_line: the call site, if it was inlined. */
struct source_loc {
    uint32_t file, line, at_file, at_line;
};

struct source_file {
    uint32_t index;
    const char *name;
};

/* A special register or shared symbol: its register row is filled when a warp starts. */
struct special {
    uint32_t kind; /* enum special_kind */
    uint32_t off;
    uint32_t width; /* enum special_width */
    int64_t value;
    const struct variable *variable; /* SR_SHARED_SYMBOL: the variable; otherwise NULL */
};

struct variable {
    const char *name;
    uint32_t index; /* in the module */
    uint8_t space, is_extern;
    uint32_t align;
    uint64_t bytes;
    uint64_t offset;       /* in the module's memory; shared variables are placed by each launch */
    const uint8_t *init;   /* NULL: zeros */
    struct init_ref *refs; /* addresses inside the initialiser */
};

struct init_ref {
    struct init_ref *next;
    uint64_t at;
    const char *symbol;
    int64_t addend;
    uint8_t bytes, generic;
};

struct parameter {
    const char *name;
    uint32_t offset, bytes, align;
};

struct function {
    const char *name;
    uint32_t index;
    uint8_t is_entry, is_defined, builtin; /* enum builtin */
    uint8_t address_taken, calls_pointers;
    uint32_t line;
    struct parameter *params, *returns;
    uint32_t nparams, nreturns;
    uint32_t param_bytes;
    uint32_t first_pc, end_pc;
    uint32_t reg_bytes, pred_bytes;
    uint32_t local_bytes; /* per thread: local variables and call parameters */
    const struct special *specials;
    uint32_t nspecials;
    const struct function **calls;
    uint32_t ncalls;
    uint32_t maxntid[3], reqntid[3], cluster[3];
    uint32_t maxnreg, min_ctas; /* min_ctas: .minnctapersm */
    uint32_t registers;         /* per thread, from machine code; 0: unknown */
    const char *unreadable;     /* why the body could not be parsed; NULL: it was parsed */
};

enum builtin { BUILTIN_NONE, BUILTIN_VPRINTF, BUILTIN_ASSERTFAIL, BUILTIN_MALLOC, BUILTIN_FREE };

/* A function's address is 1 + its index in the module. */
struct call_info {
    const struct function *callee; /* NULL: op[0] has its address */
    /* Parameters and results: their places in the caller's frame. */
    struct call_copy {
        uint32_t caller, bytes;
    } *in, *out;
    uint32_t nin, nout;
};

struct branch_targets {
    uint32_t *pc;
    uint32_t count;
};

struct arena;

struct module {
    struct arena *arena;
    unsigned version;
    char target[24];
    unsigned sm; /* 90, 100 */
    struct insn *code;
    uint32_t ncode;
    struct machine_code *machine; /* set by clock/, one per instruction; NULL: time follows PTX */
    struct function **functions;
    uint32_t nfunctions;
    struct variable **variables;
    uint32_t nvariables;
    uint8_t *constants; /* rows of immediates */
    uint64_t constant_bytes;
    char *text; /* the PTX text, of which reports quote lines */
    size_t text_bytes;
    struct source_loc *locs;
    uint32_t nlocs;
    struct source_file *files;
    uint32_t nfiles;
    uint64_t global_bytes, const_bytes;
    int64_t dynamic_shared; /* index of the extern shared array; -1: none */
    uint8_t *global_memory; /* the module's own variables, allocated by the loader */
    uint8_t *const_memory;
};

/* Width of a special register's row. */
enum special_width { SPECIAL_32, SPECIAL_64, SPECIAL_PREDICATE };

enum special_kind {
    SR_ZERO,
    SR_TID_X,
    SR_TID_Y,
    SR_TID_Z,
    SR_NTID_X,
    SR_NTID_Y,
    SR_NTID_Z,
    SR_CTAID_X,
    SR_CTAID_Y,
    SR_CTAID_Z,
    SR_NCTAID_X,
    SR_NCTAID_Y,
    SR_NCTAID_Z,
    SR_LANEID,
    SR_WARPID,
    SR_NWARPID,
    SR_SMID,
    SR_NSMID,
    SR_GRIDID,
    SR_ENVREG1, /* envreg1, envreg2: high and low word of the grid barrier's address (cooperative_groups,
                   driver_abi.h) */
    SR_ENVREG2,
    SR_CLUSTERID_X,
    SR_CLUSTERID_Y,
    SR_CLUSTERID_Z,
    SR_NCLUSTERID_X,
    SR_NCLUSTERID_Y,
    SR_NCLUSTERID_Z,
    SR_CLUSTER_CTAID_X,
    SR_CLUSTER_CTAID_Y,
    SR_CLUSTER_CTAID_Z,
    SR_CLUSTER_NCTAID_X,
    SR_CLUSTER_NCTAID_Y,
    SR_CLUSTER_NCTAID_Z,
    SR_CLUSTER_CTARANK,
    SR_CLUSTER_NCTARANK,
    SR_IS_EXPLICIT_CLUSTER,
    SR_LANEMASK_EQ,
    SR_LANEMASK_LE,
    SR_LANEMASK_LT,
    SR_LANEMASK_GE,
    SR_LANEMASK_GT,
    SR_DYNAMIC_SMEM_SIZE,
    SR_TOTAL_SMEM_SIZE,
    SR_RESERVED_SMEM_BEGIN,
    SR_RESERVED_SMEM_END,
    SR_RESERVED_SMEM_CAP,
    SR_RESERVED_SMEM_1,
    SR_CLOCK,
    SR_CLOCK_HI,
    SR_CLOCK64,
    SR_GLOBALTIMER,
    SR_GLOBALTIMER_LO,
    SR_GLOBALTIMER_HI,
    SR_SHARED_SYMBOL, /* value: offset from the variable's address */
    SR_DYNAMIC_SYMBOL,
    SR_LOCAL_SYMBOL, /* value: offset in the function's frame */
    SR_KINDS
};

struct opcode;

/* Parses PTX text with the mnemonics of `opcodes`. On error returns NULL with message "line N: ..."; *no_memory
 * is true if memory ran out and false if the text is wrong. */
struct module *ptx_parse(const char *text, size_t bytes, const struct opcode *opcodes, char *message,
                         size_t message_bytes, bool *no_memory);
void ptx_free(struct module *module);
const struct function *ptx_find_entry(const struct module *module, const char *name);
static inline uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}
unsigned ptx_type_bytes(unsigned type);
bool is_float_type(unsigned type);
const char *ptx_type_name(unsigned type);

#endif
