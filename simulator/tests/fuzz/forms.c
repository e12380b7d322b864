#include "forms.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The code around a form's instruction.  In an instruction, # stands for a list of coordinates, accumulators or
 * registers of length `list`. */
enum frame {
    PLAIN,
    COPY,     /* one thread, which expects %r18 bytes and waits for the mbarrier */
    STORE,    /* one thread, which waits for its bulk group */
    WGMMA,    /* one group, with a wait */
    TCGEN05,  /* between alloc and dealloc, one thread; commits and waits */
    TMEM,     /* between alloc and dealloc, all threads */
    REPLACE,  /* on a copy of the map, followed by a tensor copy with it */
    COPY_100, /* COPY and STORE in forms that need sm_100 */
    STORE_100,
};

struct form {
    enum frame frame;
    int list; /* length of #; negative: floats */
    const char *text;
};

#define TENSOR_COPIES(d)                                                                                       \
    {COPY, d,                                                                                                  \
     "cp.async.bulk.tensor." #d                                                                                \
     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd2, {#}], [%r3];"},                 \
        {COPY, d,                                                                                              \
         "add.u32 %r2, %r2, %r19; cp.async.bulk.tensor." #d                                                    \
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd2, {#}], [%r3];"},             \
        {STORE, d, "cp.async.bulk.tensor." #d "d.global.shared::cta.tile.bulk_group [%rd2, {#}], [%r2];"},     \
        {STORE, d,                                                                                             \
         "cp.reduce.async.bulk.tensor." #d "d.global.shared::cta.add.tile.bulk_group [%rd2, {#}], [%r2];"}
#define WGMMAS(n, half)                                                                                        \
    {WGMMA, -half,                                                                                             \
     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {#}, %rd10, %rd11, %p2, 1, 1, 0, 0;"},            \
        {WGMMA, -half,                                                                                         \
         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {#}, %rd10, %rd11, %p2, 1, 1, 1, 1;"},        \
        {WGMMA, -half,                                                                                         \
         "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {#}, %rd10, %rd11, %p2, 1, 1;"},             \
        {WGMMA, -half,                                                                                         \
         "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {#}, %rd10, %rd11, %p2, 1, 1;"},            \
        {WGMMA, -half,                                                                                         \
         "wgmma.mma_async.sync.aligned.m64n" #n                                                                \
         "k16.f32.bf16.bf16 {#}, {%r10, %r11, %r12, %r13}, %rd11, %p2, -1, 1, 1;"}
#define MMAS(kind)                                                                                             \
    {TCGEN05, 0, "tcgen05.mma.cta_group::1.kind::" kind " [%r40], %rd10, %rd11, %r10, %p2;"},                  \
        {TCGEN05, 0, "tcgen05.mma.cta_group::1.kind::" kind " [%r11], [%r12], %rd11, %r10, %p2;"},             \
        {TCGEN05, 0,                                                                                           \
         "add.u32 %r41, %r40, 256; tcgen05.mma.cta_group::1.kind::" kind " [%r40], [%r41], %rd11, %r10, %p2;"}
#define SCALED(kind)                                                                                           \
    {TCGEN05, 0,                                                                                               \
     "add.u32 %r41, %r40, 256; add.u32 %r42, %r40, 300; tcgen05.mma.cta_group::1.kind::" kind                  \
     " [%r40], %rd10, %rd11, %r10, [%r41], [%r42], %p2;"},                                                     \
        {TCGEN05, 0,                                                                                           \
         "tcgen05.mma.cta_group::1.kind::" kind " [%r11], %rd10, %rd11, %r10, [%r12], [%r13], %p2;"}
#define COPIES_IN(shape)                                                                                       \
    {TCGEN05, 0, "tcgen05.cp.cta_group::1." shape " [%r40], %rd10;"},                                          \
        {TCGEN05, 0, "tcgen05.cp.cta_group::1." shape " [%r11], %rd10;"}
#define TMEM_MOVES(shape, n)                                                                                   \
    {TMEM, n, "tcgen05.ld.sync.aligned." shape ".b32 {#}, [%r11]; tcgen05.wait::ld.sync.aligned;"},            \
        {TMEM, n, "tcgen05.st.sync.aligned." shape ".b32 [%r11], {#}; tcgen05.wait::st.sync.aligned;"},        \
        {TMEM, n,                                                                                              \
         "add.u32 %r41, %r40, %r11; tcgen05.ld.sync.aligned." shape                                            \
         ".b32 {#}, [%r41]; tcgen05.wait::ld.sync.aligned;"}
#define FIELD(field, type, value)                                                                              \
    "tensormap.replace.tile." field ".shared::cta.b1024." type " [%r4], " value ";"

static const struct form forms[] = {
    TENSOR_COPIES(1),
    TENSOR_COPIES(2),
    TENSOR_COPIES(3),
    TENSOR_COPIES(4),
    TENSOR_COPIES(5),
    {COPY, 0,
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd10], %r11, [%r3];"},
    {COPY, 0,
     "add.u32 %r2, %r2, %r10; add.u64 %rd1, %rd1, %rd10; "
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], %r11, [%r3];"},
    {STORE, 0,
     "add.u32 %r2, %r2, %r10; add.u64 %rd1, %rd1, %rd10; cp.async.bulk.global.shared::cta.bulk_group [%rd1], "
     "[%r2], %r11;"},
    {PLAIN, 0, "ld.b64 %rd30, [%rd10];"},
    {PLAIN, 0, "st.b32 [%rd11], %r10;"},
    {PLAIN, 0, "ld.shared.v4.b32 {%r11, %r12, %r13, %r14}, [%r15];"},
    {PLAIN, 0, "st.shared::cluster.b32 [%r16], %r11;"},
    {PLAIN, 0, "atom.shared.add.u32 %r17, [%r18], %r19;"},
    {PLAIN, 0, "ld.local.b32 %r17, [%r18];"},
    {PLAIN, 0, "st.local.v4.b32 [%r18], {%r10, %r11, %r12, %r13};"},
    {PLAIN, 0, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r18];"},
    {PLAIN, 0, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r18], {%r10, %r11, %r12, %r13};"},
    {PLAIN, 0, "mapa.shared::cluster.u32 %r30, %r10, %r11; ld.shared::cluster.u32 %r31, [%r30];"},
    {PLAIN, 0, "ld.param.b32 %r30, [map+124];"},
    {PLAIN, 0, "atom.global.cas.b64 %rd30, [%rd12], %rd13, %rd14;"},
    {PLAIN, 0,
     "{ .reg .b128 %q; mov.b128 %q, {%rd10, %rd11}; atom.global.cas.b128 %q, [%rd12], %q, %q; "
     "atom.shared.exch.b128 _, [%r10], %q; st.volatile.b128 [%rd13], %q; }"},
    {PLAIN, 0, "red.global.add.f32 [%rd12], %f1;"},
    {PLAIN, 0, "shfl.sync.idx.b32 %r30, %r10, %r11, %r12, %r13;"},
    {PLAIN, 0, "bar.sync %r10, %r11;"},
    {PLAIN, 0, "bar.arrive %r10, %r11;"},
    {PLAIN, 0, "bar.warp.sync %r10;"},
    {PLAIN, 0, "mbarrier.init.shared::cta.b64 [%r10], %r11;"},
    {PLAIN, 0, "mbarrier.inval.shared::cta.b64 [%r10];"},
    {PLAIN, 0, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r11;"},
    {PLAIN, 0, "mbarrier.arrive.shared::cta.b64 _, [%r3], %r11;"},
    {PLAIN, 0, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10], %r11;"},
    {PLAIN, 0, "prmt.b32 %r30, %r10, %r11, %r12;"},
    {PLAIN, 0, "bfi.b32 %r30, %r10, %r11, %r12, %r13;"},
    {PLAIN, 0, "bfe.s32 %r30, %r10, %r11, %r12;"},
    {PLAIN, 0, "shf.l.clamp.b32 %r30, %r10, %r11, %r12;"},
    {PLAIN, 0, "div.s32 %r30, %r10, %r11; rem.s64 %rd30, %rd10, %rd11; div.u64 %rd31, %rd10, %rd12;"},
    {PLAIN, 0, "shl.b64 %rd30, %rd10, %r10; shr.s64 %rd31, %rd10, %r11;"},
    {PLAIN, 0,
     "mov.b32 %f1, %r10; cvt.rzi.s64.f32 %rd30, %f1; cvt.rni.u32.f32 %r31, %f1; cvt.rn.f16.f32 %rs1, %f1;"},
    {PLAIN, 0, "cp.async.cg.shared.global [%r10], [%rd10], 16, %r11; cp.async.wait_all;"},
    {PLAIN, 0, "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r10], %r11, [%r12];"},
    {PLAIN, 0, "nanosleep.u32 %r10;"},
    {PLAIN, 0, "match.any.sync.b32 %r30, %r10, %r11;"},
    {PLAIN, 0, "redux.sync.add.u32 %r30, %r10, %r11;"},
    {PLAIN, 0, "vote.sync.ballot.b32 %r30, %p1, %r11;"},
    {PLAIN, 0, "elect.sync %r30|%p4, %r11;"},
    {PLAIN, 0, "fns.b32 %r30, %r10, %r11, %r12;"},
    {PLAIN, 0,
     "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, "
     "{%r10, %r11, "
     "%r12, %r13}, {%f1, %f2, %f3, %f4}, %r14, 1;"},
    {WGMMA, -4,
     "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {#}, %rd10, %rd11, %r12, 0, %p2, 1, 1, 1, 1;"},
    {WGMMA, -128,
     "wgmma.mma_async.sp.sync.aligned.m64n256k64.f32.e4m3.e4m3 {#}, %rd10, %rd11, 0x44444444, 0, %p2, 1, 1;"},
    {TCGEN05, 0,
     "add.u32 %r41, %r40, 256; tcgen05.mma.sp.cta_group::1.kind::f16 [%r40], %rd10, %rd11, [%r41], %r10, %p2;"},
    {TCGEN05, 0, "tcgen05.mma.sp.cta_group::1.kind::f8f6f4 [%r40], [%r11], %rd11, [%r12], %r10, %p2;"},
    {TCGEN05, 0,
     "add.u32 %r41, %r40, 256; tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r40], "
     "%rd10, %rd11, "
     "[%r41], %r10, [%r41], [%r41], %p2;"},
    WGMMAS(8, 4),
    WGMMAS(64, 32),
    WGMMAS(256, 128),
    MMAS("f16"),
    MMAS("tf32"),
    MMAS("f8f6f4"),
    MMAS("i8"),
    SCALED("mxf8f6f4.block_scale.scale_vec::1X"),
    SCALED("mxf4.block_scale.scale_vec::2X"),
    SCALED("mxf4nvf4.block_scale.scale_vec::2X"),
    SCALED("mxf4nvf4.block_scale.scale_vec::4X"),
    COPIES_IN("32x128b.warpx4"),
    COPIES_IN("64x128b.warpx2::02_13"),
    COPIES_IN("128x256b"),
    COPIES_IN("4x256b"),
    COPIES_IN("128x128b"),
    TMEM_MOVES("32x32b.x1", 1),
    TMEM_MOVES("32x32b.x16", 16),
    TMEM_MOVES("16x64b.x4", 4),
    TMEM_MOVES("16x128b.x2", 4),
    TMEM_MOVES("16x256b.x1", 4),
    {TMEM, 0, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], %r10;"},
    {TMEM, 0, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, %r12;"},
    {TCGEN05, 0, "tcgen05.shift.cta_group::1.down [%r11];"},
    {REPLACE, 0, FIELD("global_address", "b64", "%rd10")},
    {REPLACE, 0, FIELD("rank", "b32", "1")},
    {REPLACE, 0, FIELD("box_dim", "b32", "0, %r11")},
    {REPLACE, 0, FIELD("box_dim", "b32", "1, %r12")},
    {REPLACE, 0, FIELD("global_dim", "b32", "0, %r13")},
    {REPLACE, 0, FIELD("global_dim", "b32", "1, %r14")},
    {REPLACE, 0, FIELD("global_stride", "b64", "0, %rd11")},
    {REPLACE, 0, FIELD("element_stride", "b32", "0, %r15")},
    {REPLACE, 0, FIELD("elemtype", "b32", "13")},
    {REPLACE, 0, FIELD("swizzle_mode", "b32", "3")},
    {REPLACE, 0, FIELD("fill_mode", "b32", "1")},
    {REPLACE, 0,
     FIELD("box_dim", "b32", "0, %r11") FIELD("box_dim", "b32", "1, %r12") FIELD("global_dim", "b32", "0, %r13")
         FIELD("element_stride", "b32", "1, %r16") FIELD("elemtype", "b32", "8")},
    {COPY_100, 5,
     "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r2], [%rd2, "
     "{#}], [%r3];"},
    {COPY_100, 3,
     "cvt.u16.u32 %rs1, %r19; "
     "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
     "[%r2], [%rd2, {#}], [%r3], {%rs1};"},
    {COPY_100, 5,
     "cvt.u16.u32 %rs1, %r19; "
     "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
     "[%r2], [%rd2, {#}], [%r3], {%rs1, %rs1, 1};"},
    {COPY_100, 4,
     "cvt.u16.u32 %rs1, %r19; "
     "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes "
     "[%r2], [%rd2, {#}], [%r3], {%rs1, 1};"},
    {STORE_100, 5, "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {#}], [%r2];"},
    {STORE_100, 5,
     "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile::scatter4.bulk_group [%rd2, {#}], [%r2];"},
    {STORE_100, 3, "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {#}], [%r2];"},
    {STORE_100, 0,
     "cvt.u16.u32 %rs1, %r10; cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd10], [%r11], %r12, "
     "%rs1;"},
};

size_t form_count(void) {
    return sizeof forms / sizeof *forms;
}

struct writer {
    char *to;
    size_t room, used;
};

static void say(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(writer->to + writer->used, writer->room - writer->used, format, arguments);
    va_end(arguments);
    writer->used += wrote < 0 ? 0 : (size_t)wrote;
    if (writer->used >= writer->room) {
        abort();
    }
}

static void say_form(struct writer *writer, const struct form *form) {
    for (const char *at = form->text; *at != '\0'; at++) {
        if (*at != '#') {
            say(writer, "%c", *at);
            continue;
        }
        for (int i = 0; i < abs(form->list); i++) {
            int first = form->list < 0 || form->frame == TMEM ? 50 : 10;
            say(writer, "%s%s%d", i == 0 ? "" : ", ", form->list < 0 ? "%f" : "%r", first + i);
        }
    }
    say(writer, "\n");
}

void form_write(char *to, size_t room, size_t which) {
    static const char wait[] = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra TRY;\n";
    static const char alloc[] =
        "setp.lt.u32 %p5, %r1, 32; @!%p5 bra ALLOCATED;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 512; ALLOCATED: bar.sync 0;\n"
        "ld.shared.b32 %r40, [%r4];\n";
    static const char dealloc[] = "bar.sync 0; @!%p5 bra OUT;\n"
                                  "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r40, 512; OUT:\n";
    static const char copy_map[] =
        "shl.b32 %r5, %r1, 2; cvt.u64.u32 %rd5, %r5; add.u64 %rd6, %rd2, %rd5; setp.ge.u32 %p6, %r1, 32;\n"
        "@%p6 bra COPIED; ld.u32 %r6, [%rd6]; add.u32 %r7, %r4, %r5; st.shared.u32 [%r7], %r6; COPIED: "
        "bar.sync 0;\n"
        "@%p1 bra DONE;\n";
    static const char use_map[] =
        "DONE: bar.sync 0; @%p6 bra OUT; add.u64 %rd7, %rd1, 1024;\n"
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd7], [%r4], "
        "128;\n"
        "@%p1 bra OUT; fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r18;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r2], [%rd7, {%r20, %r21}], [%r3]; OUT:\n";
    const struct form *form = &forms[which % form_count()];
    struct writer writer = {to, room, 0};
    bool copies = form->frame == COPY || form->frame == COPY_100;
    bool blackwell = form->frame == TCGEN05 || form->frame == TMEM || form->frame >= COPY_100;
    say(&writer,
        ".version 8.8\n.target sm_%s\n.address_size 64\n"
        ".visible .entry k(.param .u64 data, .param .align 64 .b8 map[128])\n{\n"
        ".reg .pred %%p<16>; .reg .b16 %%rs<32>; .reg .b32 %%r<80>; .reg .b64 %%rd<64>; .reg .f32 %%f<260>;\n"
        ".shared .align 1024 .b8 tile[16384]; .shared .align 8 .b8 bar[16]; .shared .align 128 .b8 room[128];\n"
        "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, tile; mov.u32 %%r3, bar; mov.u32 %%r4, room;\n"
        "ld.param.u64 %%rd1, [data]; cvta.to.global.u64 %%rd1, %%rd1; mov.b64 %%rd2, map; cvta.param.u64 "
        "%%rd2, "
        "%%rd2;\n",
        blackwell ? "100a" : "90a");
    for (int i = 0; i < FORM_OPERANDS; i++) {
        say(&writer, "ld.global.b32 %%r%d, [%%rd1+%d]; ld.global.b64 %%rd%d, [%%rd1+%d];\n", 10 + i, 4 * i,
            10 + i, 64 + 8 * i);
    }
    say(&writer, "setp.ne.u32 %%p1, %%r1, 0; setp.eq.u32 %%p2, 0, 0; @%%p1 bra READY;\n"
                 "mbarrier.init.shared::cta.b64 [%%r3], 1; fence.mbarrier_init.release.cluster;\n"
                 "READY: bar.warp.sync -1;\n");
    static const char *const before[] = {
        [PLAIN] = "",
        [COPY] = "@%p1 bra DONE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r18;\n",
        [COPY_100] = "@%p1 bra DONE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r18;\n",
        [STORE] = "@%p1 bra DONE;\n",
        [STORE_100] = "@%p1 bra DONE;\n",
        [WGMMA] = "wgmma.fence.sync.aligned;\n",
        [TCGEN05] = alloc,
        [TMEM] = alloc,
        [REPLACE] = copy_map,
    };
    static const char *const after[] = {
        [PLAIN] = "",
        [COPY] = "DONE:\n",
        [COPY_100] = "DONE:\n",
        [STORE] = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:\n",
        [STORE_100] = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:\n",
        [WGMMA] = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n",
        [TCGEN05] = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3]; DONE:\n",
        [TMEM] = dealloc,
        [REPLACE] = use_map,
    };
    say(&writer, "%s%s", before[form->frame], form->frame == TCGEN05 ? "@%p1 bra DONE;\n" : "");
    say_form(&writer, form);
    say(&writer, "%s%s%s", after[form->frame], copies || form->frame == TCGEN05 ? wait : "",
        form->frame == TCGEN05 ? dealloc : "");
    say(&writer, "ret;\n}\n");
}
