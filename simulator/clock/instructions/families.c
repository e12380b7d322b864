/* The cost class of each PTX instruction.
 *
 * A family stands for the machine instruction that ptxas 13.0 makes of it for sm_90a and sm_100a, and
 * insn->machine for how many.  assembler.c models what ptxas makes of several instructions together. */
#include "machine_code.h"

static bool has(const char *name, const char *modifier) {
    return strstr(name, modifier) != NULL;
}

static bool any(const char *name, const char *const *bases, uint32_t count) {
    uint32_t at = 0;
    while (at < count && !mnemonic_is(name, bases[at])) {
        at++;
    }
    return at < count;
}

struct meaning {
    enum clock_family family;
    uint8_t machine;
};

static struct meaning means(enum clock_family family, int machine) {
    return (struct meaning){family, (uint8_t)machine};
}

static bool is_half(unsigned type) {
    return type == T_F16 || type == T_F16X2 || type == T_BF16 || type == T_BF16X2;
}

static bool is_wide(unsigned type) {
    return type == T_B64 || type == T_U64 || type == T_S64;
}

static struct meaning arithmetic(const struct insn *insn, const char *name) {
    unsigned type = insn->type;
    bool product = mnemonic_is(name, "mul") || mnemonic_is(name, "mad") || mnemonic_is(name, "fma");
    if (type == T_F64) {
        return means(FAMILY_FMA, 4);
    }
    if (is_half(type)) {
        return means(FAMILY_HALF, 1);
    }
    if (type == T_F32 || type == T_F32X2) {
        return means(FAMILY_FMA, type == T_F32 ? 1 : 2);
    }
    if (!product) {
        return means(FAMILY_ADD, is_wide(type) ? 2 : 1);
    }
    if (has(name, ".wide") || has(name, ".hi")) {
        return means(FAMILY_IMAD_WIDE, 1);
    }
    return means(FAMILY_IMAD, is_wide(type) ? 3 : 1);
}

/* A conversion between integers of 32 bits and more is no machine instruction. */
static struct meaning conversion(const struct insn *insn) {
    bool from_real = is_float_type(insn->convert.from_type), to_real = is_float_type(insn->type);
    if (!from_real && !to_real) {
        return means(ptx_type_bytes(insn->type) < 4 ? FAMILY_ALU : FAMILY_FREE, 1);
    }
    return means(FAMILY_ALU, insn->type == T_F64 || insn->convert.from_type == T_F64 ? 4 : 1);
}

static struct meaning fence(const char *name) {
    if (has(name, "proxy.async")) {
        return means(has(name, "shared") ? FAMILY_FENCE_ASYNC_SHARED : FAMILY_FENCE_ASYNC, 1);
    }
    bool near = has(name, ".cta") || has(name, "mbarrier_init");
    return means(near ? FAMILY_FENCE_CTA : FAMILY_FENCE_GPU, 1);
}

static struct meaning copy(const char *name) {
    if (has(name, "commit_group") || has(name, "wait_group") || has(name, "wait_all") ||
        has(name, "prefetch")) {
        return means(FAMILY_ISSUE, 1);
    }
    if (has(name, ".bulk")) {
        return means(FAMILY_COPY, 1);
    }
    return means(has(name, ".mbarrier") ? FAMILY_MBARRIER_ARRIVE : FAMILY_MEMORY, 1);
}

static struct meaning barrier(const char *name) {
    if (has(name, ".warp")) {
        return means(FAMILY_WARP_SYNC, 1);
    }
    if (has(name, ".cluster")) {
        return means(has(name, ".arrive") ? FAMILY_CLUSTER_ARRIVE : FAMILY_CLUSTER_WAIT, 1);
    }
    return means(FAMILY_BARRIER, 1);
}

static struct meaning mbarrier(const char *name) {
    if (has(name, "_wait")) {
        return means(FAMILY_MBARRIER_TEST, 1);
    }
    bool far = has(name, ".arrive") && has(name, ".cluster") && !has(name, ".relaxed");
    return means(far ? FAMILY_MBARRIER_RELEASE : FAMILY_MBARRIER_ARRIVE, 1);
}

static struct meaning tensor(const char *name) {
    if (mnemonic_is(name, "wmma") && !has(name, "wmma.mma")) {
        return means(FAMILY_MEMORY, 1);
    }
    if (mnemonic_is(name, "mma") || mnemonic_is(name, "wmma")) {
        return means(FAMILY_WARP_MMA, 1);
    }
    if (has(name, ".mma") || has(name, ".cp") || has(name, ".shift") || has(name, "tcgen05.commit")) {
        return means(FAMILY_TENSOR, 1);
    }
    if (mnemonic_is(name, "wgmma.wait_group")) {
        return means(FAMILY_TENSOR_WAIT, 1);
    }
    return means(mnemonic_is(name, "tcgen05.ld") || mnemonic_is(name, "tcgen05.st") ? FAMILY_TENSOR_LOAD
                                                                                    : FAMILY_ISSUE,
                 1);
}

static struct meaning real_function(const char *name) {
    bool exact = !has(name, ".approx") && !mnemonic_is(name, "ex2") && !mnemonic_is(name, "tanh");
    return means(exact ? FAMILY_SPECIAL_FMA : FAMILY_SPECIAL, 1);
}

/* HW: a left shift by a constant is IMAD.SHL where the ALU is busier. */
static bool is_short_left_shift(const struct insn *insn) {
    return mnemonic_is(insn->name, "shl") && !is_wide(insn->type) && insn->nop == 3 &&
           insn->op[2].base == BASE_CONST;
}

static struct meaning meaning_of(const struct insn *insn) {
    static const char *const adds[] = {"add", "sub", "mul", "mad", "fma", "mul24", "mad24"};
    static const char *const carries[] = {"addc", "subc", "madc"};
    /* HW: the FMA pipe that has IMAD has IDP too (published: an NVIDIA engineer on its developers' forum, of
     * sm_80 to sm_90). */
    static const char *const dots[] = {"dp4a", "dp2a"};
    static const char *const special[] = {"popc", "clz", "brev", "bfind"};
    static const char *const functions[] = {"rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh"};
    static const char *const free_names[] = {"cvta", "abs", "neg", "isspacep"};
    static const char *const votes[] = {"vote", "match", "activemask"};
    static const char *const branches[] = {"bra", "brx", "call", "ret", "exit"};
    static const char *const memory[] = {"st", "atom", "red", "ldu"};
    static const char *const matrices[] = {"ldmatrix", "stmatrix"};
    static const char *const tensors[] = {"mma", "wmma", "wgmma", "tcgen05"};
    static const char *const others[] = {"prefetch", "nanosleep", "discard"};
    const char *name = insn->name;
    bool real = is_float_type(insn->type);
    if (mnemonic_is(name, "mov")) {
        return means(insn->move.clock != 0 ? FAMILY_CLOCK : FAMILY_FREE, 1);
    }
    if (mnemonic_is(name, "ld")) {
        return means(insn->space == SP_PARAM || insn->space == SP_CONST ? FAMILY_FREE : FAMILY_MEMORY, 1);
    }
    if (mnemonic_is(name, "prefetch.global.L2")) {
        return means(FAMILY_PREFETCH, 1);
    }
    if (mnemonic_is(name, "griddepcontrol")) {
        return means(has(name, ".wait") ? FAMILY_GRID_WAIT : FAMILY_GRID_LAUNCH, 1);
    }
    return any(name, COUNTED(adds))                                      ? arithmetic(insn, name)
           : any(name, COUNTED(carries))                                 ? means(FAMILY_ADD, 1)
           : any(name, COUNTED(dots))                                    ? means(FAMILY_IMAD, 1)
           : is_short_left_shift(insn)                                   ? means(FAMILY_ADD, 1)
           : any(name, COUNTED(special))                                 ? means(FAMILY_SPECIAL, 1)
           : any(name, COUNTED(functions))                               ? real_function(name)
           : mnemonic_is(name, "div") && has(name, ".full")              ? means(FAMILY_SPECIAL_FMA, 1)
           : mnemonic_is(name, "div") || mnemonic_is(name, "rem")        ? means(FAMILY_LONG, real ? 12 : 20)
           : mnemonic_is(name, "cvt")                                    ? conversion(insn)
           : any(name, COUNTED(free_names)) && !is_half(insn->type)      ? means(FAMILY_FREE, 1)
           : mnemonic_is(name, "shfl") || mnemonic_is(name, "movmatrix") ? means(FAMILY_SHUFFLE, 1)
           : any(name, COUNTED(votes))                                   ? means(FAMILY_VOTE, 1)
           : mnemonic_is(name, "elect")                                  ? means(FAMILY_FREE, 1)
           : mnemonic_is(name, "redux")                                  ? means(FAMILY_REDUX, 1)
           : any(name, COUNTED(branches))                                ? means(FAMILY_BRANCH, 1)
           : any(name, COUNTED(memory))                                  ? means(FAMILY_MEMORY, 1)
           : any(name, COUNTED(matrices))                                ? means(FAMILY_MEMORY, 1)
           : mnemonic_is(name, "bar") || mnemonic_is(name, "barrier")    ? barrier(name)
           : mnemonic_is(name, "fence") || mnemonic_is(name, "membar")   ? fence(name)
           : mnemonic_is(name, "mbarrier")                               ? mbarrier(name)
           : mnemonic_is(name, "setmaxnreg")                             ? means(FAMILY_SET_REGISTERS, 1)
           : mnemonic_is(name, "cp")                                     ? copy(name)
           : mnemonic_is(name, "clusterlaunchcontrol") ? means(has(name, "try") ? FAMILY_COPY : FAMILY_ALU, 1)
           : any(name, COUNTED(tensors))               ? tensor(name)
           : any(name, COUNTED(others))                ? means(FAMILY_ISSUE, 1)
                                                       : means(FAMILY_ALU, is_wide(insn->type) ? 2 : 1);
}

#define WAIT_LOOP 12 /* most instructions of a loop that only repeats a try_wait */

/* A try_wait outside a loop of its own is a look ahead, as in CUTLASS's producers, which try the next stage
 * before they fill this one.  It answers no at once.  Published (cutlass_gemm_mainloop): rings keep all of
 * their stages under way, which they would not if such a try_wait suspended until its phase ends. */
static bool looks_ahead(const struct module *module, uint32_t at) {
    for (uint32_t i = at + 1; i < module->ncode && i <= at + WAIT_LOOP; i++) {
        const struct insn *insn = &module->code[i];
        if (has(insn->name, "try_wait")) {
            return false;
        }
        if (mnemonic_is(insn->name, "bra") && insn->control.target <= at) {
            return at - insn->control.target > WAIT_LOOP;
        }
    }
    return true;
}

bool timing_classify(struct module *module, const struct timing *timing, char *message, size_t room) {
    message[0] = '\0';
    if (module->ncode == 0 || module->code[0].timing != FAMILY_NONE) {
        return true;
    }
    bool good = true;
    for (uint32_t i = 0; i < module->ncode; i++) {
        struct meaning meaning = meaning_of(&module->code[i]);
        module->code[i].timing = (uint8_t)meaning.family;
        module->code[i].machine = meaning.machine;
        if (meaning.family == FAMILY_WARP_MMA) {
            module->code[i].matrix.mma_ticks = warp_mma_ticks(&timing->chip, module->code[i].name);
        }
        if (has(module->code[i].name, "mbarrier.try_wait")) {
            module->code[i].mbarrier.peeks = looks_ahead(module, i);
        }
    }
    if (timing->machine_code != NULL) {
        good = machine_code_read(module, &timing->chip, timing->machine_code, message, room);
    }
    for (uint32_t i = 0; good && i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        bool known = function->is_defined && machine_code_of(module, function->first_pc) != NULL;
        good = known || timing_assemble(module, function);
    }
    return good;
}
