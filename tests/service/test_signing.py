from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import MANIFEST, TENSORS, ModelBundle
from cgsa.service.signing import SIGNATURE, create_keys, sign_bundle, verify_bundle
from tests.machines import bundle


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return bundle().save(tmp_path / "model")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "key", create_keys(tmp_path / "key")


def test_verification_returns_the_key_that_signed(saved: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    other = create_keys(tmp_path / "other")
    sign_bundle(saved, private)
    assert verify_bundle(saved, [other, public]) == public
    assert ModelBundle.load(saved).manifest == bundle().manifest, "the bundle itself is as it was"
    with pytest.raises(BundleError, match="signed by none of the trusted keys"):
        verify_bundle(saved, [other])


def test_an_unsigned_bundle_is_refused_unread(saved: Path, keys: tuple[Path, Path]) -> None:
    (saved / MANIFEST).write_bytes(b"[" * 100)
    with pytest.raises(BundleError, match=r"manifest\.sig: missing; only signed bundles"):
        verify_bundle(saved, [keys[1]])


def test_any_change_of_the_manifest_breaks_the_signature(saved: Path, keys: tuple[Path, Path]) -> None:
    sign_bundle(saved, keys[0])
    text = (saved / MANIFEST).read_text()
    for changed in (text + " ", text.replace('"seed": 0', '"seed": 1'), "{"):
        (saved / MANIFEST).write_text(changed)
        with pytest.raises(BundleError, match="or the manifest was changed after signing"):
            verify_bundle(saved, [keys[1]])
    (saved / MANIFEST).write_text(text)
    verify_bundle(saved, [keys[1]])


def test_the_verified_bytes_are_the_ones_used(saved: Path, keys: tuple[Path, Path]) -> None:
    sign_bundle(saved, keys[0])
    told = []

    def verify(folder: Path, manifest: bytes) -> None:
        told.append(verify_bundle(folder, [keys[1]], manifest=manifest))
        (saved / MANIFEST).write_text("{}")  # somebody is quick

    loaded = ModelBundle.load(saved, verify=verify)
    assert told == [keys[1]]
    assert loaded.manifest == bundle().manifest
    assert loaded.sha256 == hashlib.sha256((saved / TENSORS).read_bytes()).hexdigest()
    with pytest.raises(BundleError, match="or the manifest was changed after signing"):
        ModelBundle.load(saved, verify=verify)


def test_the_signature_covers_the_tensors(saved: Path, keys: tuple[Path, Path]) -> None:
    sign_bundle(saved, keys[0])
    data = bytearray((saved / TENSORS).read_bytes())
    data[-1] ^= 1
    (saved / TENSORS).write_bytes(bytes(data))
    verify_bundle(saved, [keys[1]])
    with pytest.raises(BundleError, match="hash differs"):
        ModelBundle.load(saved)


def test_a_new_bundle_in_the_same_place_is_not_signed(saved: Path, keys: tuple[Path, Path]) -> None:
    sign_bundle(saved, keys[0])
    bundle(seed=3).save(saved)
    with pytest.raises(BundleError, match="missing"):
        verify_bundle(saved, [keys[1]])


@pytest.mark.parametrize("text", ["", "no base64!", base64.b64encode(b"short").decode(), "A" * 5000, "\x00", "ä"])
def test_a_malformed_signature_is_refused(saved: Path, keys: tuple[Path, Path], text: str) -> None:
    (saved / SIGNATURE).write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=r"manifest\.sig"):
        verify_bundle(saved, [keys[1]])


def test_a_signature_for_another_purpose_is_invalid(saved: Path, keys: tuple[Path, Path]) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as an attacker would

    key = load_pem_private_key(keys[0].read_bytes(), None)
    raw = key.sign((saved / MANIFEST).read_bytes())  # type: ignore[union-attr, call-arg] # Ed25519
    (saved / SIGNATURE).write_text(base64.b64encode(raw).decode())
    with pytest.raises(BundleError, match="signed by none"):
        verify_bundle(saved, [keys[1]])


def test_keys_are_private_and_never_replaced(keys: tuple[Path, Path]) -> None:
    assert keys[0].stat().st_mode & 0o077 == 0
    with pytest.raises(ConfigError, match="exists already"):
        create_keys(keys[0])


def test_other_keys_are_refused_with_reason(saved: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    private, public = tmp_path / "rsa", tmp_path / "rsa.pub"
    private.write_bytes(rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(ConfigError, match="expected Ed25519"):
        sign_bundle(saved, private)
    sign_bundle(saved, keys[0])
    with pytest.raises(ConfigError, match="expected Ed25519"):
        verify_bundle(saved, [public])
    with pytest.raises(ConfigError, match="not a public key in PEM"):
        verify_bundle(saved, [keys[0]])
    with pytest.raises(ConfigError, match="not a private key"):
        sign_bundle(saved, keys[1])
    with pytest.raises(ConfigError, match="cannot be read"):
        verify_bundle(saved, [tmp_path / "none"])
    with pytest.raises(ConfigError, match="name at least one"):
        verify_bundle(saved, [])
    assert json.loads((saved / MANIFEST).read_text())
