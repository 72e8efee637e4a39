from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from cgsa.errors import BundleError
from cgsa.nn.container import (
    DTYPES,
    check_tensors,
    decode_metadata,
    decode_tensors,
    encode_object,
    encode_tensors,
    parse_object,
    read_regular,
    sha256_of,
)

PATH = Path("some.safetensors")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
SHAPES = st.lists(st.integers(0, 3), max_size=3)


@given(
    st.dictionaries(NAMES.filter(lambda name: name != "__metadata__"), st.tuples(st.sampled_from([*DTYPES]), SHAPES)),
    st.one_of(st.none(), st.text(max_size=20).map(lambda text: {"key": text})),
)
def test_writes_what_the_library_writes(
    layout: dict[str, tuple[torch.dtype, list[int]]], metadata: dict[str, str] | None
) -> None:
    tensors = {
        name: torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
        for name, (dtype, shape) in layout.items()
    }
    data = b"".join(encode_tensors(tensors, metadata))
    assert data == save(tensors, metadata)
    assert decode_metadata(data, PATH) == (metadata or {})
    found = decode_tensors(data, PATH)
    assert found.keys() == tensors.keys()
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in tensors.items()
    )


def test_pieces_share_memory_with_contiguous_tensors() -> None:
    weight = torch.zeros(3)
    pieces = encode_tensors({"weight": weight})
    weight[1] = 1.0
    assert bytes(pieces[-1]) == weight.numpy().tobytes()


def test_the_hash_does_not_depend_on_how_the_bytes_are_cut() -> None:
    assert sha256_of([b"ab", memoryview(b"c")]) == sha256_of([b"abc"]) != sha256_of([b"abd"])


def test_a_type_that_the_format_lacks_is_refused() -> None:
    with pytest.raises(BundleError, match=r"tensor x is torch\.complex64; expected one of I64"):
        encode_tensors({"x": torch.zeros(1, dtype=torch.complex64)})


@pytest.mark.parametrize("data", [b"", b"1234567", (9).to_bytes(8, "little") + b"{}", (2**62).to_bytes(8, "little")])
def test_a_header_that_the_file_cannot_hold_is_refused(data: bytes) -> None:
    for decode in (decode_tensors, decode_metadata):
        with pytest.raises(BundleError, match=r"some\.safetensors: not a safetensors file: its header would take"):
            decode(data, PATH)


def test_a_header_above_the_limit_is_refused() -> None:
    data = b"".join(encode_tensors({"x": torch.zeros(1)}))
    with pytest.raises(BundleError, match="its header would take"):
        decode_tensors(data, PATH, max_header=8)


def test_offsets_beyond_the_end_are_refused() -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    with pytest.raises(BundleError, match="not a safetensors file"):
        decode_tensors(len(header).to_bytes(8, "little") + header, PATH)


def test_every_tensor_that_does_not_fit_is_named() -> None:
    expected = {"a": torch.zeros(2), "b": torch.zeros(2), "c": torch.zeros(2), "d": torch.zeros(2)}
    found = {
        "a": torch.zeros(3),
        "b": torch.zeros(2, dtype=torch.int64),
        "c": torch.tensor([0, torch.nan]),
        "e": expected["a"],
    }
    with pytest.raises(BundleError, match="does not fit") as refused:
        check_tensors(found, expected, PATH)
    for problem in (
        "tensor a is torch.float32 (3,), expected torch.float32 (2,)",
        "tensor b is torch.int64 (2,), expected torch.float32 (2,)",
        "tensor c holds NaN or infinity",
        "no tensor d",
        "unexpected tensor e",
    ):
        assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"\xff", "not JSON"), (b"[" * 100_000, "not JSON"), (b"[]", "JSON of a list; expected an object")],
)
def test_only_json_objects_are_parsed(raw: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        parse_object(raw, PATH)


def test_only_plain_values_become_json() -> None:
    assert parse_object(encode_object({"a": [1, None]}, "it"), PATH) == {"a": [1, None]}
    with pytest.raises(BundleError, match="a note must be plain JSON"):
        encode_object({"a": object()}, "a note")


def test_only_regular_files_within_the_limit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(BundleError, match="file: 5 bytes; at most 4 are read"):
        read_regular(path, 4)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(BundleError, match="not a plain file"):
            read_regular(tmp_path / name, 5)
    with pytest.raises(BundleError, match="missing: cannot be read"):
        read_regular(tmp_path / "missing", 5)
