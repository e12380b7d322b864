"""reference/nvfp4.py against the formats' definitions, written here as bit arithmetic and loops."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import nvfp4

quick = settings(max_examples=50, deadline=None)


def e2m1(code: int) -> Fraction:
    """Sign, two exponent bits with bias 1, one mantissa bit; exponent 0 is subnormal."""
    sign = -1 if code >> 3 else 1
    exponent, mantissa = code >> 1 & 3, code & 1
    magnitude = Fraction(mantissa, 2) if exponent == 0 else Fraction(2 + mantissa, 2) * 2 ** (exponent - 1)
    return sign * magnitude


def ue4m3(byte: int) -> Fraction | None:
    """Four exponent bits with bias 7, three mantissa bits, the sign bit ignored; None is NaN."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return None
    if exponent == 0:
        return Fraction(mantissa, 8) * Fraction(1, 2**6)
    return Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7)


def nearest_code(value: Fraction, negative: bool) -> int:
    """The code of the nearest magnitude; the even code of two equally near."""
    code = min(range(8), key=lambda candidate: (abs(e2m1(candidate) - abs(value)), candidate & 1))
    return code | negative << 3


def pack(codes: list[int]) -> torch.Tensor:
    """A row of codes, the even k in the low nibble."""
    return torch.tensor([[low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True)]]).to(torch.uint8)


def same(got: float, want: Fraction | None) -> bool:
    return math.isnan(got) if want is None else Fraction(got) == want


# --- e2m1 -------------------------------------------------------------------------------------------------


def test_every_code_decodes_to_its_definition():
    decoded = nvfp4.decode_e2m1(pack(list(range(16)))).tolist()[0]
    assert [Fraction(value) for value in decoded] == [e2m1(code) for code in range(16)]


def test_minus_zero_keeps_its_sign():
    low, high = nvfp4.decode_e2m1(pack([8, 0])).tolist()[0]
    assert math.copysign(1, low) == -1 and math.copysign(1, high) == 1


def test_the_low_nibble_is_the_even_k():
    for byte in range(256):
        decoded = nvfp4.decode_e2m1(torch.tensor([[byte]], dtype=torch.uint8)).tolist()
        assert decoded == [[float(e2m1(byte & 15)), float(e2m1(byte >> 4))]]


def test_codes_of_torchs_own_dtype_decode_in_every_layout():
    codes = torch.arange(96, dtype=torch.uint8).reshape(3, 8, 4)
    wanted = nvfp4.decode_e2m1(codes)
    assert torch.equal(nvfp4.decode_e2m1(codes.view(torch.float4_e2m1fn_x2)), wanted)
    transposed = codes.permute(2, 0, 1).contiguous().permute(1, 2, 0)  # the same values over other strides
    assert torch.equal(nvfp4.decode_e2m1(transposed), wanted)


def test_every_code_survives_a_round_trip():
    codes = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    assert torch.equal(nvfp4.encode_e2m1(nvfp4.decode_e2m1(codes)), codes)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.25, 0.0), (0.75, 1.0), (1.25, 1.0), (1.75, 2.0), (2.5, 2.0), (3.5, 4.0), (5.0, 4.0)],
)
def test_ties_go_to_the_even_code_and_neighbours_to_the_nearest(value, rounded, sign):
    at = torch.tensor([[value, value]], dtype=torch.float64) * sign
    assert nvfp4.decode_e2m1(nvfp4.encode_e2m1(at)).tolist() == [[rounded * sign] * 2]
    below, above = math.nextafter(value, 0), math.nextafter(value, 9)
    around = torch.tensor([[below, above]], dtype=torch.float64) * sign
    ladder = nvfp4.E2M1_MAGNITUDES
    index = next(i for i in range(7) if ladder[i] < value < ladder[i + 1])
    assert nvfp4.decode_e2m1(nvfp4.encode_e2m1(around)).tolist() == [[ladder[index] * sign, ladder[index + 1] * sign]]


def test_magnitudes_above_six_saturate():
    values = torch.tensor([[6.5, -7.0, math.inf, -math.inf, 1e30, -1e30]])
    assert nvfp4.decode_e2m1(nvfp4.encode_e2m1(values)).tolist() == [[6.0, -6.0] * 3]


def test_encode_refuses_nan_and_odd_widths():
    with pytest.raises(ValueError, match="NaN"):
        nvfp4.encode_e2m1(torch.tensor([[1.0, math.nan]]))
    with pytest.raises(ValueError, match="3 columns; expected an even number"):
        nvfp4.encode_e2m1(torch.zeros(2, 3))


@quick
@given(st.lists(st.floats(-8, 8), min_size=2, max_size=12).filter(lambda values: len(values) % 2 == 0))
def test_encode_picks_the_nearest_code(values):
    wanted = pack([nearest_code(Fraction(value), math.copysign(1, value) < 0) for value in values])
    assert torch.equal(nvfp4.encode_e2m1(torch.tensor([values], dtype=torch.float64)), wanted)


# --- e4m3 -------------------------------------------------------------------------------------------------


def test_every_scale_byte_decodes_to_its_definition():
    decoded = nvfp4.decode_scales(torch.arange(256, dtype=torch.uint8)).tolist()
    for byte, value in enumerate(decoded):
        assert same(value, ue4m3(byte)), f"byte {byte:#04x} decodes to {value}"
        assert math.copysign(1, value) == 1 or math.isnan(value)


def test_every_scale_byte_is_the_magnitude_of_torchs_e4m3fn():
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    assert torch.equal(nvfp4.decode_scales(every).nan_to_num(-1), every.float().abs().nan_to_num(-1))
    assert [byte for byte in range(256) if ue4m3(byte) is None] == [nvfp4.SCALE_NAN, 0xFF]
    assert ue4m3(nvfp4.SCALE_MAX_FINITE) == 448


# --- values -----------------------------------------------------------------------------------------------


@quick
@given(st.integers(1, 3), st.integers(1, 3), st.randoms(use_true_random=False))
def test_values_are_codes_times_their_groups_scale(rows, groups, random):
    codes = [[random.randrange(16) for _ in range(16 * groups)] for _ in range(rows)]
    scales = [[random.randrange(256) for _ in range(groups)] for _ in range(rows)]
    decoded = nvfp4.decode(torch.cat([pack(row) for row in codes]), torch.tensor(scales, dtype=torch.uint8)).tolist()
    for row in range(rows):
        for k in range(16 * groups):
            scale = ue4m3(scales[row][k // 16])
            wanted = None if scale is None else e2m1(codes[row][k]) * scale
            assert same(decoded[row][k], wanted), f"row {row}, k {k}"


# --- the blocked layout -----------------------------------------------------------------------------------


def blocked_memory(scales: list[list[list[int]]], padding: int) -> list[int]:
    """scales[row][group][batch] -> bytes in memory order, by the definition: 512-byte tiles of 128 rows by 4 groups."""
    rows, groups, batches = len(scales), len(scales[0]), len(scales[0][0])
    tiles_m, tiles_k = (rows + 127) // 128, (groups + 3) // 4
    memory = [padding] * (batches * tiles_m * tiles_k * 512)
    for row in range(rows):
        for group in range(groups):
            for batch in range(batches):
                tile = (batch * tiles_m + row // 128) * tiles_k + group // 4
                memory[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + group % 4] = scales[row][group][batch]
    return memory


def numbered(rows: int, groups: int, batches: int) -> torch.Tensor:
    """Scale bytes equal to their index modulo a prime, (rows, groups, L) over memory (L, rows, groups)."""
    count = torch.arange(rows * groups * batches) % 251
    return count.to(torch.uint8).reshape(batches, rows, groups).permute(1, 2, 0)


shapes = pytest.mark.parametrize(
    ("rows", "groups", "batches"), [(1, 1, 1), (128, 4, 1), (129, 5, 2), (40, 4, 3), (300, 9, 1), (256, 16, 2)]
)


@shapes
def test_blocked_memory_is_as_defined_byte_by_byte(rows, groups, batches):
    scales = numbered(rows, groups, batches)
    blocked = nvfp4.to_blocked(scales, padding=0xEE)
    tiles_m, tiles_k = math.ceil(rows / 128), math.ceil(groups / 4)
    assert blocked.dtype is torch.float8_e4m3fn
    assert blocked.shape == (32, 4, tiles_m, 4, tiles_k, batches)
    assert blocked.stride() == (16, 4, tiles_k * 512, 1, 512, tiles_m * tiles_k * 512)
    memory = nvfp4.as_bytes(blocked).permute(5, 2, 4, 0, 1, 3).reshape(-1).tolist()
    assert memory == blocked_memory(scales.tolist(), 0xEE)


@shapes
def test_blocked_index_finds_each_rows_factor(rows, groups, batches):
    scales, blocked = numbered(rows, groups, batches), nvfp4.as_bytes(nvfp4.to_blocked(numbered(rows, groups, batches)))
    for row in {0, rows // 2, rows - 1}:
        for group in range(groups):
            for batch in range(batches):
                index = (row % 32, row % 128 // 32, row // 128, group % 4, group // 4, batch)
                assert blocked[index] == scales[row, group, batch]


@shapes
def test_from_blocked_inverts_to_blocked(rows, groups, batches):
    scales = numbered(rows, groups, batches)
    back = nvfp4.from_blocked(nvfp4.to_blocked(scales), rows, groups)
    assert torch.equal(nvfp4.as_bytes(back), scales)
    assert back.permute(2, 0, 1).is_contiguous()


def test_padding_is_nan_unless_asked_otherwise():
    scales = torch.zeros(129, 5, 1, dtype=torch.uint8)
    padded = nvfp4.to_blocked(scales)
    assert padded.float().isnan().sum() == padded.numel() - scales.numel()
    assert not nvfp4.to_blocked(scales, padding=0).float().isnan().any()


@quick
@given(st.integers(1, 140), st.integers(1, 6), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_any_scales_survive_a_round_trip(rows, groups, batches, seed):
    generator = torch.Generator().manual_seed(seed)
    scales = torch.randint(0, 256, (rows, groups, batches), dtype=torch.uint8, generator=generator)
    assert torch.equal(nvfp4.as_bytes(nvfp4.from_blocked(nvfp4.to_blocked(scales), rows, groups)), scales)


def test_tables_are_made_where_the_codes_are():
    """torch's meta device refuses an operation that mixes devices."""
    meta = torch.device("meta")
    codes = torch.empty((5, 8), dtype=torch.uint8, device=meta)
    decoded = nvfp4.decode_e2m1(codes)
    assert (decoded.device, decoded.shape, decoded.dtype) == (meta, (5, 16), torch.float32)
