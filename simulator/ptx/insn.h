/* One decoded instruction.
 *
 * What every instruction has comes first.  What a family of mnemonics adds is a member of the union, named
 * after the family: a decoder fills its own family's member, and only the functions that it sets as `fn` read
 * it. */
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

/* A register, constant or predicate: a row of lanes at a byte offset from one of the machine's bases.
 * Predicates are one 32-bit word, a bit a lane. */
struct operand {
    uint32_t off;
    uint8_t base; /* enum base */
    uint8_t wide; /* 64-bit row */
    uint8_t negated;
    uint8_t sink;
};

enum base { BASE_REGS, BASE_CONST, BASE_PREDS, BASES };

/* What the interpreter does next. */
enum next {
    NEXT,  /* the instruction is done */
    JUMP,  /* the split's pc is set */
    BLOCK, /* the split waits; the instruction is executed again when its wait ends */
    YIELD, /* done, and another warp's turn */
    GONE,  /* the split has no lanes any more, or splits have changed */
    FAIL   /* a finding ended the run */
};
typedef enum next (*exec_fn)(struct run *run, const struct insn *insn, uint32_t mask);

/* Integer arithmetic, logic and bit fields. */
struct integer_fields {
    uint8_t byte_order; /* prmt: enum of its modes, 0 for the selector in op[3] */
    uint8_t b_type;     /* dp4a, dp2a, vabsdiff: type of b; `type` is that of a */
    bool upper_bytes;   /* dp2a.hi */
    bool sum;           /* vabsdiff.add */
    uint8_t table;      /* lop3: immLut */
    bool combine_and;   /* lop3 with a predicate: .and, not .or */
    bool shift_amount;  /* bfind.shiftamt */
    bool wrap;          /* szext.wrap, bmsk.wrap */
    bool carry_in;      /* addc, subc, madc */
    bool carry_out;     /* .cc */
    bool subtract;      /* sub.cc, subc */
    bool high_product;  /* madc.hi, mad.hi.cc */
};

/* Floating point of 16, 32 and 64 bits. */
struct floating_fields {
    uint8_t operation; /* one of the file's own enum */
    uint8_t rounding;  /* enum rounding */
    uint8_t source;    /* enum ptx_type: of add, sub, fma in f32 with narrower sources */
    bool ftz, sat, relu;
    bool nan;         /* min, max: .NaN */
    bool largest;     /* max, not min */
    bool xorsign_abs; /* min, max: .xorsign.abs */
    bool absolute;    /* of three: .abs */
};

/* cvt; `type` is the destination's. */
struct convert_fields {
    uint8_t from_type;
    uint8_t rounding; /* enum rounding */
    bool ftz, sat, relu, satfinite;
    uint8_t register_bits; /* of an integer destination: may be wider than its type */
    uint8_t target;        /* .rs: an index into its table of results */
    uint8_t packed;        /* .pack: likewise */
};

/* setp, set, slct. */
struct compare_fields {
    uint8_t operand_type; /* of what is compared; slct: of the chooser */
    uint8_t relation;     /* .eq, .lt ... */
    uint8_t combine;      /* with the predicate operand: .and, .or, .xor or not at all */
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
    bool ordered;           /* .acquire, .release */
    bool of_cta;            /* with scope .cta */
    bool strong;            /* .relaxed, .volatile and the ordered ones */
    bool quad;              /* .b128 */
    uint32_t register_mask; /* ld into registers of 8 or 16 bits: the bits that they hold */
};

/* atom, red. */
struct atomic_fields {
    uint8_t operation;
    uint8_t elements;
    bool ordered; /* .acquire, .release, .acq_rel */
    bool of_cta;  /* with scope .cta */
};

/* shfl, vote, match, redux. */
struct warp_fields {
    uint8_t mode;      /* shfl, vote: which */
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
    uint16_t registers; /* setmaxnreg: of a thread */
    bool exits;         /* exit, not ret */
};

/* fence, membar. */
struct fence_fields {
    bool acquires, releases; /* of the memory model: fence.sc, .acq_rel, .acquire, .release, membar */
    bool sc;                 /* fence.sc or membar of a scope wider than the cluster */
    bool async_proxy;        /* fence.proxy.async */
    bool inits;              /* fence.mbarrier_init */
    bool acquires_map;       /* fence.proxy.tensormap::generic.acquire: the map's address is the operand */
};

/* ldmatrix, stmatrix, mma. */
struct matrix_fields {
    const struct mma_form *form; /* mma */
    uint8_t count;               /* ldmatrix, stmatrix: matrices */
    uint8_t byte_form, packing;  /* ldmatrix, stmatrix of 8-bit elements: the file's own enums */
    bool transposed;
};

struct mbarrier_fields {
    uint8_t operation; /* init, arrive, try_wait ... */
    bool has_destination, has_value;
    bool expects_tx; /* arrive.expect_tx */
    bool by_parity;
    bool relaxed;
    bool of_cta; /* .cta is written */
    bool peeks;  /* try_wait: the program goes on when it says no (clock/instructions/families.c) */
};

/* Instructions with several addresses keep the constants added to them in a list by place in op[]. */
#define MAX_ADDRESS_OPERANDS 8

/* cp.async and cp.async.mbarrier.arrive. */
struct cp_async_fields {
    const int64_t *offsets;
    uint8_t bytes;         /* of a thread's copy */
    bool ignore_predicate; /* op[2] says which lanes write zeros; else it is the number of source bytes */
    bool counted;          /* the arrival: .noinc, its count is part of the mbarrier's expected count */
};

/* commit_group and wait_group of cp.async, bulk copies and wgmma. */
struct group_fields {
    uint32_t pending; /* wait_group: how many may still be */
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
    uint8_t coordinates; /* where they begin in op[] */
    uint8_t extras;      /* operands after them, of the im2col modes */
    bool plain_types;    /* neither packed types nor swizzles of larger atoms */
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
    uint32_t dimension;     /* replace: of an indexed field */
    uint8_t field;          /* replace */
};

struct wgmma_fields {
    const struct wgmma_form *form; /* mma_async */
    uint16_t n;
    uint8_t a_registers; /* 4 where A is in registers, else 0: A's descriptor is an operand */
    /* Of clock/: instructions that ptxas puts behind this one, and how many of them are the ALU's. */
    uint8_t moved, moved_alu;
};

struct tcgen05_fields {
    const struct tensor_form *form;
};

/* op[] holds what the mnemonic's decoder documents; by default destination first. */
struct insn {
    exec_fn fn;
    const struct operand *op;
    const char *name;
    int64_t offset; /* of the address operand: the constant in [register + constant] */
    uint32_t guard_off;
    uint32_t line;     /* in the PTX text */
    uint32_t loc;      /* index of module->locs, 0: none */
    uint16_t nop;      /* operands in op[] */
    uint8_t guard;     /* 0 none, 1 @p, 2 @!p */
    uint8_t cls;       /* enum insn_class */
    uint8_t type;      /* enum ptx_type: of the operation */
    uint8_t space;     /* enum space: of the address operand */
    uint8_t ndst;      /* how many of op[] are written, from op[0] on */
    uint8_t aligned;   /* .aligned: every live lane of the warp has to be here */
    uint8_t reg_async; /* touches registers of pending asynchronous operations legally (wgmma) */
    uint8_t timing;    /* enum clock_family of clock/, 0: not classified */
    uint8_t machine;   /* machine instructions that it stands for */
    union {
        struct integer_fields integer;
        struct floating_fields floating;
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
    };
};

/* The interpreter walks an array of these: they stay small. */
_Static_assert(sizeof(struct insn) <= 80, "struct insn has grown");

#endif
