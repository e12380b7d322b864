"""Case files: valid lines, and the errors for invalid ones."""

from __future__ import annotations

import pytest
import torch

from eval.cases import CasesError, mixed_seed, parse_case, read_cases

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")
REST = "; n: 2; k: 64; l: 4; seed: 5"


@pytest.mark.parametrize(
    "line", ["m: 3" + REST, "  m :3" + REST + "; ", "m: +3" + REST + ";;", "seed: 5; l:4;k: 64;n: 2;m:3"]
)
def test_a_spec_may_be_spaced_and_ordered_freely(line):
    case = parse_case(line)
    assert case == ((3, 2, 64, 4), 5, line.strip())
    assert (case.shape.m, case.shape.n, case.shape.k, case.shape.l) == (3, 2, 64, 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m 1" + REST, "'m 1' is not `name: integer`"),
        ("m: 1.5" + REST, "'m: 1.5' is not `name: integer`"),
        ("m: 1 2" + REST, "'m: 1 2' is not `name: integer`"),
        ("m: --1" + REST, "'m: --1' is not `name: integer`"),
        ("m: " + "9" * 5000 + REST, "m has 5000 digits; expected at most 19"),
        ("m: \u0661" + REST, "'m: \u0661' is not `name: integer`"),
        ("m: \x1b[2J" + REST, "'m: \\x1b[2J' is not `name: integer`"),
        ("M: 1" + REST, "'M' is unknown; expected ('m', 'n', 'k', 'l', 'seed')"),
        ("m: 1; l: 1" + REST, "'l' is repeated; expected ('m', 'n', 'k', 'l', 'seed')"),
        ("m: 0" + REST, "m is 0; expected at least 1"),
        ("m: 1; n: 0; k: 64; l: 1; seed: 0", "n is 0; expected at least 1"),
        ("m: 1; n: 1; k: 0; l: 1; seed: 0", "k is 0; expected at least 1"),
        ("m: 1; n: 1; k: 64; l: -1; seed: 0", "l is -1; expected at least 1"),
        ("m: 1; n: 1; k: 32; l: 1; seed: 0", "k is 32; expected a multiple of 64"),
        ("m: 1; n: 1; k: 64; l: 1; seed: -1", "seed is -1; expected at least 0"),
        ("m: 1; n: 1; l: 1", "no value for k, seed"),
        ("m: 1; k: 64; l: 1", "no value for seed"),
        ("", "no value for m, n, k, l, seed"),
    ],
)
def test_what_is_wrong_with_a_spec_is_told_in_full(line, message):
    with pytest.raises(CasesError) as error:
        parse_case(line)
    assert str(error.value) == message


def test_ones_and_a_seed_of_zero_are_enough():
    assert parse_case("m: 1; n: 1; k: 64; l: 1; seed: 0")[:2] == ((1, 1, 64, 1), 0)


def test_a_secret_seed_reaches_every_case_of_a_file(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(f"\n   \n{SPEC}  \n\n m: 1; n: 1; k: 64; l: 1; seed: 7")
    assert [case.seed for case in read_cases(path)] == [1111, 7]
    assert [case.seed for case in read_cases(str(path), 4)] == [1111 + 1115 * 1116 // 2, 7 + 11 * 12 // 2]
    assert [case.spec for case in read_cases(path, 4)] == [SPEC, "m: 1; n: 1; k: 64; l: 1; seed: 7"]
    assert isinstance(mixed_seed(2**40, 2**40 + 1), int)
    assert mixed_seed(2**40, 2**40 + 1) == 2**40 + (2**41 + 1) * (2**41 + 2) // 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\n", "{path} holds no case"),
        (b"", "{path} holds no case"),
        (SPEC.encode() + b"\n\nm: 1\n", "{path}:3: no value for n, k, l, seed"),
        (b"m: x", "{path}:1: 'm: x' is not `name: integer`"),
        (b"\xff\xfe", "cannot read {path}: "),
        (b"m: 1; n: 1; k: 64; l: 1; seed: 1\n" * 40000, "{path} is not a case file: longer than 1048576 bytes"),
        (None, "cannot read {path}: "),
    ],
)
def test_a_bad_file_is_told_with_its_line(tmp_path, content, message):
    path = tmp_path / "cases.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CasesError) as error:
        read_cases(path)
    wanted = message.format(path=path)
    assert str(error.value).startswith(wanted) if wanted.endswith(": ") else str(error.value) == wanted


def test_a_byte_order_mark_is_no_part_of_the_first_case(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(SPEC, encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_cases(path) == [CASE]


def test_leading_zeros_do_not_count_as_digits():
    assert parse_case("m: " + "0" * 30 + "7" + REST).shape.m == 7
