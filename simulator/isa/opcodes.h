/* The list of mnemonics, and decoders that one file calls of another. The decoder of a mnemonic and the
 * functions that execute it are in one file or in a pair of files of its family's folder. */
#ifndef SIM_ISA_OPCODES_H
#define SIM_ISA_OPCODES_H

#include "ptx/parse.h"

/* X(mnemonic up to the first dot, decoder, counter class) */
#define OPCODES(X)                                                                                             \
    X(add, add, INT)                                                                                           \
    X(sub, sub, INT)                                                                                           \
    X(addc, addc, INT)                                                                                         \
    X(subc, addc, INT)                                                                                         \
    X(mul, mul, INT)                                                                                           \
    X(mad, mad, INT)                                                                                           \
    X(madc, madc, INT)                                                                                         \
    X(mul24, 24_bits, INT)                                                                                     \
    X(mad24, 24_bits, INT)                                                                                     \
    X(sad, sad, INT)                                                                                           \
    X(div, div, INT)                                                                                           \
    X(rem, rem, INT)                                                                                           \
    X(abs, abs, INT)                                                                                           \
    X(neg, neg, INT)                                                                                           \
    X(min, min, INT)                                                                                           \
    X(max, max, INT)                                                                                           \
    X(popc, count, INT)                                                                                        \
    X(clz, count, INT)                                                                                         \
    X(bfind, count, INT)                                                                                       \
    X(fns, fns, INT)                                                                                           \
    X(brev, brev, INT)                                                                                         \
    X(bfe, bfe, INT)                                                                                           \
    X(bfi, bfi, INT)                                                                                           \
    X(szext, low_bits, INT)                                                                                    \
    X(bmsk, low_bits, INT)                                                                                     \
    X(dp4a, dot, INT)                                                                                          \
    X(vabsdiff2, video, INT)                                                                                   \
    X(vabsdiff4, video, INT)                                                                                   \
    X(vadd2, video, INT)                                                                                       \
    X(vadd4, video, INT)                                                                                       \
    X(vsub2, video, INT)                                                                                       \
    X(vsub4, video, INT)                                                                                       \
    X(vavrg2, video, INT)                                                                                      \
    X(vavrg4, video, INT)                                                                                      \
    X(vmin2, video, INT)                                                                                       \
    X(vmin4, video, INT)                                                                                       \
    X(vmax2, video, INT)                                                                                       \
    X(vmax4, video, INT)                                                                                       \
    X(vset2, video, INT)                                                                                       \
    X(vset4, video, INT)                                                                                       \
    X(dp2a, dot, INT)                                                                                          \
    X(and, and, INT)                                                                                           \
    X(or, or, INT)                                                                                             \
    X(xor, xor, INT)                                                                                           \
    X(not, not, INT)                                                                                           \
    X(cnot, cnot, INT)                                                                                         \
    X(lop3, lop3, INT)                                                                                         \
    X(shl, bit_shift, INT)                                                                                     \
    X(shr, bit_shift, INT)                                                                                     \
    X(shf, shf, INT)                                                                                           \
    X(prmt, prmt, INT)                                                                                         \
    X(fma, fma, FLOAT)                                                                                         \
    X(rcp, real_function, FLOAT)                                                                               \
    X(sqrt, real_function, FLOAT)                                                                              \
    X(rsqrt, real_function, FLOAT)                                                                             \
    X(sin, real_function, FLOAT)                                                                               \
    X(cos, real_function, FLOAT)                                                                               \
    X(lg2, real_function, FLOAT)                                                                               \
    X(ex2, real_function, FLOAT)                                                                               \
    X(tanh, real_function, FLOAT)                                                                              \
    X(copysign, copysign, FLOAT)                                                                               \
    X(testp, testp, FLOAT)                                                                                     \
    X(setp, setp, INT)                                                                                         \
    X(set, set, INT)                                                                                           \
    X(selp, select, MOVE)                                                                                      \
    X(slct, select, MOVE)                                                                                      \
    X(cvt, cvt, CVT)                                                                                           \
    X(cvta, cvta, MOVE)                                                                                        \
    X(mov, mov, MOVE)                                                                                          \
    X(mapa, mapa, MOVE)                                                                                        \
    X(getctarank, getctarank, MOVE)                                                                            \
    X(isspacep, isspacep, MOVE)                                                                                \
    X(ld, memory_access, MEM_OTHER)                                                                            \
    X(ldu, memory_access, MEM_OTHER)                                                                           \
    X(st, st, MEM_OTHER)                                                                                       \
    X(prefetch, prefetch, MEM_OTHER)                                                                           \
    X(prefetchu, advice, MEM_OTHER)                                                                            \
    X(multimem, multimem, MEM_GLOBAL)                                                                          \
    X(discard, advice, MEM_OTHER)                                                                              \
    X(applypriority, advice, MEM_OTHER)                                                                        \
    X(createpolicy, createpolicy, MOVE)                                                                        \
    X(atom, atomic, ATOM)                                                                                      \
    X(red, atomic, ATOM)                                                                                       \
    X(shfl, shfl, WARP)                                                                                        \
    X(vote, vote, WARP)                                                                                        \
    X(match, match, WARP)                                                                                      \
    X(elect, elect, WARP)                                                                                      \
    X(redux, redux, WARP)                                                                                      \
    X(activemask, activemask, WARP)                                                                            \
    X(bra, bra, CONTROL)                                                                                       \
    X(brx, brx, CONTROL)                                                                                       \
    X(call, call, CONTROL)                                                                                     \
    X(ret, ret, CONTROL)                                                                                       \
    X(exit, ret, CONTROL)                                                                                      \
    X(trap, trap, CONTROL)                                                                                     \
    X(brkpt, brkpt, CONTROL)                                                                                   \
    X(nanosleep, nanosleep, CONTROL)                                                                           \
    X(pmevent, advice, CONTROL)                                                                                \
    X(bar, bar, BARRIER)                                                                                       \
    X(barrier, bar, BARRIER)                                                                                   \
    X(fence, fence, FENCE)                                                                                     \
    X(membar, fence, FENCE)                                                                                    \
    X(griddepcontrol, griddepcontrol, CONTROL)                                                                 \
    X(setmaxnreg, setmaxnreg, CONTROL)                                                                         \
    X(mbarrier, mbarrier, MBARRIER)                                                                            \
    X(cp, cp, ASYNC_COPY)                                                                                      \
    X(ldmatrix, matrix_move, MEM_SHARED)                                                                       \
    X(stmatrix, matrix_move, MEM_SHARED)                                                                       \
    X(movmatrix, movmatrix, WARP)                                                                              \
    X(mma, mma, TENSOR)                                                                                        \
    X(wmma, wmma, TENSOR)                                                                                      \
    X(wgmma, wgmma, TENSOR)                                                                                    \
    X(tcgen05, tcgen05, TENSOR)                                                                                \
    X(clusterlaunchcontrol, clusterlaunchcontrol, ASYNC_COPY)                                                  \
    X(tex, tex, MEM_GLOBAL)                                                                                    \
    X(tld4, tld4, MEM_GLOBAL)                                                                                  \
    X(txq, query, MEM_GLOBAL)                                                                                  \
    X(suld, surface, MEM_GLOBAL)                                                                               \
    X(sust, surface, MEM_GLOBAL)                                                                               \
    X(suq, query, MEM_GLOBAL)                                                                                  \
    X(tensormap, tensormap, MEM_OTHER)

/* OPCODES as a table for ptx_parse, ended by a NULL name. */
extern const struct opcode isa_opcodes[];

#define X(name, function, cls) void decode_##function(struct decoder *d);
OPCODES(X)
#undef X

exec_function exec_nothing;

/* The decoder of a mnemonic whose result and `sources` operands have one type; then [type] = function, ... */
#define DECODE_ONE_TYPE(name, sources, ...)                                                                    \
    void decode_##name(struct decoder *d) {                                                                    \
        static const exec_fn fns[T_TYPES] = {__VA_ARGS__};                                                     \
        of_one_type(d, fns, mod_type(d), sources);                                                             \
    }

/* add.cc, addc, sub.cc, subc; .cc has been taken. */
void carry_form(struct decoder *d, bool in, bool subtract, bool set);

/* The modifier of a reduction as an enum reduction (async/bulk.h). */
int decode_reduction(struct decoder *d);
/* Floating-point forms of mnemonics that integers have too; the type has been taken. */
void decode_float_binary(struct decoder *d, unsigned type);
void decode_float_fma(struct decoder *d, unsigned type);
void decode_float_unary(struct decoder *d, unsigned type);
/* add, sub, mul, fma, min, max, abs, neg, ex2, tanh of f16, f16x2, bf16 and bf16x2. */
void decode_half(struct decoder *d, const char *name, unsigned type);

/* min or max: a NaN is ignored unless `nan`; -0 < +0. */
double extreme(double a, double b, bool largest, bool nan);

/* cvt.rs; .rs has been taken. */
void decode_cvt_stochastic(struct decoder *d);
void decode_cvt_pack(struct decoder *d);

/* st.async and red.async, which are asynchronous copies. */
void decode_st_async(struct decoder *d);
void decode_red_async(struct decoder *d);

#endif
