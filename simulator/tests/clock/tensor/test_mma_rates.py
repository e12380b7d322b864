"""mma.sync and wmma at the published rate of each type: no chip computes more than its data sheet says."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from simulator.tests.sim_kit import ROOT, Sim

F4, D2 = "{%f1, %f2, %f3, %f4}", "{%fd1, %fd2}"
R1, R2, R4 = "{%r6}", "{%r6, %r7}", "{%r6, %r7, %r8, %r9}"
SCALES = "%r6, {0, 0}, %r7, {0, 0}"


HALVES = {"rtx5090": 209.5, "h200": 989, "b200": 2250}


class Product(NamedTuple):
    """An MMA, its multiply-adds, and the published TFLOPS of a dense product by chip."""

    name: str
    operands: str
    macs: int
    peaks: dict[str, float]


PRODUCTS = {
    "f16, f32 sums": Product(
        "m16n8k16.row.col.f32.f16.f16.f32", f"{F4}, {R4}, {R2}, {F4}", 2048, HALVES
    ),
    "bf16": Product(
        "m16n8k8.row.col.f32.bf16.bf16.f32", f"{F4}, {R2}, {R1}, {F4}", 1024, HALVES
    ),
    "f16, f16 sums": Product(
        "m16n8k16.row.col.f16.f16.f16.f16", f"{R2}, {R4}, {R2}, {R2}", 2048, {"rtx5090": 419, "h200": 989, "b200": 2250}
    ),
    "tf32": Product(
        "m16n8k8.row.col.f32.tf32.tf32.f32", f"{F4}, {R4}, {R2}, {F4}", 1024,
        {"rtx5090": 104.8, "h200": 494, "b200": 1125}
    ),
    "int8": Product(
        "m16n8k32.row.col.s32.s8.s8.s32", f"{R4}, {R4}, {R2}, {R4}", 4096, {"rtx5090": 838, "h200": 1979, "b200": 4500}
    ),
    "f8": Product(
        "m16n8k32.row.col.f32.e4m3.e4m3.f32", f"{F4}, {R4}, {R2}, {F4}", 4096, {"rtx5090": 419, "h200": 1979}
    ),
    "f8, f16 sums": Product("m16n8k32.row.col.f16.e4m3.e4m3.f16", f"{R2}, {R4}, {R2}, {R2}", 4096, {"rtx5090": 838}),
    "f6": Product(
        "m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m3.f32", f"{F4}, {R4}, {R2}, {F4}", 4096, {"rtx5090": 419}
    ),
    "mxf8": Product(
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0",
        f"{F4}, {R4}, {R2}, {F4}, {SCALES}", 4096, {"rtx5090": 838},
    ),
    "mxf4": Product(
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        f"{F4}, {R4}, {R2}, {F4}, {SCALES}", 8192, {"rtx5090": 1676},
    ),
    "f64": Product("m8n8k4.row.col.f64.f64.f64.f64", f"{D2}, {{%fd3}}, {{%fd4}}, {D2}", 256,
                   {"rtx5090": 1.64, "h200": 67, "b200": 37}),
}  # fmt: skip
TARGETS = {"rtx5090": "sm_120a", "h200": "sm_90a", "b200": "sm_100a"}
SAME = 1.02


def cycles(chip: str, instruction: str, count: int) -> float:
    """Cycles of an SM on which 16 warps execute an instruction `count` times each."""
    text = (
        f".version 8.8\n.target {TARGETS[chip]}\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<10>; "
        ".reg .f32 %f<5>; .reg .f64 %fd<5>;\n" + f"{instruction};\n" * count + "ret; }"
    )
    sim = Sim(text, chip=chip)
    assert sim.launch("k", block=16 * 32) == 0, sim.findings
    return sim.time.kernel_cycles


def tflops(chip: str, instruction: str, macs: int) -> float:
    """The rate of all SMs in the middle of a long row of products."""
    parameters = json.loads((ROOT / f"simulator/clock/chips/{chip}.json").read_text())["parameters"]
    more = cycles(chip, instruction, 60) - cycles(chip, instruction, 20)
    a_cycle = 40 * 16 * macs * 2 / more
    return a_cycle * parameters["sms"]["value"] * parameters["sm_clock_tensor"]["value"] / 1e3


@pytest.mark.parametrize(("kind", "chip"), [(kind, chip) for kind, p in PRODUCTS.items() for chip in p.peaks])
def test_no_type_exceeds_its_published_peak(kind, chip):
    product = PRODUCTS[kind]
    rate = tflops(chip, f"mma.sync.aligned.{product.name} {product.operands}", product.macs)
    assert rate <= SAME * product.peaks[chip]
    if chip == "rtx5090":  # whose rates are the published ones
        assert rate == pytest.approx(product.peaks[chip], rel=0.02)


def test_a_sparse_product_takes_the_time_of_its_dense_half():
    sparse = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
    rate = tflops("rtx5090", f"{sparse} {F4}, {R4}, {R4}, {F4}, %r6, 0", 2048)
    assert rate == pytest.approx(209.5, rel=0.02)


def test_wmma_takes_the_time_of_its_parts():
    eight = "{" + ", ".join(["%r6"] * 8) + "}"
    sums = "{" + ", ".join(["%f1"] * 8) + "}"
    wmma = f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {sums}, {eight}, {eight}, {sums}"
    assert tflops("rtx5090", wmma, 4096) == pytest.approx(209.5, rel=0.02)
    assert tflops("h200", wmma, 4096) <= SAME * 989
