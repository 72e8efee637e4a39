"""Signatures of bundles.

The manifest of a bundle holds the hash of its tensors, so a signature of the manifest's bytes covers the whole bundle.
The file ``manifest.sig`` beside it holds the 64 bytes of an Ed25519 signature (RFC 8032) as text. If signatures are
required, nothing of a bundle is parsed before its signature has been verified.
"""

from __future__ import annotations

import base64
import binascii
import stat
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from cgsa.errors import BundleError, ConfigError
from cgsa.files import replacing
from cgsa.nn.bundle import MANIFEST, MAX_MANIFEST_BYTES

SIGNATURE = "manifest.sig"
CONTEXT = b"cgsa bundle manifest\0"
"""Prefix of what is signed, so that a signature made for another purpose is not valid for a bundle."""
MAX_KEY_BYTES = 2**14
MAX_SIGNATURE_BYTES = 1024


def create_keys(private_key_file: str | Path) -> Path:
    """Write a new private key, and its public key beside it as ``.pub``; return the path of the public key."""
    path = Path(private_key_file)
    public = path.with_name(f"{path.name}.pub")
    for file in (path, public):
        if file.exists():
            raise ConfigError(f"{file}: exists already; choose another name")
    key = Ed25519PrivateKey.generate()
    with replacing(path, ConfigError) as fresh:
        # Readable only by the owner from the first byte on.
        fresh.touch(mode=0o600)
        fresh.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with replacing(public, ConfigError) as fresh:
        fresh.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public


def sign_bundle(folder: str | Path, private_key_file: str | Path) -> Path:
    """Sign a bundle; return the path of the signature."""
    path = Path(private_key_file)
    try:
        key = load_pem_private_key(_read(path, MAX_KEY_BYTES, ConfigError), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: not a private key in PEM format without a password ({error})") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: the key has another type; expected Ed25519")
    target = Path(folder) / SIGNATURE
    signature = key.sign(CONTEXT + read_signed_manifest(Path(folder)))
    with replacing(target, BundleError) as fresh:
        fresh.write_text(base64.b64encode(signature).decode() + "\n", encoding="ascii")
    return target


def verify_bundle(
    folder: str | Path, trusted_key_files: Sequence[str | Path], *, manifest: bytes | None = None
) -> Path:
    """Return the trusted key that signed a bundle, or refuse the bundle; nothing of it is parsed.

    A caller that has read the manifest passes the bytes it is going to parse.
    """
    if not trusted_key_files:
        raise ConfigError("signatures are required but no key is trusted; name at least one")
    keys = {Path(file): _public(Path(file)) for file in trusted_key_files}
    where = Path(folder) / SIGNATURE
    if not where.exists():
        raise BundleError(f"{where}: missing; only signed bundles are accepted here")
    try:
        signature = base64.b64decode(_read(where, MAX_SIGNATURE_BYTES, BundleError).strip(), validate=True)
    except binascii.Error as error:
        raise BundleError(f"{where}: not a signature ({error})") from error
    signed = CONTEXT + (read_signed_manifest(Path(folder)) if manifest is None else manifest)
    for file, key in keys.items():
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            continue
        return file
    raise BundleError(f"{where}: signed by none of the trusted keys, or the manifest was changed after signing")


def _public(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(_read(path, MAX_KEY_BYTES, ConfigError))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: not a public key in PEM format ({error})") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path}: the key has another type; expected Ed25519")
    return key


def read_signed_manifest(folder: Path) -> bytes:
    """Return the bytes of a manifest, which are what is signed."""
    return _read(folder / MANIFEST, MAX_MANIFEST_BYTES, BundleError)


def _read(path: Path, limit: int, error: type[BundleError | ConfigError]) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise error(f"{path}: expected a plain file of at most {limit} bytes")
        return path.read_bytes()
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from problem
