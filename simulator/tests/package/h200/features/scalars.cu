/* Scalar instructions with corners: carries, shifts, selections, packed and converted numbers, lanes. */
#include "features.cuh"

/* The instruction `text` of one word from three, of random and of chosen operands. */
#define WORDS(kernel, text)                                                                                    \
    static __global__ void kernel(struct buffers b) {                                                          \
        const uint32_t corners[8] = {0, 1, 0x80000000u, 0x7fffffffu, 0xffffffffu, 31, 32, 0x80008000u};        \
        uint32_t t = threadIdx.x, d;                                                                           \
        for (uint32_t i = 0; i < 16; i++) {                                                                    \
            uint32_t x = b.in[t + i * 384], y = b.in[t + i * 384 + 128], z = b.in[t + i * 384 + 256];          \
            if (i >= 8) {                                                                                      \
                x = corners[t % 8];                                                                            \
                y = i >= 12 ? corners[t / 8 % 8] : y % 64;                                                     \
                z = i >= 14 ? corners[t / 16 % 8] : z % 64;                                                    \
            }                                                                                                  \
            asm volatile(text : "=r"(d) : "r"(x), "r"(y), "r"(z));                                             \
            b.out[i * 128 + t] = d;                                                                            \
        }                                                                                                      \
    }

/* name, text; %0 from %1, %2 and %3 */
#define WORD_FEATURES(X)                                                                                       \
    X(prmt, "prmt.b32 %0, %1, %2, %3;")                                                                        \
    X(prmt_f4e, "prmt.b32.f4e %0, %1, %2, %3;")                                                                \
    X(prmt_b4e, "prmt.b32.b4e %0, %1, %2, %3;")                                                                \
    X(prmt_rc8, "prmt.b32.rc8 %0, %1, %2, %3;")                                                                \
    X(prmt_ecl, "prmt.b32.ecl %0, %1, %2, %3;")                                                                \
    X(prmt_ecr, "prmt.b32.ecr %0, %1, %2, %3;")                                                                \
    X(prmt_rc16, "prmt.b32.rc16 %0, %1, %2, %3;")                                                              \
    X(lop3, "lop3.b32 %0, %1, %2, %3, 0x6a;")                                                                  \
    X(shf_l_wrap, "shf.l.wrap.b32 %0, %1, %2, %3;")                                                            \
    X(shf_r_wrap, "shf.r.wrap.b32 %0, %1, %2, %3;")                                                            \
    X(shf_l_clamp, "shf.l.clamp.b32 %0, %1, %2, %3;")                                                          \
    X(shf_r_clamp, "shf.r.clamp.b32 %0, %1, %2, %3;")                                                          \
    X(bfe_u, "bfe.u32 %0, %1, %2, %3;")                                                                        \
    X(bfe_s, "bfe.s32 %0, %1, %2, %3;")                                                                        \
    X(bfi, "bfi.b32 %0, %1, %2, %3, 9;")                                                                       \
    X(shl, "{ .reg .u32 r; shl.b32 r, %1, %2; xor.b32 %0, r, %3; }")                                           \
    X(shr_s, "{ .reg .s32 r; shr.s32 r, %1, %2; xor.b32 %0, r, %3; }")                                         \
    X(dp4a_uu, "dp4a.u32.u32 %0, %1, %2, %3;")                                                                 \
    X(dp4a_su, "dp4a.s32.u32 %0, %1, %2, %3;")                                                                 \
    X(dp2a_lo, "dp2a.lo.s32.u32 %0, %1, %2, %3;")                                                              \
    X(dp2a_hi, "dp2a.hi.u32.s32 %0, %1, %2, %3;")                                                              \
    X(mad_hi, "mad.hi.s32 %0, %1, %2, %3;")                                                                    \
    X(mad24, "mad24.lo.s32 %0, %1, %2, %3;")                                                                   \
    X(mul24, "{ .reg .u32 r; mul24.lo.u32 r, %1, %2; add.u32 %0, r, %3; }")                                    \
    X(sad, "sad.s32 %0, %1, %2, %3;")                                                                          \
    X(carry, "{ .reg .u32 r; add.cc.u32 r, %1, %2; addc.u32 %0, r, %3; }")                                     \
    X(borrow, "{ .reg .u32 r; sub.cc.u32 r, %1, %2; subc.u32 %0, r, %3; }")                                    \
    X(add_sat, "{ .reg .s32 r; add.sat.s32 r, %1, %2; xor.b32 %0, r, %3; }")                                   \
    X(bits,                                                                                                    \
      "{ .reg .u32 r, s; popc.b32 r, %1; clz.b32 s, %2; shl.b32 r, r, 8; or.b32 r, r, s; brev.b32 s, %3; "     \
      "xor.b32 %0, r, s; }")                                                                                   \
    X(bfind,                                                                                                   \
      "{ .reg .u32 r, s; bfind.u32 r, %1; bfind.shiftamt.s32 s, %2; xor.b32 r, r, s; add.u32 %0, r, %3; }")    \
    X(fns, "fns.b32 %0, %1, 5, 3;\n\t// %2 %3")                                                                \
    X(szext, "{ .reg .s32 r; szext.clamp.s32 r, %1, %2; xor.b32 %0, r, %3; }")                                 \
    X(bmsk, "{ .reg .u32 r; bmsk.clamp.b32 r, %1, %2; xor.b32 %0, r, %3; }")                                   \
    X(fma_rn, "fma.rn.f32 %0, %1, %2, %3;")                                                                    \
    X(fma_rz, "fma.rz.f32 %0, %1, %2, %3;")                                                                    \
    X(fma_rm_ftz, "fma.rm.ftz.f32 %0, %1, %2, %3;")                                                            \
    X(fma_rp_sat, "fma.rp.sat.f32 %0, %1, %2, %3;")                                                            \
    X(fma_f16x2, "fma.rn.f16x2 %0, %1, %2, %3;")                                                               \
    X(fma_f16x2_relu, "fma.rn.relu.f16x2 %0, %1, %2, %3;")                                                     \
    X(fma_bf16x2, "fma.rn.bf16x2 %0, %1, %2, %3;")                                                             \
    X(mul_f16x2, "{ .reg .b32 r; mul.rn.f16x2 r, %1, %2; add.rn.f16x2 %0, r, %3; }")                           \
    X(min_f32, "{ .reg .f32 r; min.f32 r, %1, %2; max.NaN.f32 %0, r, %3; }")                                   \
    X(min_xorsign, "{ .reg .f32 r; min.xorsign.abs.f32 r, %1, %2; max.ftz.f32 %0, r, %3; }")                   \
    X(min_f16x2, "{ .reg .b32 r; min.NaN.f16x2 r, %1, %2; max.f16x2 %0, r, %3; }")                             \
    X(div_f32, "{ .reg .f32 r; div.rn.f32 r, %1, %2; sqrt.rn.f32 %0, r; }\n\t// %3")                           \
    X(cvt_f16x2, "{ .reg .b32 r; cvt.rn.f16x2.f32 r, %1, %2; xor.b32 %0, r, %3; }")                            \
    X(cvt_bf16x2, "{ .reg .b32 r; cvt.rz.bf16x2.f32 r, %1, %2; xor.b32 %0, r, %3; }")                          \
    X(cvt_tf32, "{ .reg .b32 r; cvt.rna.tf32.f32 r, %1; xor.b32 r, r, %2; xor.b32 %0, r, %3; }")               \
    X(cvt_e4m3x2, "{ .reg .b16 h; .reg .b32 r; cvt.rn.satfinite.e4m3x2.f32 h, %1, %2; cvt.u32.u16 r, h; "      \
                  "xor.b32 %0, r, %3; }")                                                                      \
    X(cvt_e5m2x2, "{ .reg .b16 h; .reg .b32 r; cvt.rn.satfinite.relu.e5m2x2.f32 h, %1, %2; cvt.u32.u16 r, h; " \
                  "xor.b32 %0, r, %3; }")                                                                      \
    X(from_e4m3x2,                                                                                             \
      "{ .reg .b16 h; .reg .b32 r; cvt.u16.u32 h, %1; cvt.rn.f16x2.e4m3x2 r, h; xor.b32 r, r, %2; "            \
      "xor.b32 %0, r, %3; }")                                                                                  \
    X(from_e5m2x2,                                                                                             \
      "{ .reg .b16 h; .reg .b32 r; cvt.u16.u32 h, %1; cvt.rn.f16x2.e5m2x2 r, h; xor.b32 r, r, %2; "            \
      "xor.b32 %0, r, %3; }")                                                                                  \
    X(cvt_s8_sat, "{ .reg .s32 r; cvt.sat.s8.s32 r, %1; xor.b32 r, r, %2; xor.b32 %0, r, %3; }")               \
    X(cvt_f32_s32, "{ .reg .f32 r; cvt.rm.f32.s32 r, %1; cvt.rpi.f32.f32 r, r; add.f32 %0, r, %2; }\n\t// %3") \
    X(cvt_s32_f32, "{ .reg .s32 r; cvt.rzi.s32.f32 r, %1; xor.b32 r, r, %2; xor.b32 %0, r, %3; }")             \
    X(cvt_u16_f32,                                                                                             \
      "{ .reg .u16 h; .reg .u32 r; cvt.rni.sat.u16.f32 h, %1; cvt.u32.u16 r, h; xor.b32 r, r, %2; "            \
      "xor.b32 %0, r, %3; }")                                                                                  \
    X(redux, "{ .reg .u32 r, s; redux.sync.add.u32 r, %1, 0xffffffff; redux.sync.min.s32 s, %2, 0xffffffff; "  \
             "xor.b32 r, r, s; redux.sync.xor.b32 s, %3, 0xffffffff; xor.b32 %0, r, s; }")                     \
    X(shfl_idx, "shfl.sync.idx.b32 %0, %1, %2, %3, 0xffffffff;")                                               \
    X(shfl_up, "shfl.sync.up.b32 %0, %1, %2, %3, 0xffffffff;")                                                 \
    X(shfl_down, "shfl.sync.down.b32 %0, %1, %2, %3, 0xffffffff;")                                             \
    X(shfl_bfly, "shfl.sync.bfly.b32 %0, %1, %2, %3, 0xffffffff;")                                             \
    X(match, "{ .reg .u32 r, s; and.b32 r, %1, 7; match.any.sync.b32 s, r, 0xffffffff; xor.b32 r, s, %2; "     \
             "xor.b32 %0, r, %3; }")                                                                           \
    X(vote, "{ .reg .pred p, q; .reg .u32 r; setp.lt.s32 p, %1, %2; vote.sync.ballot.b32 r, p, 0xffffffff; "   \
            "vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, %3, r, q; }")                                   \
    X(elect, "{ .reg .pred p; .reg .u32 r; elect.sync r|p, 0xffffffff; selp.u32 %0, %1, r, p; }\n\t// %2 %3")

#define DEFINE(name, text) WORDS(name##_kernel, text)
WORD_FEATURES(DEFINE)

static __global__ void atomics(struct buffers b) {
    uint32_t t = threadIdx.x, *at = b.out + t % 8;
    atomicAdd(at, b.in[t]);
    atomicXor(at + 16, b.in[t]);
    atomicMin((int *)at + 32, (int)b.in[t]);
    atomicMax(at + 48, b.in[t]);
    atomicInc(at + 64, 5);
    atomicDec(at + 80, 9);
    atomicAnd(at + 96, b.in[t]);
    atomicCAS(at + 112, 0u, 77u);
}

void scalars(void) {
#define RUN(name, text) feature("scalar." #name, name##_kernel, 1, 128, 1);
    WORD_FEATURES(RUN)
    feature("scalar.atomics", atomics, 1, 128, 1);
}
