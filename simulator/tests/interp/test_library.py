"""The library's interface: memory, modes, modules, launches, and what it refuses."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from simulator.python.ptxsim import Module
from simulator.tests.sim_kit import HEADER, MODES, Launch, Options, Sim, aligned, body, library

OK, BAD_ARGUMENT, NO_KERNEL, RUN_ERROR = 0, 1, 4, 5


def pointer(array: np.ndarray, skip: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + skip)


def register(sim: Sim, array: np.ndarray, skip: int, size: int) -> int:
    return sim.lib.sim_register(sim.sim, pointer(array, skip), ctypes.c_size_t(size), b"part")


def test_ranges_do_not_overlap():
    sim, memory = Sim(body("")), aligned(1024, np.uint8)
    assert register(sim, memory, 256, 256) == OK
    for skip, size in ((256, 256), (0, 257), (511, 1), (300, 10), (0, 1024), (256, 1)):
        assert register(sim, memory, skip, size) == BAD_ARGUMENT, (skip, size)
        assert sim.message() == "the range overlaps another allocation"
    assert register(sim, memory, 0, 256) == OK
    assert register(sim, memory, 512, 512) == OK
    assert sim.lib.sim_unregister(sim.sim, pointer(memory, 100)) == BAD_ARGUMENT
    assert sim.lib.sim_unregister(sim.sim, pointer(memory, 256)) == OK
    assert sim.lib.sim_unregister(sim.sim, pointer(memory, 256)) == BAD_ARGUMENT
    assert register(sim, memory, 300, 10) == OK
    for _ in range(3):  # the other ranges are still registered
        assert sim.lib.sim_unregister(sim.sim, pointer(memory, 512)) in (OK, BAD_ARGUMENT)
    assert register(sim, memory, 256, 44) == OK


def test_allocated_memory_is_filled_aligned_and_bounded():
    sim = Sim(body(""))
    lib = sim.lib
    lib.sim_alloc.restype = ctypes.c_void_p
    address = lib.sim_alloc(sim.sim, ctypes.c_size_t(100), b"weights")
    assert address % 256 == 0
    assert ctypes.string_at(address, 100) == b"\xb5" * 100
    data, back = b"abcdefgh", ctypes.create_string_buffer(8)
    for skip, size, status in (
        (0, 8, OK),
        (92, 8, OK),
        (93, 8, BAD_ARGUMENT),
        (-1, 8, BAD_ARGUMENT),
        (100, 1, BAD_ARGUMENT),
    ):
        at = ctypes.c_void_p(address + skip)
        assert lib.sim_write(sim.sim, at, data, ctypes.c_size_t(size)) == status, skip
        assert lib.sim_read(sim.sim, back, at, ctypes.c_size_t(size)) == status, skip
        assert status != OK or back.raw == data
    assert lib.sim_free(sim.sim, ctypes.c_void_p(address)) == OK
    assert lib.sim_free(sim.sim, ctypes.c_void_p(address)) == BAD_ARGUMENT
    assert lib.sim_write(sim.sim, ctypes.c_void_p(address), data, ctypes.c_size_t(8)) == BAD_ARGUMENT


@pytest.mark.parametrize(
    ("text", "mode", "seed"),
    [("eager", 0, 0), ("late", 1, 0), ("reverse", 2, 0), ("random", 3, 0), ("random:17", 3, 17), ("random:0x10", 3, 16),
     ("poison", 4, 0)],
)  # fmt: skip
def test_modes_by_name(text, mode, seed):
    options = Options(9, 99)
    assert library().sim_read_mode(text.encode(), ctypes.byref(options)) & 1
    assert (options.mode, options.seed) == (mode, seed)


@pytest.mark.parametrize(
    "text", ["", "eage", "eagerly", "late:1", "random:", "random:x", "random:1x", ":1", "Late", "poison:0"]
)
def test_unknown_mode_names_change_nothing(text):
    options = Options(9, 99)
    assert not library().sim_read_mode(text.encode(), ctypes.byref(options)) & 1
    assert (options.mode, options.seed) == (9, 99)


def test_kernels_and_variables_by_name():
    before = ".global .align 8 .u64 first = 5;\n.const .u32 second[3] = {1, 2, 3};\n.shared .u32 third;\n"
    before += ".global .u16 behind = 77;\n.const .u32 fifth = 9;\n"
    sim = Sim(body("", before=before) + ".visible .entry other() { ret; }\n.func helper() { ret; }\n")
    lib = sim.lib
    lib.sim_kernel_name.restype = ctypes.c_char_p
    lib.sim_global.restype = ctypes.c_void_p
    assert [lib.sim_kernel_name(sim.module, ctypes.c_size_t(i)) for i in range(3)] == [b"k", b"other", None]
    size = ctypes.c_size_t()
    assert ctypes.c_uint64.from_address(lib.sim_global(sim.module, b"first", ctypes.byref(size))).value == 5
    assert size.value == 8
    address = lib.sim_global(sim.module, b"second", ctypes.byref(size))
    assert (size.value, ctypes.c_uint32.from_address(address + 8).value) == (12, 3)
    address = lib.sim_global(sim.module, b"behind", ctypes.byref(size))
    assert (size.value, ctypes.c_uint16.from_address(address).value) == (2, 77)
    address = lib.sim_global(sim.module, b"fifth", ctypes.byref(size))
    assert (size.value, ctypes.c_uint32.from_address(address).value) == (4, 9)
    assert lib.sim_global(sim.module, b"third", None) is None
    assert lib.sim_global(sim.module, b"fourth", None) is None
    assert sim.launch("helper") == NO_KERNEL


LAUNCHES = {
    "grid of nothing": ({"grid": 0}, "is zero"),
    "a cluster that does not divide": ({"grid": (4, 3, 1), "cluster": (2, 2, 1)}, "does not divide"),
    "too many threads": ({"block": (32, 33, 1)}, "more threads in a block"),
    "seventeen CTAs in a cluster": ({"grid": 17, "cluster": 17}, "more than 16 CTAs in a cluster"),
    "a deep block": ({"block": (1, 1, 65)}, "a block of more than 64 threads in z"),
    "a high grid": ({"grid": (1, 65536, 1)}, "a grid beyond 2147483647 x 65535 x 65535"),
    "a deep grid": ({"grid": (1, 1, 65536)}, "a grid beyond 2147483647 x 65535 x 65535"),
    "a wide grid": ({"grid": (1 << 31, 1, 1)}, "a grid beyond 2147483647 x 65535 x 65535"),
    "too much shared memory": ({"shared": 227 * 1024 + 1}, "more than 227 KB of shared memory"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_illegal_launches_are_refused(name):
    launch, said = LAUNCHES[name]
    sim = Sim(body("mov.u32 %r1, 1;"))
    assert sim.launch("k", 0, **launch) == BAD_ARGUMENT
    assert said in sim.message()
    assert [(f["kind"], f["kernel"], f["warp"]) for f in sim.findings] == [("launch-refused", "k", -1)]
    assert said in sim.findings[0]["message"]
    assert sim.counters.ctas == 0


@pytest.mark.parametrize(
    "launch",
    [
        {"block": (32, 32, 1)},
        {"block": (1, 1, 64)},
        {"grid": 16, "cluster": 16},
        {"shared": 227 * 1024},
        {"grid": (4, 2, 2), "cluster": (2, 2, 1)},
    ],
)
def test_launches_at_the_limits(launch):
    sim = Sim(body("mov.u32 %r1, 1;"))
    assert sim.launch("k", 0, **launch) == OK, sim.message()
    assert sim.verdict == "clean"


def test_the_wrong_number_of_arguments():
    many = ", ".join(f".param .align 4 .b8 p{i}[1{i:03}]" for i in range(1, 17))
    sim = Sim(body("mov.u32 %r1, 1;", params=f".param .u32 p, {many}"))
    assert sim.launch("k", 1) == BAD_ARGUMENT
    sizes = ", ".join(f"1{i:03}" for i in range(1, 16))
    assert re.search(r"1 given.* 17", sim.message()) and f" 4, {sizes}, ... (kernel k)" in sim.message()
    sim = Sim(body("mov.u32 %r1, 1;", params=".param .u64 p, .param .u32 q"))
    assert sim.launch("k", 1) == BAD_ARGUMENT
    assert re.search(r"arguments: 1 given, 2 expected.* 8, 4 \(kernel k\)", sim.message())
    assert sim.launch("k", 1, 2) == OK


def test_functions_without_a_body_are_refused():
    text = HEADER + (
        ".func nowhere();\n.func cudaLaunchDevice();\n.visible .entry far(.param .u64 p) { call nowhere, (); ret; }\n"
        ".visible .entry launches(.param .u64 p) { call cudaLaunchDevice, (); ret; }\n"
    )
    sim = Sim(text)
    for kernel, why in (("far", "calls a function without a body"), ("launches", "launches kernels")):
        assert sim.launch(kernel, 0) == NO_KERNEL
        assert f"it {why}" in sim.message()


def test_dynamic_shared_memory_is_aligned_as_declared():
    text = body(
        "mov.u32 %r1, room; mov.u32 %r2, small; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1;"
        " st.global.u32 [%rd1+4], %r2;",
        before=".extern .shared .align 1024 .b8 room[];\n",
        registers=".shared .align 4 .b8 small[20];",
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(2, np.uint32))
    assert sim.launch("k", out, shared=64, block=1) == OK
    assert out[0] % 1024 == 0
    assert out[0] >= out[1] + 20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 3])
def test_runs_are_repeatable(mode, threads):
    """A racy kernel gives the same findings and values in every run, with any number of workers."""
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r1, 0;"
        " setp.eq.u32 %p2, %r1, 32;",
        "@%p1 st.shared.u32 [%r2], %r1; @%p2 st.shared.u32 [%r2], %r1; ld.shared.u32 %r4, [%r2];"
        " ld.param.u64 %rd1, [p];",
        "mad.lo.u32 %r5, %r3, 64, %r1; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;",
        registers=".shared .align 8 .b8 cell[8];",
    )
    outcomes = []
    for _ in range(2):
        sim = Sim(text, mode, 5, threads)
        out = sim.buffer(np.zeros(64 * 6, np.uint32))
        sim.launch("k", out, grid=6, block=64)
        found = sorted((f["kind"], f["ptx_line"], f["other_ptx_line"], f["times"]) for f in sim.findings)
        outcomes.append((out.tolist(), found, sim.counters.instructions))
    assert outcomes[0] == outcomes[1]


def test_deep_calls_and_divergence_inside_them():
    """Lanes at the same place of a function but from different calls stay separate."""
    function = (
        ".func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<4>; ld.param.u32 %r1, [x]; add.u32 %r1, %r1, %r1;"
        " st.param.b32 [r], %r1; ret; }\n"
        ".func (.param .b32 r) odd(.param .b32 x) { .reg .b32 %r<9>; .reg .pred %p<3>;"
        " ld.param.u32 %r1, [x]; and.b32 %r2, %r1, 1;"
        " setp.eq.u32 %p1, %r2, 0; @%p1 ret; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;"
        " call.uni (b), twice, (a);"
        " ld.param.b32 %r3, [b]; } add.u32 %r3, %r3, 1; st.param.b32 [r], %r3; ret; }\n"
    )
    call = "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {0}; call.uni (b), {1}, (a); ld.param.b32 {0}, [b]; }}"
    text = body(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW;",
        call.format("%r1", "twice") + call.format("%r1", "twice") + "bra END;",
        "LOW: " + call.format("%r1", "twice") + "add.u32 %r1, %r1, 1;" + call.format("%r1", "odd"),
        "END: mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd2;"
        " st.global.u32 [%rd1], %r1;",
        before=function,
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(32, np.uint32))
    assert sim.launch("k", out) == OK, sim.findings
    assert out.tolist() == [2 * (2 * i + 1) + 1 if i < 16 else 4 * i for i in range(32)]


def test_the_instruction_limit_ends_a_run():
    text = body("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100000; @%p1 bra L;")
    sim = Sim(text, limit=100_000)
    assert sim.launch("k", 0) == RUN_ERROR
    assert sim.kinds == {"runaway"}
    assert 100_000 < sim.counters.instructions < 150_000
    assert Sim(text, limit=300_010).launch("k", 0) == OK


def test_parameters_of_a_call_arrive_whole():
    function = (
        ".func (.param .b64 r) mix(.param .b64 x, .param .align 8 .b8 y[16]) { .reg .b64 %rd<5>;"
        " ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y+8]; xor.b64 %rd1, %rd1, %rd2; st.param.b64 [r], %rd1; ret; }\n"
    )
    text = body(
        "mov.u64 %rd2, 0x123456789abcdef0; mov.u64 %rd3, 0xffffffff0000ffff; ld.param.u64 %rd1, [p];",
        "{ .param .b64 a; .param .align 8 .b8 b[16]; .param .b64 c; st.param.b64 [a], %rd2; st.param.b64 [b+8], %rd3;"
        " st.param.b64 [b], %rd1; call.uni (c), mix, (a, b); ld.param.b64 %rd4, [c]; }",
        "st.global.u64 [%rd1], %rd4;",
        before=function,
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(1, np.uint64))
    assert sim.launch("k", out, block=1) == OK, sim.findings
    assert int(out[0]) == 0x123456789ABCDEF0 ^ 0xFFFFFFFF0000FFFF


def test_findings_are_listed_up_to_a_thousand():
    reads = "\n".join(f"ld.shared.u32 %r3, [%r2+{4 * i}];" for i in range(1100))
    sim = Sim(body("mov.u32 %r2, cell;", reads, registers=".shared .align 4 .b8 cell[4400];"))
    sim.launch("k", 0, block=1)
    assert len(sim.findings) == 1000
    assert sim.lib.sim_findings_unlisted(sim.sim) == 100
    sim.lib.sim_clear_findings(sim.sim)
    assert (len(sim.findings), sim.lib.sim_findings_unlisted(sim.sim)) == (0, 0)
    sim.launch("k", 0, block=1)
    assert (len(sim.findings), sim.lib.sim_findings_unlisted(sim.sim)) == (1000, 100)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("ld.shared.u32   %r3,\t[%r2];", "ld.shared.u32 %r3, [%r2];"),
        ("@%p1   ld.shared.u32\n\t %r3 , [ %r2 ] ;", "@%p1 ld.shared.u32 %r3 , [ %r2 ] ;"),
        ("\t\t ld.shared.u32 %r3, [%r2];", "ld.shared.u32 %r3, [%r2];"),
    ],
)
def test_a_finding_shows_its_instruction_with_single_blanks(written, shown):
    lines = ("mov.u32 %r2, cell; setp.eq.u32 %p1, %r2, %r2;", written)
    sim = Sim(body(*lines, registers=".shared .align 4 .b8 cell[4];"))
    sim.launch("k", 0, block=1)
    assert [finding["ptx"] for finding in sim.findings] == [shown]


def test_shared_memory_near_4_gb_is_refused():
    sim = Sim(body("mov.u32 %r1, cell;", registers=".shared .align 16 .b8 cell[64];"))
    for shared in (2**32 - 64, 2**32 - 1):
        assert sim.launch("k", 0, shared=shared) == BAD_ARGUMENT and "227 KB" in sim.message()


# --- the binding: what is so unless it is said ------------------------------------------------------------------

EXTENTS = [f"%{name}.{axis}" for name in ("ntid", "nctaid", "cluster_nctaid") for axis in "xyz"]


def extents(**given):
    """Block, grid and cluster in three dimensions, and bytes of dynamic shared memory."""
    names = [*EXTENTS, "%dynamic_smem_size"]
    adds = [f"mov.u32 %r1, {name}; red.global.max.u32 [%rd1+{4 * i}], %r1;" for i, name in enumerate(names)]
    sim = Sim(body("ld.param.u64 %rd1, [p];" + "".join(adds)))
    seen = sim.buffer(np.zeros(10), np.uint32)
    assert sim.launch("k", seen, **given) == OK, sim.message()
    return seen.tolist()


def test_a_launch_defaults_to_one_warp_without_cluster_or_shared_memory():
    assert extents() == [32, 1, 1, *[1] * 6, 0]
    assert extents(grid=3, block=(4, 2, 1), shared=96) == [4, 2, 1, 3, 1, 1, *[1] * 3, 96]
    assert extents(grid=(4, 2, 1), cluster=(2, 1, 1)) == [32, 1, 1, 4, 2, 1, 2, 1, 1, 0]


def test_there_is_no_time_unless_it_is_simulated():
    assert Sim(body("")).time is None and Sim(body(""), chip="h200").time is not None


def test_a_tensor_map_defaults_to_the_whole_array():
    sim, array = Sim(body("")), aligned((2, 8, 64), np.uint8)
    whole = {"swizzle": 0, "sizes": [64, 8, 2], "strides": [64, 512], "fill": 0}
    plain = sim.tensor_map(array, 0, [16, 4, 1])
    assert len(plain) == 128 and plain == sim.tensor_map(array, 0, [16, 4, 1], **whole)
    # Strides are given innermost first, too.
    assert (
        plain
        == sim.tensor_map(array, 0, [16, 4, 1], strides=[64, 512])
        != sim.tensor_map(array, 0, [16, 4, 1], strides=[512, 64])
    )
    for name, other in (("sizes", [32, 8, 2]), ("strides", [128, 512]), ("swizzle", 1)):
        assert sim.tensor_map(array, 0, [16, 4, 1], **{name: other}) != plain, name
    halves = aligned((8, 64), np.uint16)
    assert sim.tensor_map(halves, 6, [16, 4], fill=1) != sim.tensor_map(halves, 6, [16, 4])
    with pytest.raises(ValueError, match="box"):
        sim.tensor_map(array, 0, [16, 4, 3000])


def test_arguments_are_encoded_in_their_parameters_sizes():
    names = {"b8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8}
    parameters = ", ".join(f".param .{kind} a_{kind}" for kind in names) + ", .param .align 4 .b8 a_bytes[12]"
    sim = Sim(body("").replace(".param .u64 p", parameters))
    encoded = Module(sim, sim.module)._bytes
    for index, (value, content) in enumerate(
        ((-1, b"\xff"), (0x2345, b"\x45\x23"), (-2, b"\xfe\xff\xff\xff"), (1 << 40, b"\0" * 5 + b"\1\0\0"))
    ):
        assert encoded("k", index, value) == content
    assert encoded("k", 4, 1.5) == np.float32(1.5).tobytes()
    assert encoded("k", 5, 0.1) == np.float64(0.1).tobytes()
    assert encoded("k", 6, b"abc") == b"abc" + b"\0" * 9
    with pytest.raises(ValueError, match="2 bytes"):
        encoded("k", 1, 0x12345)
    assert encoded("k", 3, (array := aligned(4)).ctypes.data) == array.ctypes.data.to_bytes(8, "little")


class Progress(ctypes.Structure):
    """struct sim_progress, member by member."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("ctas", "ended", "instructions", "expected", "size", "began_ns")),
        ("kernel", ctypes.c_char * 200),
    )


def test_a_launch_is_expected_to_do_what_the_one_before_did_if_kernel_and_size_are_the_same():
    lib, progress = library(), Progress()
    options = Options(progress=ctypes.cast(ctypes.pointer(progress), ctypes.c_void_p))
    sim = ctypes.c_void_p(lib.sim_create(ctypes.byref(options)))
    text = (body("mov.u32 %r1, 1;") + ".visible .entry other(.param .u64 p) { ret; }\n").encode()
    lib.sim_load.restype = ctypes.c_void_p
    module = ctypes.c_void_p(lib.sim_load(sim, text, ctypes.c_size_t(len(text))))
    argument = ctypes.c_uint64(0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    one = (ctypes.c_uint32 * 3)(1, 1, 1)
    seen = []
    for kernel, ctas in ((b"k", 2), (b"k", 2), (b"other", 2), (b"other", 2), (b"other", 3)):
        grid = (ctypes.c_uint32 * 3)(ctas, 1, 1)
        launch = Launch(grid, one, one, arguments=ctypes.cast(arguments, ctypes.c_void_p), count=1)
        assert lib.sim_launch(sim, module, kernel, ctypes.byref(launch)) == OK
        seen.append((progress.expected, progress.instructions))
    lib.sim_destroy(sim)
    mov_and_ret, ret = 2 * 2, 2 * 1  # of two CTAs of a warp
    assert seen == [(0, mov_and_ret), (mov_and_ret, mov_and_ret), (0, ret), (ret, ret), (0, 3)]
