"""The chip: work, floors, names, memory and clocks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest
import torch

from eval.hardware import chip
from reference.problems.dual_gemm import PROBLEM, DualGemm

CPU = torch.device("cpu")
SHAPE, BATCHES = DualGemm(256, 4096, 7168, 1), DualGemm(64, 128, 256, 3)
H100, H200, B200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200"


def test_work_by_hand():
    # 2 operations a product, of two matrices; A, B1, B2 at 4 bits and a byte for 16, C at 16 bits.
    assert chip.work(DualGemm(2, 3, 64, 1)) == (4 * 2 * 3 * 64, 2 * 36 + 2 * 3 * 36 + 2 * 2 * 3)
    assert chip.work(BATCHES) == (3 * 4 * 64 * 128 * 256, 3 * ((64 + 256) * (128 + 16) + 2 * 64 * 128))


THIN = DualGemm(1, 100_000, 64, 1)  # bound by memory
THIN_BYTES = (1 + 200_000) * 36 + 200_000
FLOPS = 4 * 256 * 4096 * 7168


@pytest.mark.parametrize(
    ("name", "flops", "bandwidth"), [(B200, 10e15, 8.0e12), (H200, 989.5e12, 4.8e12), (H100, 989.5e12, 3.35e12)]
)
def test_floors_by_hand(name, flops, bandwidth):
    assert chip.speed_of_light(THIN, name).us == pytest.approx(THIN_BYTES / bandwidth * 1e6)
    large = DualGemm(4096, 4096, 16384, 2)
    assert chip.speed_of_light(large, name).us == pytest.approx(8 * 4096 * 4096 * 16384 / flops * 1e6)
    assert name.split()[1] in chip.speed_of_light(THIN, name).basis


def test_published_figures_are_the_b200s_alone():
    assert chip.speed_of_light(SHAPE, B200) == (4.708, "published with the task")
    assert PROBLEM.published_us == {
        "B200": {
            (256, 4096, 7168, 1): 4.708,
            (512, 4096, 7168, 1): 8.714,
            (256, 3072, 4096, 1): 2.125,
            (512, 3072, 7168, 1): 6.535,
        }
    }
    assert chip.speed_of_light(SHAPE, H200).us == pytest.approx(FLOPS / 989.5e12 * 1e6)
    assert chip.speed_of_light(DualGemm(256, 4096, 7168, 2), B200).basis != "published with the task"


def made_of(sms, major, minor, clock_khz, bits=0, memory_khz=0):
    """A GPU's attributes by their numbers in enum cudaDeviceAttr."""
    return {13: clock_khz, 16: sms, 36: memory_khz, 37: bits, 75: major, 76: minor}.__getitem__


@pytest.mark.parametrize(
    ("name", "device", "flops", "bandwidth"),
    [
        # Datasheet: 989.5 TFLOP/s of fp16 at 1830 MHz, 4.8 TB/s; the driver's clock is 1980 MHz.
        (H200, made_of(132, 9, 0, 1830_000, 6144, 3_201_000), 989.5e12, 4.9e12),
        (H100, made_of(132, 9, 0, 1830_000, 5120, 2_619_000), 989.5e12, 3.35e12),
        (B200, made_of(148, 10, 0, 1965_000, 8192, 3_996_000), 9.5e15, 8.18e12),
        ("NVIDIA A100-SXM4-80GB", made_of(108, 8, 0, 1410_000, 5120, 1_593_000), 624e12, 2.04e12),
        ("NVIDIA GeForce RTX 4090", made_of(128, 8, 9, 2520_000, 384, 10_501_000), 660.6e12, 1.008e12),
        ("NVIDIA GeForce RTX 5090", made_of(170, 12, 0, 2407_000, 512, 14_001_000), 1676e12, 1.79e12),
    ],
)
def test_what_a_gpu_can_do_follows_from_what_it_is_made_of(name, device, flops, bandwidth):
    found = chip.gpu_attributes(name, device)
    assert found.name == name
    assert 2 * found.multiply_adds_per_second == pytest.approx(flops, rel=0.01)
    assert found.bytes_per_second == pytest.approx(bandwidth, rel=0.01)


def test_no_chip_has_a_floor_of_zero():
    for known in ((0, 0, 0, 0), (16, 6, 1, 1_500_000), (200, 13, 0, 2_000_000), (40, 7, 9, 0)):
        sms, major, minor, clock = known
        found = chip.gpu_attributes("some GPU", made_of(sms, major, minor, clock))
        assert found.multiply_adds_per_second >= 512 * 1.5e9, known
        assert chip.impossible_us(DualGemm(1, 1, 64, 1), found) > 0
    assert chip.sm_multiply_adds((99, 0)) > max(chip.SM_MULTIPLY_ADDS.values()), "what is new may be faster"
    assert chip.sm_multiply_adds((8, 8)) > max(chip.SM_MULTIPLY_ADDS.values())
    assert chip.sm_multiply_adds((6, 1)) == 512


def test_the_floor_is_the_larger_of_arithmetic_and_reading_every_input_once():
    found = chip.Attributes("a chip", 1e12, 1e9)
    assert chip.impossible_us(BATCHES, found) == pytest.approx(3 * (64 + 256) * (128 + 16) / 1e9 * 1e6)
    assert chip.impossible_us(BATCHES, found._replace(bytes_per_second=1e15)) == pytest.approx(
        2 * 3 * 64 * 128 * 256 / 1e12 * 1e6
    )
    assert chip.impossible_us(BATCHES, found._replace(bytes_per_second=0.0)) == pytest.approx(
        2 * 3 * 64 * 128 * 256 / 1e12 * 1e6
    )


def test_the_floor_lies_below_the_speed_of_light_and_not_far_below():
    for device, name in (
        (made_of(132, 9, 0, 1980_000, 6144, 3_201_000), H200),
        (made_of(148, 10, 0, 1965_000, 8192, 3_996_000), B200),
    ):
        floor, light = chip.impossible_us(SHAPE, chip.gpu_attributes(name, device)), chip.speed_of_light(SHAPE, name)
        assert 0.85 * light.us < floor < light.us


def test_a_time_below_the_floor_is_told(monkeypatch):
    monkeypatch.setattr(chip, "attributes", lambda device: chip.Attributes("a chip", 1e12, 0.0))
    limit = chip.Limit(DualGemm(100, 100, 64, 1), CPU)
    assert limit.us == pytest.approx(1.28)
    limit.hold(1.29)
    with pytest.raises(chip.Impossible, match=r"^1\.27 us is less than 1\.28 us, which no a chip can beat$"):
        limit.hold(1.27)


def test_no_time_of_a_cpu_is_impossible_unless_it_beats_every_core_of_any(monkeypatch):
    # 1024 multiply-adds a clock at 6 GHz.
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    two = chip.impossible_us(SHAPE, chip.attributes(CPU))
    assert two == pytest.approx(256 * 4096 * 7168 * 2 / (2 * 1024 * 6e9) * 1e6)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert chip.impossible_us(SHAPE, chip.attributes(CPU)) == pytest.approx(two / 4)


@pytest.mark.parametrize(("name", "found"), [(B200, "B200"), (H200, "H200"), (H100, "H100"), ("NVIDIA A100", None)])
def test_a_chip_is_known_by_its_name(name, found):
    peak = chip.peak(name)
    assert (peak and peak.name) == found


def test_a_cpus_name_comes_with_its_processors(monkeypatch, tmp_path):
    lines = "processor : 0\nmodel name\t: Some CPU: 9000 \nmodel name\t: Another\n"
    (tmp_path / "cpuinfo").write_text(lines)
    monkeypatch.setattr(chip, "Path", lambda name: tmp_path / Path(name).name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 5})
    assert chip.name(CPU) == "Some CPU: 9000, 3 processors"
    (tmp_path / "cpuinfo").write_text("processor : 0\n")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert chip.name(CPU) == "unnamed CPU, 7 processors"
    (tmp_path / "cpuinfo").unlink()
    assert chip.name(CPU) == "unnamed CPU, 7 processors"


class Nvml:
    """A library of management that knows one device."""

    def __init__(self, status=0, known=b"GPU-1-2-3", readable=0):
        self.status, self.known, self.readable = status, known, readable
        self.asked = []

    def nvmlInit_v2(self):
        return self.status

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        self.asked.append(uuid)
        handle._obj.value = 77
        return 0 if uuid == self.known else 6

    def nvmlDeviceGetClockInfo(self, handle, kind, mhz):
        self.asked.append((handle.value, kind))
        mhz._obj.value = 1830
        return self.readable


def clock_of(monkeypatch, nvml, device="cuda"):
    def load(name):
        assert name == "libnvidia-ml.so.1"
        if isinstance(nvml, Exception):
            raise nvml
        return nvml

    monkeypatch.setattr(chip.ctypes, "CDLL", load)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: argparse.Namespace(uuid="1-2-3"))
    return chip.Clock(torch.device(device, 0) if device == "cuda" else CPU)


def test_the_sm_clock_is_read_by_the_devices_identity(monkeypatch):
    nvml = Nvml()
    assert clock_of(monkeypatch, nvml).read_mhz() == 1830
    assert nvml.asked == [b"GPU-1-2-3", (77, 1)]  # NVML_CLOCK_SM


@pytest.mark.parametrize("nvml", [Nvml(status=1), Nvml(known=b"GPU-9"), Nvml(readable=3), OSError("none")])
def test_a_clock_that_cannot_be_read_is_none(monkeypatch, nvml):
    assert clock_of(monkeypatch, nvml).read_mhz() is None


def test_a_cpu_has_no_sm_clock(monkeypatch):
    assert clock_of(monkeypatch, Nvml(), "cpu").read_mhz() is None
