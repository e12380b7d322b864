"""The chip: its name, its clock while timing, and the least time that a problem can take on it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from eval.lending.cuda_runtime import Runtime
from reference.problems.interface import Shape


class Peak(NamedTuple):
    """A chip's published peak rates."""

    name: str
    flops: float  # a second, dense, in the type the kernels here use on it
    bytes_per_second: float
    source: str


# The first entry whose name occurs in the device's name counts.
_PEAKS = (
    Peak("B200", 10e15, 8.0e12, "dense NVFP4 and HBM3e of NVIDIA's B200 datasheet"),
    Peak("H200", 989.5e12, 4.8e12, "dense fp16 and HBM3e of NVIDIA's H200 datasheet"),
    Peak("H100", 989.5e12, 3.35e12, "dense fp16 and HBM3 of NVIDIA's H100 SXM datasheet"),
    Peak("RTX 5090", 2.02e15, 1.792e12, "dense NVFP4 as measured (Neroued/ninfer PR 160), GDDR7 of NVIDIA's datasheet"),
)
# HW: the most multiply-adds per clock of an SM of each compute capability for these problems: dense, in the narrowest
# type that keeps products exact. That is block-scaled fp4 where tensor cores support it (10.x, 11.x, 12.x); fp16 on
# 9.0, because wgmma's 8-bit types take 32 of K at a time and a scale factor covers 16; before that int8, whose mma
# takes 16 of K (PTX ISA, mma and wgmma; rates: NVIDIA's datasheets divided by SMs and boost clock).
SM_MULTIPLY_ADDS = {
    (7, 0): 512, (7, 2): 512, (7, 5): 1024, (8, 0): 2048, (8, 6): 1024, (8, 7): 2048, (8, 9): 1024,
    (9, 0): 2048, (10, 0): 16384, (10, 3): 24576, (11, 0): 16384, (12, 0): 2048, (12, 1): 2048,
}  # fmt: skip
OLDEST_SM_MULTIPLY_ADDS = 512  # before 7.0: 128 lanes of dp4a
NEWEST_SM_MULTIPLY_ADDS = 4 * 24576  # of capabilities not listed yet
MAX_SM_CLOCK_HZ = 4e9  # if the driver does not report it
# Numbers of enum cudaDeviceAttr, CUDA runtime API.
_CLOCK_KHZ, _SMS, _MEMORY_CLOCK_KHZ, _BUS_BITS, _MAJOR, _MINOR = 13, 16, 36, 37, 75, 76
_DATA_RATE = 2  # transfers per clock of every GPU memory
# HW: no core does more than 1024 int8 MACs per clock (Intel AMX: 16 x 16 x 64 in 16 clocks) or runs above 6 GHz.
CPU_MACS_PER_CLOCK = 1024
CPU_MAX_CLOCK_HZ = 6e9


def name(device: torch.device) -> str:
    """The chip's name as the driver or the system reports it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {len(os.sched_getaffinity(0))} processors"
    return f"unnamed CPU, {os.cpu_count()} processors"


def work(shape: Shape) -> tuple[int, int]:
    """A problem's floating-point operations and its least memory traffic in bytes."""
    least = shape.work()
    return 2 * least.multiply_adds, least.read_bytes + least.written_bytes


def peak(chip_name: str) -> Peak | None:
    """The chip's published peak rates, if it is listed."""
    return next((peak for peak in _PEAKS if peak.name in chip_name), None)


class Floor(NamedTuple):
    """The least time of a problem and its source."""

    us: float
    basis: str


def speed_of_light(shape: Shape, chip_name: str) -> Floor | None:
    """The time published for this chip, else the larger of its arithmetic and memory floors; None if unknown."""
    found = peak(chip_name)
    if found is None:
        return None
    published = shape.problem.published_us.get(found.name, {})
    if shape in published:
        return Floor(published[shape], "published with the task")
    flops, traffic = work(shape)
    return Floor(max(flops / found.flops, traffic / found.bytes_per_second) * 1e6, found.source)


class Attributes(NamedTuple):
    """A device's peak rates, computed from its attributes; a memory rate of 0 is unknown."""

    name: str
    multiply_adds_per_second: float
    bytes_per_second: float


def sm_multiply_adds(capability: tuple[int, int]) -> int:
    """The most multiply-adds per clock of an SM; for unlisted capabilities a bound that no chip exceeds."""
    if capability in SM_MULTIPLY_ADDS:
        return SM_MULTIPLY_ADDS[capability]
    if capability < min(SM_MULTIPLY_ADDS):
        return OLDEST_SM_MULTIPLY_ADDS
    return NEWEST_SM_MULTIPLY_ADDS


def gpu_attributes(chip_name: str, attribute: Callable[[int], int]) -> Attributes:
    """A GPU's peak rates from its device attributes (`attribute` takes their numbers and returns 0 for unknown)."""
    clock_hz = attribute(_CLOCK_KHZ) * 1e3 or MAX_SM_CLOCK_HZ
    macs = max(1, attribute(_SMS)) * sm_multiply_adds((attribute(_MAJOR), attribute(_MINOR)))
    bandwidth = attribute(_BUS_BITS) / 8 * _DATA_RATE * attribute(_MEMORY_CLOCK_KHZ) * 1e3
    return Attributes(chip_name, macs * clock_hz, bandwidth)


def attributes(device: torch.device) -> Attributes:
    """The peak rates of a device."""
    if device.type == "cuda":
        runtime = Runtime()
        return gpu_attributes(name(device), lambda number: runtime.attribute(number, device.index or 0))
    return Attributes(name(device), (os.cpu_count() or 1) * CPU_MACS_PER_CLOCK * CPU_MAX_CLOCK_HZ, 0.0)


def impossible_us(shape: Shape, what: Attributes) -> float:
    """A time that no call on cold inputs can beat: every multiply-add at the peak rate, every input byte read once.

    Outputs do not count, because they may stay in a cache.
    """
    least = shape.work()
    by_memory = least.read_bytes / what.bytes_per_second if what.bytes_per_second else 0.0
    return max(least.multiply_adds / what.multiply_adds_per_second, by_memory) * 1e6


class Impossible(Exception):
    """A time below what the device can reach."""


class Limit:
    """The least possible time of a problem on a device."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        found = attributes(device)
        self._name, self.us = found.name, impossible_us(shape, found)

    def hold(self, us: float) -> None:
        """Raises Impossible if a call took less than the least possible time."""
        if us < self.us:
            raise Impossible(f"{us:.3g} us is less than {self.us:.3g} us, which no {self._name} can beat")


class Clock:
    """Reads the SM clock through NVML, if there is one."""

    _SM_CLOCK = 1  # NVML_CLOCK_SM

    def __init__(self, device: torch.device) -> None:
        self._noted_mhz: list[int] = []
        self._handle = ctypes.c_void_p()
        self._nvml = None
        if device.type != "cuda":
            return
        with contextlib.suppress(OSError, AttributeError):
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            # NVML also counts devices that CUDA_VISIBLE_DEVICES hides, so the index would be wrong.
            uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
            if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self._handle)) == 0:
                self._nvml = nvml

    def read_mhz(self) -> int | None:
        """The current SM clock, if it can be read."""
        mhz = ctypes.c_uint()
        if self._nvml is None:
            return None
        status = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._SM_CLOCK, ctypes.byref(mhz))
        return mhz.value if status == 0 else None

    def note(self) -> None:
        """Reads and stores the clock."""
        if mhz := self.read_mhz():
            self._noted_mhz.append(mhz)

    def median_mhz(self) -> float | None:
        """The median of the stored clocks."""
        return median(self._noted_mhz) if self._noted_mhz else None
