"""The canonical shared-memory layouts, from the PTX ISA's definition: where element (mn, k) of an operand lies.

Written in the ISA's terms (coordinates in elements, T elements in 16 bytes, a swizzle of address bits), sharing
nothing with simulator/tensorcore/descriptor.c.
"""

from __future__ import annotations

import numpy as np

# name: (16-byte units per line, number of swizzled bits, lowest swizzled bit, distance to the bits XORed with them)
SWIZZLE = {
    "none": (1, 0, 4, 3),
    "32B": (2, 1, 4, 3),
    "64B": (4, 2, 4, 3),
    "128B": (8, 3, 4, 3),
    "128B_ATOM32": (8, 2, 5, 2),
}


def swizzled(name: str, address: np.ndarray) -> np.ndarray:
    _, bits, low, distance = SWIZZLE[name]
    address = np.array(address)
    for i in range(bits):
        address ^= (address >> (low + distance + i) & 1) << (low + i)
    return address


def element_bytes(name, mn, k, unit_elems, unit_bytes, leading, stride, mn_major):
    """Byte offsets, before the swizzle, of the 16-byte unit that holds (mn, k), and its index within the unit."""
    width = SWIZZLE[name][0]
    if not mn_major:
        # ((8, m), (T, 2)) : ((width * T, SBO), (1, LBO without swizzle, T with it))
        unit, inside = k // unit_elems, k % unit_elems
        step = leading if name == "none" else unit_bytes
        return mn % 8 * width * unit_bytes + mn // 8 * stride + unit * step, inside
    unit, inside = mn // unit_elems, mn % unit_elems
    if name == "none":
        # ((T, 1, m), (8, k)) : ((1, T, SBO), (1T, LBO))
        return unit * stride + k % 8 * unit_bytes + k // 8 * leading, inside
    # ((T, width, m), (8, k)) : ((1, T, LBO), (width * T, SBO)); 4 lines an atom with 32-byte atomicity
    lines = 4 if name == "128B_ATOM32" else 8
    across = unit % width * unit_bytes + unit // width * leading
    return across + k % lines * width * unit_bytes + k // lines * stride, inside


def store(smem, codes, bits, name, start, leading, stride, mn_major=False, padded=False):
    """Writes codes[mn][k] into smem in the layout; codes below 8 bits are packed, or padded to 16 per unit."""
    unit_elems = 16 if padded else 128 // bits
    rows, depth = codes.shape
    for mn in range(rows):
        for k in range(depth):
            unit, inside = element_bytes(name, mn, k, unit_elems, 16, leading, stride, mn_major)
            at = int(swizzled(name, np.array(start + unit)))
            value, bit = int(codes[mn, k]), inside * bits
            window = int.from_bytes(smem[at : at + 16].tobytes(), "little")
            window = window & ~(((1 << bits) - 1) << bit) | value << bit
            smem[at : at + 16] = np.frombuffer(window.to_bytes(16, "little"), np.uint8)
