"""Descriptors, tensor memory and tcgen05.mma of the C library through ctypes, for its tests."""

from __future__ import annotations

import ctypes

import numpy as np

from simulator.python.tensorcore import FORMATS, SWIZZLES, library, pointer

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


class Refused(Exception):
    """The C side refused; str() is its reason."""

    unmodelled = False


class Text(ctypes.Array):
    _length_, _type_ = 240, ctypes.c_char


def _reason(text: Text) -> Refused:
    return Refused(text.value.decode())


def decode_matrix(bits: int, wgmma=False):
    out, text = (ctypes.c_uint32 * 5)(), Text()
    if not library().batch_matrix(wgmma, ctypes.c_uint64(bits), out, text):
        raise _reason(text)
    return (*out[:4], SWIZZLES[out[4]])


def fetch_operand(bits, fmt, rows, k, smem, mn_major=False, padded=False, wgmma=False, row_bytes=32):
    """The operand's rows as bytes, and the addresses of its 16-byte chunks."""
    chunks, out, text = np.zeros(1024, np.uint32), np.full((rows, row_bytes), 0xEE, np.uint8), Text()
    count = library().batch_operand(
        wgmma, ctypes.c_uint64(bits), FORMATS[fmt], rows, k, mn_major, padded, pointer(smem), smem.size,
        pointer(chunks), pointer(out), ctypes.c_int64(row_bytes), text,
    )  # fmt: skip
    if count < 0:
        raise _reason(text)
    return out, chunks[:count]


DECODED = (
    "m n k a_mn_major b_mn_major sfa_id sfb_id scales max_shift a b d fraction_bits result_fraction scale "
    "scale_block grouped negate_a negate_b saturate"
)


def decode_instruction(bits, kind, cta_group=1, ws=False, scales=0) -> dict:
    out, text = (ctypes.c_int32 * 20)(), Text()
    result = library().batch_instruction(ctypes.c_uint32(bits), KINDS.index(kind), cta_group, ws, scales, out, text)
    if result != 1:
        refusal = _reason(text)
        refusal.unmodelled = result < 0
        raise refusal
    fields = dict(zip(DECODED.split(), out, strict=True))
    for name in ("a", "b", "d", "scale"):
        fields[name] = list(FORMATS)[fields[name]]
    return fields


# ---- tensor memory -----------------------------------------------------------------------------------

LD_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
CP_SHAPES = ("128x256b", "4x256b", "128x128b", "64x128b.02_13", "64x128b.01_23", "32x128b.warpx4")
CLEAN = 0xFFF7DEAD


class Mma(ctypes.Structure):
    """struct batch_mma of batch.c."""

    _fields_ = [
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("idesc", "d_tmem", "a_tmem", "sfa_tmem", "sfb_tmem", "e_tmem")),
        *(
            (name, ctypes.c_int32)
            for name in ("kind", "cta_group", "ws", "scales", "a_in_tmem", "accumulate", "d_scale_log2")
        ),
        ("disabled", ctypes.c_uint32 * 8),
    ]


class Tmem:
    """One CTA's tensor memory; words is its 128 x 512 array itself."""

    def __init__(self, columns: int = 0):
        lib = library()
        lib.batch_tmem_new.restype = lib.batch_tmem_words.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(lib.batch_tmem_new())
        at = ctypes.cast(lib.batch_tmem_words(self.handle), ctypes.POINTER(ctypes.c_uint32))
        self.words = np.ctypeslib.as_array(at, (128, 512))
        if columns:
            self.alloc(columns)

    def __del__(self):
        library().batch_tmem_free(self.handle)

    def alloc(self, columns: int) -> int | None:
        address, text = ctypes.c_uint32(), Text()
        result = library().batch_alloc(self.handle, columns, ctypes.byref(address), text)
        if result == 2:
            raise _reason(text)
        return address.value if result == 0 else None

    def _manage(self, what, address=0, columns=0):
        text = Text()
        if not library().batch_manage(self.handle, what, address, columns, text):
            raise _reason(text)

    def dealloc(self, address, columns):
        self._manage(0, address, columns)

    def relinquish(self):
        self._manage(1)

    def check_exit(self):
        self._manage(2)

    def check_cta_group(self, group):
        self._manage(3, 0, group)

    def access(self, shape, num, address, registers=None, pack=False, warp=None, half_split=0, count=128):
        """st of registers[r][thread], or ld if None; returns the registers and the regions touched."""
        store = registers is not None
        registers = np.array(registers, np.uint32) if store else np.full((count, 32), 0xEEEEEEEE, np.uint32)
        regions, text = np.zeros((2, 5), np.int32), Text()
        done = library().batch_access(
            self.handle, store, LD_SHAPES.index(shape), num, pack, address, half_split,
            (address >> 16) // 32 if warp is None else warp, pointer(registers), pointer(regions), text,
        )  # fmt: skip
        if not done:
            raise _reason(text)
        return registers, [tuple(int(x) for x in region) for region in regions[:done]]

    def cp(self, shape, address, bits, smem):
        text = Text()
        handle = self.handle, CP_SHAPES.index(shape), address, ctypes.c_uint64(bits), pointer(smem), smem.size, text
        if not library().batch_cp(*handle):
            raise _reason(text)

    def shift(self, address):
        text = Text()
        if not library().batch_shift(self.handle, address, text):
            raise _reason(text)


def tcgen05_mma(mma: Mma, tmems, smems):
    """tmems and smems: one per CTA of the group."""
    text = Text()
    handles = (ctypes.c_void_p * len(tmems))(*(t.handle.value for t in tmems))
    memories = (ctypes.c_void_p * len(smems))(*(s.ctypes.data for s in smems))
    done = library().batch_tcgen05_mma(ctypes.byref(mma), handles, memories, smems[0].size, text)
    if done != 1:
        refusal = _reason(text)
        refusal.unmodelled = done < 0
        raise refusal
