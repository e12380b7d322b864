"""A small warp-specialised NVFP4 kernel in PTX. Its lines have names, so that tests can leave them out.

Warp 0 copies ready-made shared-memory images of A, B and both scales in chunks of K = 256 through a ring of two
stages, warp 1 copies the scales into tensor memory and issues the MMAs, warps 4 to 7 read the accumulator.  A line
that ends in `//@name` can be dropped or replaced by a test.  With pair=True a cluster of two CTAs works on M = 256.
"""

from __future__ import annotations

import re

from simulator.python.tensorcore import matrix_descriptor, scaled

STAGES, STEPS = 2, 4  # stages of the ring; MMAs of K = 64 in a chunk


def wait(name: str, bar: str, parity: str) -> str:
    return f"""
{name}_W:
  mbarrier.try_wait.parity.shared::cta.b64 %pw, [{bar}], {parity};  //@{name}
  @!%pw bra {name}_W;  //@{name}
"""


def kernel(n: int = 128, chunks: int = 3, shared_scales: bool = False, pair: bool = False) -> str:
    """shared_scales: both stages use the same scale columns, as CUTLASS does."""
    group = 2 if pair else 1
    cg = f"cta_group::{group}"
    rows_b = n // group
    a_bytes, b_bytes, sfa_bytes, sfb_bytes = 128 * 128, rows_b * 128, STEPS * 512, STEPS * 512 * -(-n // 128)
    stage_bytes = a_bytes + b_bytes + sfa_bytes + sfb_bytes
    sf_columns = 4 * (1 + -(-n // 128))
    columns = 512 if n + STAGES * STEPS * sf_columns > 256 else 256
    low = (1 << 46) - 1
    tile = matrix_descriptor(0, 16, 1024, "128B") & ~low | 1 << 16 | 64 << 32
    flat = matrix_descriptor(0, 16, 128) & ~low | 1 << 16 | 8 << 32
    idesc = scaled(128 * group, n)
    copies, steps = [], []
    for k in range(STEPS):
        base = k * sf_columns
        copies.append(f"""
  add.u64 %d0, %sfad, {k * 512 >> 4};
  add.u32 %t0, %sfcol, {base};
  tcgen05.cp.{cg}.32x128b.warpx4 [%t0], %d0;  //@cp_sfa""")
        for tile_n in range(-(-n // 128)):
            copies.append(f"""
  add.u64 %d0, %sfbd, {(tile_n * STEPS + k) * 512 >> 4};
  add.u32 %t0, %sfcol, {base + 4 + 4 * tile_n};
  tcgen05.cp.{cg}.32x128b.warpx4 [%t0], %d0;  //@cp_sfb""")
        steps.append(f"""
  add.u64 %d0, %ad, {k * 2};
  add.u64 %d1, %bd, {k * 2};
  add.u32 %t0, %sfcol, {base};
  add.u32 %t1, %sfcol, {base + 4};
  tcgen05.mma.{cg}.kind::mxf4nvf4.block_scale.block16 [%tm], %d0, %d1, {idesc}, [%t0], [%t1], %acc;  //@mma
  setp.eq.u32 %acc, 0, 0;""")
    multicast = ".multicast::cluster" if pair else ""
    cta_mask = ", %ctas" if pair else ""
    leader = "setp.ne.u32 %p1, %rank, 0;\n  @%p1 bra END;" if pair else ""
    # In a pair each CTA expects and copies its own bytes. The leader's barrier counts two arrivals, so the leader waits
    # for its peer's stage too.
    full_count = group
    remote = (
        """
  mapa.shared::cluster.u32 %r9, %fb, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];  //@arrive_leader"""
        if pair
        else ""
    )
    copy = "\n".join(
        f"  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%{to}], [%{what}p], {size}, [%lb];"
        f"  //@copy_{what}\n  add.u64 %{what}p, %{what}p, {size};"
        for to, what, size in (
            ("sa", "a", a_bytes),
            ("sb", "b", b_bytes),
            ("ssa", "sfa", sfa_bytes),
            ("ssb", "sfb", sfb_bytes),
        )
    )
    relay = (
        f"""
  // The peer's bytes land in its own stage; its producer arrives at the leader's barrier when they are there.
{wait("peer_completed", "%lb", "%par")}
  tcgen05.fence::before_thread_sync;
{remote}"""
        if pair
        else ""
    )
    sync, peer_runs = "bar.sync 0;", ""
    if pair:
        peer_runs = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;  //@peer_runs"
        sync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    return f""".version 8.8
.target sm_100a
.address_size 64
.shared .align 1024 .b8 ring[{STAGES * stage_bytes}];
.shared .align 8 .b64 full[{STAGES}];
.shared .align 8 .b64 completed[{STAGES}];
.shared .align 8 .b64 empty[{STAGES}];
.shared .align 8 .b64 done;
.shared .align 4 .b32 slot;
.visible .entry gemm(.param .u64 pa, .param .u64 pb, .param .u64 psfa, .param .u64 psfb, .param .u64 pd)
.reqntid 256
{".reqnctapercluster 2" if pair else ""}
{{
  .reg .pred %pw, %p0, %p1, %acc;
  .reg .b32 %tx, %warp, %lane, %rank, %tm, %i, %st, %par, %sa, %sb, %ssa, %ssb, %fb, %lb, %eb, %t0, %t1, %sfcol;
  .reg .b32 %r<12>, %v<32>;
  .reg .b16 %ctas;
  .reg .b64 %ap, %bp, %sfap, %sfbp, %dp, %d0, %d1, %ad, %bd, %sfad, %sfbd, %q0;
  mov.u32 %tx, %tid.x;
  shr.u32 %warp, %tx, 5;
  and.b32 %lane, %tx, 31;
  mov.u32 %rank, %cluster_ctarank;
  mov.b16 %ctas, 3;
  setp.ne.u32 %p0, %tx, 0;
  @%p0 bra INITED;
  mbarrier.init.shared::cta.b64 [full], {full_count};
  mbarrier.init.shared::cta.b64 [full+8], {full_count};
  mbarrier.init.shared::cta.b64 [completed], 1;
  mbarrier.init.shared::cta.b64 [completed+8], 1;
  mbarrier.init.shared::cta.b64 [empty], 1;
  mbarrier.init.shared::cta.b64 [empty+8], 1;
  mbarrier.init.shared::cta.b64 [done], 1;
  fence.mbarrier_init.release.cluster;  //@init_fence
INITED:
  {peer_runs}
  setp.ne.u32 %p0, %warp, 1;
  @%p0 bra ALLOCATED;
  tcgen05.alloc.{cg}.sync.aligned.shared::cta.b32 [slot], {columns};  //@alloc
  tcgen05.relinquish_alloc_permit.{cg}.sync.aligned;
ALLOCATED:
  tcgen05.fence::before_thread_sync;
  {sync}  //@first_sync
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %tm, [slot];
  setp.eq.u32 %p0, %warp, 0;
  @%p0 bra PRODUCER;
  setp.eq.u32 %p0, %warp, 1;
  @%p0 bra ISSUER;
  setp.ge.u32 %p0, %warp, 4;
  @%p0 bra EPILOGUE;
  bra END;

PRODUCER:
  setp.ne.u32 %p0, %lane, 0;
  @%p0 bra END;
  ld.param.u64 %ap, [pa];
  ld.param.u64 %bp, [pb];
  ld.param.u64 %sfap, [psfa];
  ld.param.u64 %sfbp, [psfb];
  mul.wide.u32 %d0, %rank, {chunks * a_bytes};
  add.u64 %ap, %ap, %d0;
  mul.wide.u32 %d0, %rank, {chunks * b_bytes};
  add.u64 %bp, %bp, %d0;
  mul.wide.u32 %d0, %rank, {chunks * sfa_bytes};
  add.u64 %sfap, %sfap, %d0;
  mov.u32 %i, 0;
PRODUCE:
  and.b32 %st, %i, {STAGES - 1};
  shr.u32 %par, %i, 1;
  and.b32 %par, %par, 1;
  xor.b32 %r1, %par, 1;
  mov.u32 %r0, empty;
  mad.lo.u32 %eb, %st, 8, %r0;
  mov.u32 %r0, full;
  mad.lo.u32 %fb, %st, 8, %r0;
  mov.u32 %r0, {"completed" if pair else "full"};
  mad.lo.u32 %lb, %st, 8, %r0;
{wait("producer_empty", "%eb", "%r1")}
  mov.u32 %r0, ring;
  mad.lo.u32 %sa, %st, {stage_bytes}, %r0;
  add.u32 %sb, %sa, {a_bytes};
  add.u32 %ssa, %sb, {b_bytes};
  add.u32 %ssb, %ssa, {sfa_bytes};
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%lb], {stage_bytes};  //@expect
{copy}
{relay}
  add.u32 %i, %i, 1;
  setp.lt.u32 %p0, %i, {chunks};
  @%p0 bra PRODUCE;
  bra END;

ISSUER:
  setp.ne.u32 %p0, %lane, 0;
  @%p0 bra END;
  {leader}
  setp.ne.u32 %acc, 0, 0;
  mov.u32 %i, 0;
ISSUE:
  and.b32 %st, %i, {STAGES - 1};
  shr.u32 %par, %i, 1;
  and.b32 %par, %par, 1;
  mov.u32 %r0, full;
  mad.lo.u32 %fb, %st, 8, %r0;
  mov.u32 %r0, empty;
  mad.lo.u32 %eb, %st, 8, %r0;
{wait("issuer_full", "%fb", "%par")}
  tcgen05.fence::after_thread_sync;  //@issuer_fence
  mov.u32 %r0, ring;
  mad.lo.u32 %sa, %st, {stage_bytes}, %r0;
  shr.u32 %sa, %sa, 4;
  cvt.u64.u32 %q0, %sa;
  or.b64 %ad, %q0, {tile};
  add.u64 %bd, %ad, {a_bytes >> 4};
  add.u64 %q0, %q0, {a_bytes + b_bytes >> 4};
  or.b64 %sfad, %q0, {flat};
  add.u64 %sfbd, %sfad, {sfa_bytes >> 4};
  mad.lo.u32 %sfcol, %st, {0 if shared_scales else STEPS * sf_columns}, %tm;
  add.u32 %sfcol, %sfcol, {n};
{"".join(copies)}
{"".join(steps)}
  tcgen05.commit.{cg}.mbarrier::arrive::one.shared::cluster{multicast}.b64 [%eb]{cta_mask};  //@commit_empty
  add.u32 %i, %i, 1;
  setp.lt.u32 %p0, %i, {chunks};
  @%p0 bra ISSUE;
  mov.u32 %r0, done;
  tcgen05.commit.{cg}.mbarrier::arrive::one.shared::cluster{multicast}.b64 [%r0]{cta_mask};  //@commit_done
  bra END;

EPILOGUE:
  mov.u32 %r0, done;
{wait("epilogue_done", "%r0", "0")}
  tcgen05.fence::after_thread_sync;  //@epilogue_fence
  ld.param.u64 %dp, [pd];
  and.b32 %r1, %warp, 3;
  shl.b32 %r2, %r1, 21;
  add.u32 %r3, %tm, %r2;
  mad.lo.u32 %r4, %r1, 32, %lane;
  mad.lo.u32 %r4, %rank, 128, %r4;
  mul.wide.u32 %d0, %r4, {n * 4};
  add.u64 %dp, %dp, %d0;
  mov.u32 %i, 0;
READ:
  add.u32 %r5, %r3, %i;
  tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{", ".join(f"%v{i}" for i in range(32))}}}, [%r5];  //@ld
  tcgen05.wait::ld.sync.aligned;  //@wait_ld
{chr(10).join(f"  st.global.b32 [%dp+{4 * i}], %v{i};" for i in range(32))}
  add.u64 %dp, %dp, 128;
  add.u32 %i, %i, 32;
  setp.lt.u32 %p0, %i, {n};
  @%p0 bra READ;
  tcgen05.fence::before_thread_sync;  //@before_end

END:
  bar.warp.sync 0xffffffff;
  {sync}  //@last_sync
  tcgen05.fence::after_thread_sync;
  setp.ne.u32 %p0, %warp, 1;
  @%p0 bra OUT;
  tcgen05.dealloc.{cg}.sync.aligned.b32 %tm, {columns};  //@dealloc
OUT:
  ret;
}}
"""


def mutate(text: str, name: str, replacement: str = "") -> str:
    """Replaces every line marked with the name."""
    pattern = rf"^.*//@{name}$"
    assert re.search(pattern, text, re.M), name
    return re.sub(pattern, lambda _: replacement, text, flags=re.M)
