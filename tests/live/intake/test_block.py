from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError
from cgsa.live.intake.block import (
    MAGIC,
    MAX_BYTES,
    MAX_CHANNELS,
    MAX_HEADER_BYTES,
    MAX_RATE,
    MAX_SAMPLES,
    MAX_SEQUENCE,
    MAX_TIME,
    MIN_RATE,
    Block,
    check_machine,
)

NOISE: FloatArray = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
BLOCK = Block("pump-3", 7, 1.7e9, 12_800.0, ("x", "y"), NOISE)
HEADER = {
    "machine": "pump-3",
    "sequence": 7,
    "time": 1.7e9,
    "sample_rate": 12800.0,
    "channels": ["x", "y"],
    "samples": 5,
}

samples_of_any_kind = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(width=32, allow_nan=True, allow_infinity=True),
)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Cn", "Co", "Zs", "Zl", "Zp")), min_size=1
)

conditions_of_any_kind = st.dictionaries(
    names.filter(lambda n: len(n) <= 64), st.floats(allow_nan=False, allow_infinity=False), max_size=3
)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    samples = draw(samples_of_any_kind)
    channels = draw(
        st.lists(names.filter(lambda n: len(n) <= 64), min_size=len(samples), max_size=len(samples), unique=True)
    )
    return Block(
        machine=draw(st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", fullmatch=True)),
        sequence=draw(st.integers(0, MAX_SEQUENCE)),
        time=draw(st.floats(0, MAX_TIME, exclude_max=True)),
        sample_rate=draw(st.floats(MIN_RATE, MAX_RATE)),
        channels=tuple(channels),
        samples=samples,
        conditions=draw(conditions_of_any_kind),
    )


def with_checksum(front: bytes, header: bytes, samples: bytes) -> bytes:
    """Return a binary block as any sender may write it."""
    body = front + header + samples
    return body + struct.pack("<I", zlib.crc32(body))


def encoded(header: object, samples: bytes = NOISE.tobytes()) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return with_checksum(struct.pack("<4sHI", MAGIC, 1, len(text)), text, samples)


def assert_same(found: Block, expected: Block) -> None:
    assert (found.machine, found.sequence, found.time) == (expected.machine, expected.sequence, expected.time)
    assert (found.sample_rate, found.channels) == (expected.sample_rate, expected.channels)
    assert found.conditions == expected.conditions
    assert found.samples.dtype == np.float32
    # Compare bits, since zero equals minus zero; the bits of a NaN may differ.
    nan = np.isnan(expected.samples)
    np.testing.assert_array_equal(np.isnan(found.samples), nan)
    np.testing.assert_array_equal(found.samples.view(np.uint32)[~nan], expected.samples.view(np.uint32)[~nan])


@given(block=blocks())
def test_both_encodings_restore_every_bit(block: Block) -> None:
    assert_same(Block.from_bytes(block.to_bytes()), block)
    assert_same(Block.from_json(block.to_json()), block)
    assert_same(Block.from_json(block.to_json().encode()), block)


@given(block=blocks())
def test_a_decoded_block_returns_the_bytes_it_was_decoded_from(block: Block) -> None:
    data = block.to_bytes()
    decoded = Block.from_bytes(data)
    assert decoded.to_bytes() is data
    assert_same(Block.from_bytes(decoded.to_bytes()), block)


@given(block=blocks(), sequence=st.integers(0, MAX_SEQUENCE))
def test_a_changed_copy_of_a_decoded_block_is_encoded_anew(block: Block, sequence: int) -> None:
    changed = replace(Block.from_bytes(block.to_bytes()), sequence=sequence)
    assert changed.to_bytes() == replace(block, sequence=sequence).to_bytes()


def test_a_header_written_in_another_way_is_encoded_in_ours() -> None:
    unusual = encoded(json.dumps(dict(reversed(HEADER.items())), indent=1).encode())
    assert Block.from_bytes(unusual).to_bytes() == BLOCK.to_bytes() != unusual


def test_binary_encoding_matches_the_documentation() -> None:
    assert BLOCK.to_bytes() == encoded(HEADER)


def test_json_encoding_is_standard_json() -> None:
    odd = replace(BLOCK, samples=np.array([[1.5, np.nan], [np.inf, -np.inf]], np.float32))

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    assert json.loads(odd.to_json(), parse_constant=refuse)["samples"] == [[1.5, None], [4e38, -4e38]]


def test_samples_need_not_be_contiguous() -> None:
    wide = np.arange(20, dtype=np.float32).reshape(2, 10)
    assert_same(Block.from_bytes(replace(BLOCK, samples=wide[:, ::2]).to_bytes()), replace(BLOCK, samples=wide[:, ::2]))


def test_decoded_samples_are_an_aligned_copy() -> None:
    found = Block.from_bytes(BLOCK.to_bytes()).samples
    assert found.flags.writeable
    assert found.flags.aligned


def test_duration_follows_from_the_sample_rate() -> None:
    assert BLOCK.count == 5
    assert BLOCK.seconds == 5 / 12_800


def test_every_truncation_is_refused() -> None:
    data = BLOCK.to_bytes()
    for size in range(len(data)):
        with pytest.raises(DataError):
            Block.from_bytes(data[:size])
    for text in (BLOCK.to_json(), BLOCK.to_json()[:-1] + " "):
        for size in range(len(text) - 1):
            with pytest.raises(DataError):
                Block.from_json(text[:size])


def test_every_single_flipped_bit_is_refused() -> None:
    data = BLOCK.to_bytes()
    for place in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(DataError):
            Block.from_bytes(bytes(damaged))


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(DataError, match="checksum"):
        Block.from_bytes(BLOCK.to_bytes() + b"\0")
    with pytest.raises(DataError, match=r"44 bytes of samples; expected 40 for 5 samples of 2 channels"):
        Block.from_bytes(encoded(HEADER, NOISE.tobytes() + b"\0\0\0\0"))


@given(data=st.binary(max_size=200))
@example(MAGIC)
@example(b"")
def test_arbitrary_bytes_raise_only_data_errors(data: bytes) -> None:
    for given_ in (data, MAGIC + data, with_checksum(MAGIC, b"", data), encoded(data)):
        with pytest.raises(DataError):
            Block.from_bytes(given_)
    with pytest.raises(DataError):
        Block.from_json(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    changes=st.dictionaries(st.sampled_from([*HEADER, "conditions", "other"]), json_values, max_size=3),
    whole=json_values,
)
@settings(max_examples=300)
def test_arbitrary_json_raises_only_data_errors(changes: dict[str, object], whole: object) -> None:
    def from_bytes(text: str) -> Block:
        return Block.from_bytes(encoded(text.encode()))

    for table in (whole, {**HEADER, **changes}, {**HEADER, "samples": [[1.0], [2.0]], **changes}):
        for read in (Block.from_json, from_bytes):
            try:
                found = read(json.dumps(table))
            except DataError:
                continue
            assert_same(Block.from_bytes(found.to_bytes()), found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": ".hidden"}, "no dot first"),
        ({"machine": "a/b"}, "letters, digits"),
        ({"machine": ""}, "letters, digits"),
        ({"machine": "a\n"}, "letters, digits"),
        ({"machine": "ö"}, "letters, digits"),
        ({"machine": "a" * 65}, "1 to 64"),
        ({"machine": 3}, "expected a name"),
        ({"sequence": -1}, "sequence -1; expected 0 to"),
        ({"sequence": 2**63}, "expected 0 to"),
        ({"sequence": True}, "sequence True; expected an integer"),
        ({"sequence": 1.0}, "sequence 1.0; expected an integer"),
        ({"time": -1.0}, "time -1; expected seconds since 1970"),
        ({"time": 1.7e12}, "before the year 10,000"),
        ({"time": "now"}, "time 'now'; expected a number"),
        ({"time": None}, "time None; expected a number"),
        ({"time": False}, "time False; expected a number"),
        ({"time": 10**400}, "expected a smaller number"),
        ({"sample_rate": 0}, "sample rate 0 Hz"),
        ({"sample_rate": -12800}, "sample rate -12800 Hz"),
        ({"sample_rate": 1e12}, r"expected 0.001 to 1e\+07 Hz"),
        ({"channels": []}, "0 channels; expected 1 to"),
        ({"channels": "xy"}, "channels 'xy'; expected names"),
        ({"channels": ["x", 1]}, "expected names"),
        ({"channels": ["x", "x"]}, "expected different names"),
        ({"channels": ["x", ""]}, "printable"),
        ({"channels": ["x", "a\0b"]}, "printable"),
        ({"channels": ["x", "\ud800"]}, "printable"),
        ({"channels": ["x", "y" * 65]}, "1 to 64 printable"),
        ({"channels": [str(n) for n in range(MAX_CHANNELS + 1)]}, "257 channels"),
        ({"rate": 3}, "unknown 'rate'"),
        ({"conditions": [1480]}, r"conditions \[1480\]; expected an object such as {\"speed\": 1480}"),
        ({"conditions": {"speed": None}}, "speed None; expected a number"),
        ({"conditions": {"speed": "fast"}}, "speed 'fast'; expected a number"),
        ({"conditions": {"speed": 1e999}}, "Infinity is not JSON"),
        ({"conditions": {"": 1.0}}, "printable"),
        ({"conditions": {str(n): 1.0 for n in range(65)}}, "65 conditions; expected at most 64"),
    ],
)
def test_an_invalid_header_is_refused_in_both_encodings(changes: dict[str, object], message: str) -> None:
    channels = changes.get("channels", HEADER["channels"])
    assert isinstance(channels, list | str)
    with pytest.raises(DataError, match=message):
        Block.from_json(json.dumps({**HEADER, "samples": [[0.0]] * max(1, len(channels)), **changes}))
    with pytest.raises(DataError, match=message):
        Block.from_bytes(encoded({**HEADER, "samples": 1, **changes}, bytes(4 * len(channels))))


@pytest.mark.parametrize("name", list(HEADER))
def test_a_missing_field_is_named(name: str) -> None:
    header = {key: value for key, value in HEADER.items() if key != name}
    with pytest.raises(DataError, match=f"no {name}; expected"):
        Block.from_bytes(encoded(header))
    with pytest.raises(DataError, match=f"no {name}; expected"):
        Block.from_json(json.dumps(header))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("[[1], [2, 3]]", "channel 1 has 2 samples, channel 0 has 1"),
        ("[[1], [true]]", "channel 1 has a bool"),
        ('[[1], ["2"]]', "channel 1 has a str"),
        ("[[1], [[2]]]", "channel 1 has a list"),
        ("[[1], {}]", "expected one list of numbers per channel"),
        ("[]", "expected one list of numbers per channel"),
        ("[[], []]", r"shape \(2, 0\)"),
        ("[[1]]", r"shape \(1, 1\)"),
        ("[[1], [NaN]]", "NaN is not JSON; write null"),
        ("[[1], [-Infinity]]", "-Infinity is not JSON"),
        ("[[1], [1" + 400 * "0" + "]]", "hundreds of digits"),
        ("[[1], [1" + 5000 * "0" + "]]", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[" * 900 + "]" * 900, "expected one list of numbers|a list"),
    ],
)
def test_invalid_json_samples_are_refused(samples: str, message: str) -> None:
    header = json.dumps({key: value for key, value in HEADER.items() if key != "samples"})
    with pytest.raises(DataError, match=message):
        Block.from_json(header[:-1] + f', "samples": {samples}}}')


def test_null_decodes_to_nan_and_a_too_large_number_to_infinity() -> None:
    found = Block.from_json(json.dumps({**HEADER, "samples": [[None, 1], [1e39, -1e300]]}))
    np.testing.assert_array_equal(found.samples, np.array([[np.nan, 1], [np.inf, -np.inf]], np.float32))


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '"block"', b"\xff\xfe\xfa", b"{", "\ufeff{}"])
def test_anything_but_a_json_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(DataError):
        Block.from_json(text)


def test_sizes_have_limits() -> None:
    with pytest.raises(DataError, match=f"at most {MAX_BYTES} are read"):
        Block.from_json(" " * (MAX_BYTES + 1))
    with pytest.raises(DataError, match=f"at most {MAX_BYTES} bytes of samples"):
        Block.from_bytes(bytes(MAX_BYTES + MAX_HEADER_BYTES + 1))
    with pytest.raises(DataError, match="declares a header of 65537 bytes"):
        Block.from_bytes(encoded(b" " * (MAX_HEADER_BYTES + 1)))
    with pytest.raises(DataError, match=f"1 to {MAX_SAMPLES} samples"):
        Block.from_bytes(encoded({**HEADER, "samples": MAX_SAMPLES + 1}))
    with pytest.raises(DataError, match=f"at most {MAX_BYTES} bytes"):
        channels = [str(n) for n in range(MAX_CHANNELS)]
        Block.from_bytes(encoded({**HEADER, "samples": MAX_SAMPLES, "channels": channels}))


def test_other_versions_are_refused() -> None:
    header = json.dumps(HEADER).encode()
    with pytest.raises(DataError, match="version 2; this cgsa reads version 1"):
        Block.from_bytes(with_checksum(struct.pack("<4sHI", MAGIC, 2, len(header)), header, NOISE.tobytes()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": np.zeros((2, 5))}, "samples are float64; expected float32"),
        ({"samples": np.zeros(5, np.float32)}, r"shape \(5,\); expected \(2, samples\)"),
        ({"samples": np.zeros((3, 5), np.float32)}, r"shape \(3, 5\); expected \(2, samples\)"),
        ({"time": float("nan")}, "time nan"),
        ({"time": float("inf")}, "time inf"),
        ({"sample_rate": float("nan")}, "sample rate nan"),
        ({"sample_rate": float("inf")}, "sample rate inf"),
        ({"machine": ".."}, "machine '..'"),
    ],
)
def test_the_constructor_refuses_invalid_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(BLOCK, **changes)


@given(name=st.text(max_size=70))
def test_a_valid_machine_name_is_a_plain_folder_name(name: str) -> None:
    try:
        check_machine(name)
    except DataError:
        return
    assert name.isascii()
    assert not set(name) & set("/\\+#$ \0\n")
    assert name not in ("", ".", "..")


def test_a_condition_that_is_not_finite_is_refused() -> None:
    with pytest.raises(DataError, match="condition 'speed' is nan; expected a finite number, or no entry"):
        replace(BLOCK, conditions={"speed": float("nan")})
    with pytest.raises(DataError, match="condition 'speed' is inf"):
        Block.from_json(BLOCK.to_json()[:-1] + ', "conditions": {"speed": 1e999}}')


def test_a_block_without_conditions_is_encoded_as_before_there_were_any() -> None:
    assert b"conditions" not in BLOCK.to_bytes()
    assert "conditions" not in BLOCK.to_json()
    known = replace(BLOCK, conditions={"speed": 1480.0})
    assert known.to_bytes() == encoded(
        {**{k: v for k, v in HEADER.items() if k != "samples"}, "conditions": {"speed": 1480.0}, "samples": 5}
    )
