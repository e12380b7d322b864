"""The structs of sim.h as ctypes structures."""

from __future__ import annotations

import ctypes

MAX_RANK = 5
MAX_SPATIAL = 3


class Options(ctypes.Structure):
    """struct sim_options, member by member."""

    _fields_ = (
        ("mode", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("threads", ctypes.c_int),
        ("no_checks", ctypes.c_int),
        ("sms", ctypes.c_uint),
        ("max_instructions", ctypes.c_uint64),
        ("chip", ctypes.c_char_p),
        ("no_values", ctypes.c_int),
        ("timeline", ctypes.c_int),
        ("machine_code", ctypes.c_char_p),
        ("progress", ctypes.c_void_p),
    )


class Launch(ctypes.Structure):
    """struct sim_launch_attributes, member by member."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("dependent", ctypes.c_int),
        ("cooperative", ctypes.c_int),
        ("arguments", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    )


class Finding(ctypes.Structure):
    """struct sim_finding, member by member."""

    _fields_ = (
        ("verdict", ctypes.c_int),
        ("kind", ctypes.c_char_p),
        ("message", ctypes.c_char_p),
        ("kernel", ctypes.c_char_p),
        ("cta", ctypes.c_uint32 * 3),
        ("warp", ctypes.c_int32),
        ("lane", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("allocation", ctypes.c_char_p),
        ("ptx_line", ctypes.c_uint32),
        ("ptx", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("other_ptx_line", ctypes.c_uint32),
        ("other_ptx", ctypes.c_char_p),
        ("other_source", ctypes.c_char_p),
        ("times", ctypes.c_uint64),
        ("launch", ctypes.c_uint32),
        ("other_launch", ctypes.c_uint32),
        ("other_kernel", ctypes.c_char_p),
    )


class Delay(ctypes.Structure):
    """struct sim_delay, member by member."""

    _fields_ = (
        ("operation", ctypes.c_char_p),
        ("cta", ctypes.c_uint32 * 3),
        ("warp", ctypes.c_int32),
        ("lane", ctypes.c_int32),
        ("ptx_line", ctypes.c_uint32),
        ("ptx", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("occurrence", ctypes.c_uint32),
        ("until", ctypes.c_char_p),
    )


class Shrunk(ctypes.Structure):
    """struct sim_shrunk, member by member."""

    _fields_ = (
        ("found", ctypes.c_bool),
        ("finding", Finding),
        ("always", ctypes.c_bool),
        ("delays", ctypes.POINTER(Delay)),
        ("count", ctypes.c_size_t),
        ("operations", ctypes.c_size_t),
        ("runs", ctypes.c_uint),
        ("least", ctypes.c_bool),
        ("stopped", ctypes.c_char_p),
    )


SHOWS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t)


class ShrinkOptions(ctypes.Structure):
    """struct sim_shrink_options, member by member."""

    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("shows", SHOWS),
        ("progress", PROGRESS),
        ("context", ctypes.c_void_p),
        ("most_runs", ctypes.c_uint),
        ("most_operations", ctypes.c_uint),
        ("most_instructions", ctypes.c_uint64),
    )


class TensorMap(ctypes.Structure):
    """struct sim_tensor_map, member by member."""

    _fields_ = (
        ("data_type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("address", ctypes.c_void_p),
        ("sizes", ctypes.c_uint64 * MAX_RANK),
        ("strides", ctypes.c_uint64 * MAX_RANK),
        ("box", ctypes.c_uint32 * MAX_RANK),
        ("element_strides", ctypes.c_uint32 * MAX_RANK),
        ("interleave", ctypes.c_uint32),
        ("swizzle", ctypes.c_uint32),
        ("promotion", ctypes.c_uint32),
        ("fill", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("lower", ctypes.c_int32 * MAX_SPATIAL),
        ("upper", ctypes.c_int32 * MAX_SPATIAL),
        ("pixels", ctypes.c_uint32),
    )


class Time(ctypes.Structure):
    """struct sim_time, member by member."""

    _fields_ = (
        ("chip", ctypes.c_char_p),
        ("error", ctypes.c_char_p),
        ("clock_ghz", ctypes.c_double),
        ("cycles", ctypes.c_double),
        ("us", ctypes.c_double),
        ("kernel_cycles", ctypes.c_double),
        ("kernel_us", ctypes.c_double),
    )


class Counters(ctypes.Structure):
    """struct sim_counters, member by member."""

    _fields_ = (
        ("launches", ctypes.c_uint64),
        ("ctas", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64),
        ("by_class", ctypes.c_uint64 * 16),
        ("by_warp", ctypes.c_uint64 * 16 * 32),
        ("tma_load_bytes", ctypes.c_uint64),
        ("tma_store_bytes", ctypes.c_uint64),
        ("global_load_bytes", ctypes.c_uint64),
        ("global_store_bytes", ctypes.c_uint64),
        ("shared_load_bytes", ctypes.c_uint64),
        ("shared_store_bytes", ctypes.c_uint64),
        ("global_load_sectors", ctypes.c_uint64),
        ("global_store_sectors", ctypes.c_uint64),
        ("shared_wavefronts", ctypes.c_uint64),
        ("shared_ideal_wavefronts", ctypes.c_uint64),
        ("tensor_instructions", ctypes.c_uint64),
        ("tensor_macs", ctypes.c_uint64),
        ("tensor_cycles", ctypes.c_uint64),
        ("barrier_waits", ctypes.c_uint64),
        ("barrier_waits_blocked", ctypes.c_uint64),
        ("async_operations", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
    )
