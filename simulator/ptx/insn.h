/* One decoded instruction.
 *
 * The common fields come first. Each family of mnemonics has its own member of the union, named after the
 * family: its decoder fills that member, and only the functions that the decoder stores in `fn` read it. */
#ifndef SIM_PTX_INSN_H
#define SIM_PTX_INSN_H

#include <stdbool.h>
#include <stdint.h>

struct branch_targets;
struct call_info;
struct insn;
struct mma_form;
struct run;
struct tensor_form;
struct wgmma_form;

/* A register, constant or predicate: a row with one value per lane, at byte offset `off` from one of the bases.
 * A predicate row is one 32-bit word, one bit per lane. */
struct operand {
    uint32_t off;
    uint8_t base; /* enum base */
    uint8_t wide; /* 64-bit row */
    uint8_t negated;
    uint8_t sink;
};

enum base { BASE_REGS, BASE_CONST, BASE_PREDS, BASES };

/* The interpreter's next step. */
enum next {
    NEXT,  /* the instruction is done */
    JUMP,  /* the split's pc is set */
    BLOCK, /* the split waits; the instruction is executed again when its wait ends */
    YIELD, /* done, and another warp's turn */
    GONE,  /* the split has no lanes any more, or splits have changed */
    FAIL   /* a finding ended the run */
};
typedef enum next exec_function(struct run *run, const struct insn *insn, uint32_t mask);
typedef exec_function *exec_fn;

/* Integer arithmetic, logic and bit fields. */
struct integer_fields {
    uint8_t byte_order; /* prmt: PRMT_... of bytes.c */
    uint8_t table;      /* lop3: immLut */
    bool combine_and;   /* lop3 with a predicate: .and, not .or */
    bool shift_amount;  /* bfind.shiftamt */
    bool wrap;          /* szext.wrap, bmsk.wrap */
    bool carry_in;      /* addc, subc, madc */
    bool carry_out;     /* .cc */
    bool subtract;      /* sub.cc, subc */
    bool high_product;  /* madc.hi, mad.hi.cc */
};

/* vadd2, vadd4 and their like; dp4a, dp2a. */
struct video_fields {
    uint8_t operation, parts;
    uint8_t relation;                   /* vset */
    bool is_signed, a_signed, b_signed; /* the result, a, b */
    bool sat, sum;                      /* .sat, .add */
    bool upper_bytes;                   /* dp2a.hi */
};

/* Floating point of 16, 32 and 64 bits. */
struct floating_fields {
    uint8_t operation; /* enum of the file that decodes it */
    uint8_t rounding;  /* enum rounding */
    uint8_t source;    /* enum ptx_type: narrower sources of a mixed-precision f32 add, sub or fma */
    bool ftz, sat, relu;
    bool nan;         /* min, max: .NaN */
    bool largest;     /* max, not min */
    bool xorsign_abs; /* min, max: .xorsign.abs */
    bool absolute;    /* min, max of three values: .abs */
    bool oob;         /* fma.oob */
};

/* cvt; `type` is the destination's. */
struct convert_fields {
    uint8_t from_type;
    uint8_t rounding; /* enum rounding */
    bool ftz, sat, relu, satfinite;
    uint8_t bits, from_bits; /* of the two types */
    uint8_t register_bits;   /* integer destination: the register may be wider than the type */
    uint8_t target;          /* cvt.rs: index into targets[] of cvt_rs.c */
    uint8_t packed;          /* cvt.pack: index into packed[] of cvt_pack.c */
};

/* setp, set, slct. */
struct compare_fields {
    uint8_t operand_type; /* type of the compared values; slct: type of the selector */
    uint8_t relation;     /* .eq, .lt ... */
    uint8_t combine;      /* .and, .or, .xor with the predicate operand, or none */
    bool ftz;
};

/* mov, cvta. */
struct move_fields {
    uint8_t pieces, piece_bits; /* mov of a vector */
    uint8_t clock;              /* mov from a clock: enum special_kind */
    bool to_space;              /* cvta.to: from generic */
};

/* ld, st. */
struct memory_fields {
    uint8_t elements, element_bytes;
    bool ordered;             /* .acquire, .release */
    bool of_cta;              /* scope .cta */
    bool strong, is_volatile; /* .relaxed, .volatile and the ordered ones */
    bool quad;                /* .b128 */
    uint32_t register_mask;   /* ld into an 8- or 16-bit register: the bits it holds */
};

/* atom, red. */
struct atomic_fields {
    uint8_t operation;
    uint8_t elements;
    bool ordered; /* .acquire, .release, .acq_rel */
    bool of_cta;  /* scope .cta */
};

/* shfl, vote, match, redux. */
struct warp_fields {
    uint8_t mode;      /* shfl, vote: variant */
    uint8_t operation; /* redux */
    bool all;          /* match.all */
    bool absolute;     /* redux.abs */
    bool nan;          /* redux.NaN */
};

/* bar, barrier, barrier.cluster. */
struct barrier_fields {
    uint8_t action;    /* sync, arrive, red */
    uint8_t reduction; /* red: popc, and, or */
    bool has_count;    /* the number of threads is an operand */
    bool relaxed;      /* barrier.cluster.arrive.relaxed */
};

/* bra, brx, call, ret, exit, setmaxnreg. */
struct control_fields {
    union {
        const struct branch_targets *targets; /* brx */
        const struct call_info *call;
    };
    uint32_t target;    /* bra: pc */
    uint16_t registers; /* setmaxnreg: registers per thread */
    bool exits;         /* exit, not ret */
};

/* tex, tld4, txq, suld, sust, suq. */
struct texture_fields {
    uint8_t operation;  /* enum texture_operation of isa/memory/texture.h */
    uint8_t dimensions; /* of the coordinates; 0: a query */
    bool layered;       /* a layer precedes the coordinates */
    bool real;          /* coordinates are f32 */
    bool of_surface;
    uint8_t component;       /* tld4; txq and suq: the dimension, 3: layers */
    uint8_t bytes, elements; /* suld, sust */
    uint8_t outside;         /* suld, sust: enum outside of isa/memory/texture.h */
};

/* fence, membar. */
struct fence_fields {
    bool acquires, releases; /* memory model: fence.sc, .acq_rel, .acquire, .release, membar */
    bool sc;                 /* fence.sc or membar of a scope wider than the cluster */
    bool narrow;             /* scope .cta */
    bool async_proxy;        /* fence.proxy.async */
    bool inits;              /* fence.mbarrier_init */
    bool acquires_map;       /* fence.proxy.tensormap::generic.acquire: the map's address is the operand */
};

/* ldmatrix, stmatrix, mma, wmma. */
struct matrix_fields {
    const struct mma_form *form; /* mma */
    uint8_t count;               /* ldmatrix, stmatrix: number of matrices */
    uint8_t byte_form, packing;  /* ldmatrix, stmatrix with 8-bit elements: enums of matrix.c */
    bool transposed;
    uint32_t mma_ticks; /* set by clock/: how long it takes a sub-partition's tensor core */
};

struct mbarrier_fields {
    uint8_t operation; /* init, arrive, try_wait ... */
    bool has_destination, has_value;
    bool expects_tx; /* arrive.expect_tx */
    bool by_parity;
    bool relaxed;
    bool of_cta; /* scope .cta is explicit */
    bool peeks;  /* try_wait: on failure the program does something else (clock/instructions/families.c) */
};

/* Instructions with several address operands: offsets[i] is the constant added to the address in op[i]. */
#define MAX_ADDRESS_OPERANDS 8

/* cp.async and cp.async.mbarrier.arrive. */
struct cp_async_fields {
    const int64_t *offsets;
    uint8_t bytes;         /* copied by each thread */
    bool ignore_predicate; /* op[2] is a predicate, true: write zeros; otherwise op[2] is the source size */
    bool counted;          /* arrive with .noinc: the mbarrier's expected count includes this arrival */
};

/* commit_group and wait_group of cp.async, bulk copies and wgmma. */
struct group_fields {
    uint32_t pending; /* wait_group N: the newest N groups may still be in flight */
    uint8_t family;   /* enum group_family */
    bool read;        /* wait_group.read */
};

/* cp.async.bulk, cp.reduce.async.bulk. */
struct bulk_fields {
    const int64_t *offsets;
    uint8_t reduction; /* enum reduction */
    bool multicast;
    bool from_shared;
    bool masked; /* .cp_mask */
};

/* cp.async.bulk.tensor, cp.reduce.async.bulk.tensor. */
struct tensor_copy_fields {
    const int64_t *offsets;
    uint8_t rank;
    uint8_t mode;      /* enum tensor_mode */
    uint8_t reduction; /* enum reduction */
    uint8_t cta_group;
    bool multicast;
    uint8_t coordinates; /* index in op[] of the first one */
    uint8_t extras;      /* im2col operands that follow the coordinates */
    bool plain_types;    /* packed types and swizzle atoms over 16 bytes are refused */
};

/* st.async, red.async. */
struct remote_fields {
    const int64_t *offsets;
    uint8_t elements;
    uint8_t reduction; /* enum reduction */
};

/* clusterlaunchcontrol. */
struct cancel_fields {
    const int64_t *offsets;
    bool multicast;    /* .multicast::cluster::all */
    uint8_t dimension; /* query_cancel.get_first_ctaid: 0 to 2 */
};

/* tensormap.replace and tensormap.cp_fenceproxy. */
struct tensor_map_fields {
    const int64_t *offsets; /* cp_fenceproxy */
    uint32_t dimension;     /* replace: index of the field's dimension */
    uint8_t field;          /* replace */
};

struct wgmma_fields {
    const struct wgmma_form *form; /* mma_async */
    uint16_t n;
    uint8_t a_registers; /* 4: A is in registers; 0: A is given by a descriptor */
    /* Set by clock/: how many instructions ptxas moves after this one, and how many of those use the ALU. */
    uint8_t moved, moved_alu;
};

struct tcgen05_fields {
    const struct tensor_form *form;
};

/* The order in op[] is documented at the mnemonic's decoder; by default the destination comes first. */
struct insn {
    exec_fn fn;
    const struct operand *op;
    const char *name;
    int64_t offset; /* the constant of the address operand [register + constant] */
    uint32_t guard_off;
    uint32_t line;     /* in the PTX text */
    uint32_t loc;      /* index of module->locs, 0: none */
    uint16_t nop;      /* operands in op[] */
    uint8_t guard;     /* 0 none, 1 @p, 2 @!p */
    uint8_t cls;       /* enum insn_class */
    uint8_t type;      /* enum ptx_type of the operation */
    uint8_t space;     /* enum space of the address operand */
    uint8_t ndst;      /* op[0] to op[ndst - 1] are written */
    uint8_t aligned;   /* .aligned: all live lanes of the warp must execute it together */
    uint8_t reg_async; /* may touch registers of pending asynchronous operations (wgmma) */
    uint8_t timing;    /* enum clock_family of clock/; 0: not classified yet */
    uint8_t machine;   /* set by clock/: SASS instructions that it becomes */
    union {
        struct integer_fields integer;
        struct floating_fields floating;
        struct video_fields video;
        struct convert_fields convert;
        struct compare_fields compare;
        struct move_fields move;
        struct memory_fields memory;
        struct atomic_fields atomic;
        struct warp_fields warp;
        struct barrier_fields barrier;
        struct control_fields control;
        struct fence_fields fence;
        struct matrix_fields matrix;
        struct mbarrier_fields mbarrier;
        struct cp_async_fields cp_async;
        struct group_fields group;
        struct bulk_fields bulk;
        struct tensor_copy_fields tensor_copy;
        struct remote_fields remote;
        struct cancel_fields cancel;
        struct tensor_map_fields tensor_map;
        struct wgmma_fields wgmma;
        struct tcgen05_fields tcgen05;
        struct texture_fields texture;
    };
};

/* The interpreter walks an array of these; their size decides how much of a kernel stays in cache. */
_Static_assert(sizeof(struct insn) <= 80, "struct insn has grown");

#endif
