"""Tensor maps that a kernel changes: tensormap.replace, and the synchronisation needed before a copy uses them."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim
from simulator.validation.mutants.changed_maps import COLUMNS, COPY, MUTANTS, REPLACE, ROWS, STORES, WAIT, kernel, run


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", [COPY, STORES], ids=["cp_fenceproxy", "stores"])
def test_a_map_whose_address_the_kernel_replaces(mode, copy):
    sim, source, out = run(kernel(copy=copy), mode)
    assert sim.verdict == "clean", sim.findings
    assert (out == source).all()


def test_replaced_sizes_and_boxes_count():
    fields = (
        REPLACE.format("global_dim", "b32", "1, 5")  # rows from the sixth on are outside
        + REPLACE.format("fill_mode", "b32", "0")
        + REPLACE.format("elemtype", "b32", "2")
        + REPLACE.format("rank", "b32", "1")
        + REPLACE.format("box_dim", "b32", f"0, {COLUMNS}")
        + REPLACE.format("element_stride", "b32", "0, 1")
        + REPLACE.format("swizzle_mode", "b32", "0")
        + "mov.u64 %rd9, 64;"
        + REPLACE.format("global_stride", "b64", "0, %rd9")
    )
    sim, source, out = run(kernel(fields))
    assert sim.verdict == "clean", sim.findings
    assert (out[:, :5] == source[:, :5]).all()
    assert (out[:, 5:] == 0).all()


# Replaces every field of a map except its address.
ALL_FIELDS = "".join(
    REPLACE.format(field, kind, value)
    for field, kind, value in [
        ("rank", "b32", "1"),
        ("box_dim", "b32", f"0, {COLUMNS}"),
        ("box_dim", "b32", f"1, {ROWS}"),
        ("global_dim", "b32", f"0, {COLUMNS}"),
        ("global_dim", "b32", f"1, {ROWS}"),
        ("global_stride", "b64", "0, %rd9"),
        ("element_stride", "b32", "0, 1"),
        ("element_stride", "b32", "1, 1"),
        ("elemtype", "b32", "2"),
        ("interleave_layout", "b32", "0"),
        ("swizzle_mode", "b32", "0"),
        ("swizzle_atomicity", "b32", "0"),
        ("fill_mode", "b32", "0"),
    ]
)
FROM_NOTHING = ("st.shared.u32 [%r7], %r6;", "mov.u64 %rd9, 64; st.shared.u32 [%r7], 0;")


def test_a_map_made_from_zeros_by_the_kernel():
    """The kernel writes 128 zero bytes and then replaces every field, as Triton's kernels do."""
    text = kernel(ALL_FIELDS).replace(*FROM_NOTHING)
    for mode in MODES:
        sim, source, out = run(text, mode)
        assert sim.verdict == "clean", sim.findings
        assert (out == source).all()
    for field in ("rank", "box_dim", "global_dim", "element_stride"):  # all fields but this one
        some = [line for line in ALL_FIELDS.split(";") if f".{field}." not in line]
        sim, _, _ = run(kernel(";".join(some)).replace(*FROM_NOTHING))
        assert sim.kinds == {"tensor-map"}, (field, sim.findings)


def test_bytes_that_are_not_all_zero_are_not_a_blank_map():
    sim, _, _ = run(kernel(ALL_FIELDS).replace(*FROM_NOTHING).replace("[%r7], 0;", "[%r7], %r1;"))
    assert "there is no tensor map" in sim.findings[0]["message"]


@pytest.mark.parametrize("copy", [COPY, STORES], ids=["cp_fenceproxy", "stores"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_change_out_of_order_is_found_in_every_mode(name, copy):
    before, after, kind = MUTANTS[name]
    text = kernel(copy=copy)
    assert text.count(before) == 1
    for mode in MODES:
        sim, _, _ = run(text.replace(before, after), mode)
        assert kind in sim.kinds, (mode, sim.findings)
        assert sim.verdict == "error"


def test_an_illegal_map_is_refused_when_it_is_used():
    sim, _, _ = run(kernel(REPLACE.format("box_dim", "b32", "0, 3")))
    finding = next(f for f in sim.findings if f["kind"] == "tensor-map")
    assert "the tensor map that the kernel made: the box's rows have 12 bytes" in finding["message"]


@pytest.mark.parametrize(
    ("field", "value", "also"),
    [
        ("interleave_layout", 1, ""),
        ("swizzle_mode", 4, ""),  # PTX ISA: 4 is a swizzle of 96 bytes; the driver's fourth mode is another
        ("swizzle_atomicity", 1, ""),  # the map has no swizzle of 128 bytes
        ("swizzle_mode", 2, REPLACE.format("swizzle_mode", "b32", 3) + REPLACE.format("swizzle_atomicity", "b32", 2)),
    ],
)
def test_a_field_that_is_not_modelled_is_incomplete(field, value, also):
    sim, _, _ = run(kernel(also + REPLACE.format(field, "b32", value)))
    assert sim.verdict == "incomplete"
    assert field in sim.findings[0]["message"]


@pytest.mark.parametrize("order", [("swizzle_mode", "swizzle_atomicity"), ("swizzle_atomicity", "swizzle_mode")])
def test_a_swizzle_and_its_atoms_are_replaced_one_by_one(order):
    """Rows of 64 bytes, 128 bytes apart: in every second row the 64-byte atoms are swapped."""
    values = {"swizzle_mode": 3, "swizzle_atomicity": 3}
    fields = "".join(REPLACE.format(field, "b32", values[field]) for field in order)
    if order[0] == "swizzle_atomicity":  # atoms need a swizzle of 128 bytes first
        fields = REPLACE.format("swizzle_mode", "b32", 3) + fields
    sim, source, out = run(kernel(fields).replace(f"tile[{4 * ROWS * COLUMNS}]", "tile[1024]"))
    assert sim.verdict == "clean", sim.findings
    for row, line in enumerate(out[0].reshape(4, 32)):  # rows of shared memory, from its start
        assert (line[16 * (row % 2) :][:COLUMNS] == source[0, row]).all()


@pytest.mark.parametrize(("offset", "kinds"), [(0, {"tensor-map-in-use"}), (124, {"tensor-map-in-use"}), (128, set())])
def test_a_store_to_any_word_of_a_map_changes_it(offset, kinds):
    """A store of an unchanged word, while a copy may read the map, is an error inside the map but not behind it."""
    touch = f"@!%p1 ld.global.u32 %r22, [%rd2+{offset}]; @!%p1 st.global.u32 [%rd2+{offset}], %r22;"
    text = kernel().replace(WAIT, f"add.u32 %r18, %r10, 0; {touch}" + WAIT)
    for mode in MODES:
        sim = Sim(text, mode, 3)
        source = sim.buffer(np.arange(2 * ROWS * COLUMNS, dtype=np.uint32).reshape(2, ROWS, COLUMNS) + 7)
        out, maps = sim.buffer(np.zeros_like(source)), sim.buffer(np.zeros(64, np.uint32))
        sim.launch("k", out, sim.tensor_map(source[0], 2, (COLUMNS, ROWS)), maps, source)
        assert sim.kinds == kinds, (mode, sim.findings)


# PTX ISA, tensormap.replace: .elemtype's values and the bytes of an element
ELEMENTS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}


@pytest.mark.parametrize("code", ELEMENTS)
def test_element_types_by_their_code(code):
    """Copies 64-byte rows with each element type: a wrong size would leave the barrier's phase incomplete."""
    count = 4 * COLUMNS // ELEMENTS[code]
    fields = REPLACE.format("elemtype", "b32", str(code))
    for field in ("box_dim", "global_dim"):
        fields += REPLACE.format(field, "b32", f"0, {count}")
    sim, source, out = run(kernel(fields))
    assert sim.verdict == "clean", sim.findings
    assert code in (11, 12) or (out == source).all()


@pytest.mark.parametrize("address", [0, 64, 1 << 40])
def test_a_map_outside_memory_ends_the_launch_with_one_finding(address):
    sim, _, out = run(kernel().replace("[%rd2, {%r13, %r13}]", f"[{address}, {{%r13, %r13}}]"))
    assert sim.verdict == "error" and len(sim.findings) == 1, sim.findings
    assert sim.findings[0]["kind"] == "out-of-bounds" and "read of 128 bytes" in sim.findings[0]["message"]
    assert (out == 0).all()
