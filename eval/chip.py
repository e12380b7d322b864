"""The chip at hand: its name, its clock while timing, and the least time a problem can take on it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import NamedTuple

import torch

# Published with the task, B200 at 1.5 GHz, us (task.md).
B200_SPEED_OF_LIGHT_US = {
    (256, 4096, 7168, 1): 4.708,
    (512, 4096, 7168, 1): 8.714,
    (256, 3072, 4096, 1): 2.125,
    (512, 3072, 7168, 1): 6.535,
}


class Peak(NamedTuple):
    """What a chip can do at most."""

    name: str
    flops: float  # a second, dense, in the type the kernels here use on it
    bytes_per_second: float
    source: str


# The first whose name occurs in the device's name is taken.
_PEAKS = (
    Peak("B200", 10e15, 8.0e12, "dense NVFP4 and HBM3e of NVIDIA's B200 datasheet"),
    Peak("H200", 989.5e12, 4.8e12, "dense fp16 and HBM3e of NVIDIA's H200 datasheet"),
    Peak("H100", 989.5e12, 3.35e12, "dense fp16 and HBM3 of NVIDIA's H100 SXM datasheet"),
)
# Datasheet rates are at a boost clock that a cool chip can exceed (H200: 1.98 against 1.83 GHz).
CLOCK_HEADROOM = 1.1
# HW: no core does more than 1024 int8 MACs a clock (Intel AMX: 16 x 16 x 64 in 16 clocks), nor clocks past 6 GHz.
CPU_MACS_PER_CLOCK = 1024
CPU_MAX_CLOCK_HZ = 6e9


def name(device: torch.device) -> str:
    """The chip's name as its driver or the system gives it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {len(os.sched_getaffinity(0))} processors"
    return f"unnamed CPU, {os.cpu_count()} processors"


def work(shape: tuple[int, int, int, int]) -> tuple[int, int]:
    """Floating-point operations and the fewest bytes through memory of an (M, N, K, L) problem."""
    m, n, k, batches = shape
    read = (m + 2 * n) * (k // 2 + k // 16)
    return 4 * m * n * k * batches, (read + 2 * m * n) * batches


def peak(chip_name: str) -> Peak | None:
    """The chip's peak rates, if it is one of those known."""
    return next((peak for peak in _PEAKS if peak.name in chip_name), None)


class Floor(NamedTuple):
    """The least time of a problem, and where that comes from."""

    us: float
    basis: str


def speed_of_light(shape: tuple[int, int, int, int], chip_name: str) -> Floor | None:
    """The published figure on a B200, else the larger of the arithmetic and memory floors; None if unknown."""
    found = peak(chip_name)
    if found is None:
        return None
    if found.name == "B200" and shape in B200_SPEED_OF_LIGHT_US:
        return Floor(B200_SPEED_OF_LIGHT_US[shape], "published with the task")
    flops, traffic = work(shape)
    return Floor(max(flops / found.flops, traffic / found.bytes_per_second) * 1e6, found.source)


def impossible_us(shape: tuple[int, int, int, int], chip_name: str, processors: int) -> float:
    """A time no honest call on cold inputs can beat: peak rates with headroom on a known chip, 0 on an unknown GPU."""
    found = peak(chip_name)
    flops, traffic = work(shape)
    if found is not None:
        return max(flops / found.flops, traffic / found.bytes_per_second) / CLOCK_HEADROOM * 1e6
    if processors:
        return flops / 2 / (processors * CPU_MACS_PER_CLOCK * CPU_MAX_CLOCK_HZ) * 1e6
    return 0.0


def free_memory(device: torch.device) -> int:
    """Bytes that can be had now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Clock:
    """Reads the SM clock through NVML; without NVML it has nothing to say."""

    _SM_CLOCK = 1  # NVML_CLOCK_SM

    def __init__(self, device: torch.device) -> None:
        self._handle = ctypes.c_void_p()
        self._nvml = None
        if device.type != "cuda":
            return
        with contextlib.suppress(OSError, AttributeError):
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            # NVML counts devices that CUDA_VISIBLE_DEVICES hides, so by identity and not by index.
            uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
            if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self._handle)) == 0:
                self._nvml = nvml

    def read_mhz(self) -> int | None:
        """The SM clock now, if it can be read."""
        mhz = ctypes.c_uint()
        if self._nvml is None:
            return None
        status = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._SM_CLOCK, ctypes.byref(mhz))
        return mhz.value if status == 0 else None
