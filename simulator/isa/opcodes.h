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
    X(subc, subc, INT)                                                                                         \
    X(mul, mul, INT)                                                                                           \
    X(mad, mad, INT)                                                                                           \
    X(madc, madc, INT)                                                                                         \
    X(mul24, mul24, INT)                                                                                       \
    X(mad24, mad24, INT)                                                                                       \
    X(sad, sad, INT)                                                                                           \
    X(div, div, INT)                                                                                           \
    X(rem, rem, INT)                                                                                           \
    X(abs, abs, INT)                                                                                           \
    X(neg, neg, INT)                                                                                           \
    X(min, min, INT)                                                                                           \
    X(max, max, INT)                                                                                           \
    X(popc, popc, INT)                                                                                         \
    X(clz, clz, INT)                                                                                           \
    X(bfind, bfind, INT)                                                                                       \
    X(fns, fns, INT)                                                                                           \
    X(brev, brev, INT)                                                                                         \
    X(bfe, bfe, INT)                                                                                           \
    X(bfi, bfi, INT)                                                                                           \
    X(szext, szext, INT)                                                                                       \
    X(bmsk, bmsk, INT)                                                                                         \
    X(dp4a, dp4a, INT)                                                                                         \
    X(vabsdiff2, vabsdiff2, INT)                                                                               \
    X(vabsdiff4, vabsdiff4, INT)                                                                               \
    X(vadd2, vadd2, INT)                                                                                       \
    X(vadd4, vadd4, INT)                                                                                       \
    X(vsub2, vsub2, INT)                                                                                       \
    X(vsub4, vsub4, INT)                                                                                       \
    X(vavrg2, vavrg2, INT)                                                                                     \
    X(vavrg4, vavrg4, INT)                                                                                     \
    X(vmin2, vmin2, INT)                                                                                       \
    X(vmin4, vmin4, INT)                                                                                       \
    X(vmax2, vmax2, INT)                                                                                       \
    X(vmax4, vmax4, INT)                                                                                       \
    X(vset2, vset2, INT)                                                                                       \
    X(vset4, vset4, INT)                                                                                       \
    X(dp2a, dp2a, INT)                                                                                         \
    X(and, and, INT)                                                                                           \
    X(or, or, INT)                                                                                             \
    X(xor, xor, INT)                                                                                           \
    X(not, not, INT)                                                                                           \
    X(cnot, cnot, INT)                                                                                         \
    X(lop3, lop3, INT)                                                                                         \
    X(shl, shl, INT)                                                                                           \
    X(shr, shr, INT)                                                                                           \
    X(shf, shf, INT)                                                                                           \
    X(prmt, prmt, INT)                                                                                         \
    X(fma, fma, FLOAT)                                                                                         \
    X(rcp, rcp, FLOAT)                                                                                         \
    X(sqrt, sqrt, FLOAT)                                                                                       \
    X(rsqrt, rsqrt, FLOAT)                                                                                     \
    X(sin, sin, FLOAT)                                                                                         \
    X(cos, cos, FLOAT)                                                                                         \
    X(lg2, lg2, FLOAT)                                                                                         \
    X(ex2, ex2, FLOAT)                                                                                         \
    X(tanh, tanh, FLOAT)                                                                                       \
    X(copysign, copysign, FLOAT)                                                                               \
    X(testp, testp, FLOAT)                                                                                     \
    X(setp, setp, INT)                                                                                         \
    X(set, set, INT)                                                                                           \
    X(selp, selp, MOVE)                                                                                        \
    X(slct, slct, MOVE)                                                                                        \
    X(cvt, cvt, CVT)                                                                                           \
    X(cvta, cvta, MOVE)                                                                                        \
    X(mov, mov, MOVE)                                                                                          \
    X(mapa, mapa, MOVE)                                                                                        \
    X(getctarank, getctarank, MOVE)                                                                            \
    X(isspacep, isspacep, MOVE)                                                                                \
    X(ld, ld, MEM_OTHER)                                                                                       \
    X(ldu, ld, MEM_OTHER)                                                                                      \
    X(st, st, MEM_OTHER)                                                                                       \
    X(prefetch, prefetch, MEM_OTHER)                                                                           \
    X(prefetchu, advice, MEM_OTHER)                                                                            \
    X(multimem, multimem, MEM_GLOBAL)                                                                          \
    X(discard, advice, MEM_OTHER)                                                                              \
    X(applypriority, advice, MEM_OTHER)                                                                        \
    X(createpolicy, createpolicy, MOVE)                                                                        \
    X(atom, atom, ATOM)                                                                                        \
    X(red, red, ATOM)                                                                                          \
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
    X(ldmatrix, ldmatrix, MEM_SHARED)                                                                          \
    X(stmatrix, stmatrix, MEM_SHARED)                                                                          \
    X(movmatrix, movmatrix, WARP)                                                                              \
    X(mma, mma, TENSOR)                                                                                        \
    X(wmma, wmma, TENSOR)                                                                                      \
    X(wgmma, wgmma, TENSOR)                                                                                    \
    X(tcgen05, tcgen05, TENSOR)                                                                                \
    X(clusterlaunchcontrol, clusterlaunchcontrol, ASYNC_COPY)                                                  \
    X(tex, tex, MEM_GLOBAL)                                                                                    \
    X(tld4, tld4, MEM_GLOBAL)                                                                                  \
    X(txq, txq, MEM_GLOBAL)                                                                                    \
    X(suld, suld, MEM_GLOBAL)                                                                                  \
    X(sust, sust, MEM_GLOBAL)                                                                                  \
    X(suq, suq, MEM_GLOBAL)                                                                                    \
    X(tensormap, tensormap, MEM_OTHER)

/* OPCODES as a table for ptx_parse, ended by a NULL name. */
extern const struct opcode isa_opcodes[];

#define X(name, function, cls) void decode_##function(struct decoder *d);
OPCODES(X)
#undef X

exec_function exec_nothing;

/* add.cc, addc, sub.cc, subc; .cc has been taken. */
void carry_form(struct decoder *d, bool in, bool subtract, bool set);

/* Floating-point forms of mnemonics that integers have too; the type has been taken. */
void decode_float_binary(struct decoder *d, const char *name, unsigned type);
void decode_float_fma(struct decoder *d, unsigned type);
void decode_float_unary(struct decoder *d, const char *name, unsigned type);
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
