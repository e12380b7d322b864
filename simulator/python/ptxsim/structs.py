"""The structs of sim.h as ctypes structures."""

from __future__ import annotations

import ctypes

INT, UINT, U32, I32, U64, I64 = (
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_uint32,
    ctypes.c_int32,
    ctypes.c_uint64,
    ctypes.c_int64,
)
SIZE, BOOL, DOUBLE, TEXT, POINTER = ctypes.c_size_t, ctypes.c_bool, ctypes.c_double, ctypes.c_char_p, ctypes.c_void_p
MAX_RANK = 5
MAX_SPATIAL = 3


def members(kind: type, names: str) -> list[tuple[str, type]]:
    """Members of one type in a row."""
    return [(name, kind) for name in names.split()]


class Options(ctypes.Structure):
    """struct sim_options, member by member."""

    _fields_ = (
        ("mode", INT),
        ("seed", U64),
        *members(INT, "threads no_checks"),
        ("sms", UINT),
        ("max_instructions", U64),
        ("chip", TEXT),
        *members(INT, "no_values timeline"),
        ("machine_code", TEXT),
        ("progress", POINTER),
        ("checked_ctas", U64),
    )


class Launch(ctypes.Structure):
    """struct sim_launch_attributes, member by member."""

    _fields_ = (
        *members(U32 * 3, "grid block cluster"),
        ("shared", U32),
        *members(INT, "dependent cooperative"),
        ("arguments", POINTER),
        ("count", SIZE),
    )


class Finding(ctypes.Structure):
    """struct sim_finding, member by member."""

    _fields_ = (
        ("verdict", INT),
        *members(TEXT, "kind message kernel"),
        ("cta", U32 * 3),
        *members(I32, "warp lane"),
        ("offset", I64),
        ("allocation", TEXT),
        ("ptx_line", U32),
        *members(TEXT, "ptx source"),
        ("other_ptx_line", U32),
        *members(TEXT, "other_ptx other_source"),
        ("times", U64),
        *members(U32, "launch other_launch"),
        *members(TEXT, "other_kernel variable"),
    )


class Delay(ctypes.Structure):
    """struct sim_delay, member by member."""

    _fields_ = (
        ("operation", TEXT),
        ("cta", U32 * 3),
        *members(I32, "warp lane"),
        ("ptx_line", U32),
        *members(TEXT, "ptx source"),
        ("occurrence", U32),
        ("until", TEXT),
    )


class Shrunk(ctypes.Structure):
    """struct sim_shrunk, member by member."""

    _fields_ = (
        ("found", BOOL),
        ("finding", Finding),
        ("always", BOOL),
        ("delays", ctypes.POINTER(Delay)),
        *members(SIZE, "count operations"),
        ("runs", UINT),
        ("least", BOOL),
        ("stopped", TEXT),
    )


SHOWS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t)


class ShrinkOptions(ctypes.Structure):
    """struct sim_shrink_options, member by member."""

    _fields_ = (
        ("kind", TEXT),
        ("shows", SHOWS),
        ("progress", PROGRESS),
        ("context", POINTER),
        *members(UINT, "most_runs most_operations"),
        ("most_instructions", U64),
    )


class TensorMap(ctypes.Structure):
    """struct sim_tensor_map, member by member."""

    _fields_ = (
        *members(U32, "data_type rank"),
        ("address", POINTER),
        *members(U64 * MAX_RANK, "sizes strides"),
        *members(U32 * MAX_RANK, "box element_strides"),
        *members(U32, "interleave swizzle promotion fill mode"),
        *members(I32 * MAX_SPATIAL, "lower upper"),
        ("pixels", U32),
    )


class Time(ctypes.Structure):
    """struct sim_time, member by member."""

    _fields_ = (
        *members(TEXT, "chip error"),
        *members(DOUBLE, "clock_ghz cycles us kernel_cycles kernel_us"),
    )


class Counters(ctypes.Structure):
    """struct sim_counters, member by member."""

    _fields_ = (
        *members(U64, "launches ctas instructions"),
        ("by_class", U64 * 16),
        ("by_warp", U64 * 16 * 32),
        *members(
            U64,
            "tma_load_bytes tma_store_bytes global_load_bytes global_store_bytes shared_load_bytes"
            " shared_store_bytes global_load_sectors global_store_sectors shared_wavefronts shared_ideal_wavefronts"
            " tensor_instructions tensor_macs tensor_cycles barrier_waits barrier_waits_blocked async_operations",
        ),
        *members(DOUBLE, "seconds cpu_seconds"),
    )
