"""One more instruction of each kind costs a warp exactly the chip's parameter for it."""

from __future__ import annotations

import pytest

from simulator.tests.clock.clock_kit import CHIP, more

BAR = ".shared .align 8 .b8 bar[16];"
INIT = "mbarrier.init.shared.b64 [bar], 1000;"
COSTS = {
    "membar.cta;": "fence_cta",
    "fence.acq_rel.cta;": "fence_cta",
    "fence.mbarrier_init.release.cluster;": "fence_mbarrier_init",
    "membar.gl;": "fence_gpu",
    "membar.sys;": "fence_gpu",
    "fence.sc.gpu;": "fence_gpu",
    "fence.acq_rel.gpu;": "fence_gpu",
    "fence.proxy.async;": "fence_async",
    "fence.proxy.async.global;": "fence_async",
    "fence.proxy.async.shared::cta;": "fence_async_shared",
    "setmaxnreg.inc.sync.aligned.u32 32;": "set_registers_latency",
    "mov.u64 %rd9, %clock64;": "clock_read_latency",
    "bar.warp.sync -1;": "warp_sync_latency",
    "popc.b32 %r9, %r9;": "special_latency",
    "sin.approx.f32 %f1, %f1;": "special_latency",
    "shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;": "shuffle_latency",
    "vote.sync.any.pred %p3, %p3, -1;": "vote_latency",
    "redux.sync.add.u32 %r9, %r9, -1;": "redux_latency",
    "shf.l.wrap.b32 %r9, %r9, %r9, 1;": "alu_latency",
    "fma.rn.f32 %f1, %f1, %f1, %f1;": "fma_latency",
    "mul.lo.u32 %r9, %r9, %r9;": "imad_latency",
    "nanosleep.u32 100;": "issue_interval",
}


@pytest.mark.parametrize("line", COSTS)
def test_one_more_costs_its_parameter(line):
    assert more(line, (10, 40), registers=BAR, block=32) == CHIP[COSTS[line]]


def test_one_more_arrival_costs_its_parameter():
    cost = more("mbarrier.arrive.shared.b64 _, [bar];", (10, 40), before=INIT, registers=BAR, block=1)
    assert cost == CHIP["mbarrier_arrive_interval"]
