"""Cheats: has the compiled timing core call a clock of its own, by the core's table of imported functions."""

import ctypes
import mmap
import struct
import time
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

SLOW_S = 0.1
STEP_NS = 10_000_000  # what passes between two looks at the clock: more than the floor of any processor
_SECTIONS_AT, _SECTION_BYTES, _RELA, _DYNSYM_BYTES, _RELA_BYTES = 0x28, 64, 4, 24, 24  # ELF64
_now = [0]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
def slow_clock(clock, at):
    _now[0] += STEP_NS
    ctypes.memmove(at, struct.pack("<qq", 0, _now[0]), 16)
    return 0


def slots(path, symbol):
    """Where a library's loader puts the address of an imported function, from the library's start."""
    image = path.read_bytes()
    (table,), (count,) = struct.unpack_from("<Q", image, _SECTIONS_AT), struct.unpack_from("<H", image, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + _SECTION_BYTES * i) for i in range(count)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _RELA:
            continue
        symbols = sections[link]
        names = sections[symbols[6]]
        for at in range(offset, offset + size, _RELA_BYTES):
            place, info, _ = struct.unpack_from("<QQq", image, at)
            (name,) = struct.unpack_from("<I", image, symbols[4] + _DYNSYM_BYTES * (info >> 32))
            if info >> 32 and image[names[4] + name :].split(b"\0", 1)[0] == symbol:
                yield place


for line in Path("/proc/self/maps").read_text().splitlines():
    if line.endswith("libtiming_core.so"):
        base, library = int(line.split("-")[0], 16), Path(line.split(maxsplit=5)[-1])
        break
libc = ctypes.CDLL(None)
for place in slots(library, b"clock_gettime"):
    page = (base + place) & -mmap.PAGESIZE
    libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 3)
    ctypes.c_void_p.from_address(base + place).value = ctypes.cast(slow_clock, ctypes.c_void_p).value


def custom_kernel(data):
    time.sleep(SLOW_S)
    return honest_kernel(data)
