"""A worker's answer has the requested form or raises Garbled, and no other exception."""

from __future__ import annotations

import json

import pytest

from eval.workers.answers import MESSAGE_BYTES, Garbled, strict_json, tagged, text_in, time_us

KINDS = frozenset(("ok", "fail"))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"rubbish",
        b"\xff\xfe",
        b"{",
        b"1 2",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"9" * 5000,
        b"-" + b"9" * 21,
        b'{"a": 1, "a": 2}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'"' + b"x" * MESSAGE_BYTES + b'"',
    ],
)
def test_what_is_no_plain_json_is_garbled(raw):
    with pytest.raises(Garbled) as error:
        strict_json(raw)
    assert len(str(error.value)) < 300 and str(error.value).isprintable()


def test_plain_json_is_taken_as_it_is():
    value = {"a": [1, -2.5, "\u00e9", None, True], "b": {"c": 2**63}}
    assert strict_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "value", [None, 1, "ok", [], ["ok"], {}, {"ok": 1, "fail": 2}, {"other": 1}, {"\x1b[2J": 1}, {"": 1}]
)
def test_a_message_has_one_name_that_is_known(value):
    with pytest.raises(Garbled) as error:
        tagged(json.dumps(value).encode(), KINDS)
    assert str(error.value).isprintable()
    assert tagged(b'{"ok": [1]}', KINDS) == ("ok", [1])


@pytest.mark.parametrize("value", [None, 1, ["a"], {"a": 1}, True, b"x"])
def test_a_text_is_a_text(value):
    with pytest.raises(Garbled):
        text_in(value)


def test_a_text_is_clean_and_short():
    assert text_in("it broke:\x1b[2J\ud800") == "it broke:\\x1b[2J\\ud800"
    assert len(text_in("x" * 100_000)) < 5000


@pytest.mark.parametrize(
    "value", [None, "5", "nan", True, [1], {}, 0, 0.0, -1.0, -0.0, 1e13, float("nan"), float("inf")]
)
def test_a_time_is_a_positive_number_of_ordinary_size(value):
    with pytest.raises(Garbled):
        time_us(value)
    assert time_us(3) == 3.0 and type(time_us(3)) is float
