"""What crosses hosts is sealed: nobody in between can read it, change it, repeat it or leave something out.

A record is its size in 4 bytes, and its contents under AEGIS-256 (draft-irtf-cfrg-aegis-aead) with the record's number
as nonce: a key is for one connection, and for one direction on it. The cipher is that of the libsodium which pyzmq
brings for CURVE. The engine is handed its functions, and seals as this does (ext/nccl/seal.h). Importing this raises
ImportError where there is no such libsodium.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import socket
from collections.abc import Iterator
from ctypes import c_char_p, c_int, c_ulonglong, c_void_p
from pathlib import Path

from prism.gpu.pruned import abi

KEY, NONCE, TAG, SIZE = 32, 32, 32, 4
"""Bytes."""


def _libraries() -> Iterator[str]:
    """Where libsodium may be: pyzmq's wheels have it beside the package, other builds use the system's."""
    spec = importlib.util.find_spec("zmq")
    if spec is not None and spec.origin is not None:
        beside = Path(spec.origin).parents[1] / "pyzmq.libs"
        yield from sorted(str(path) for path in beside.glob("libsodium*"))
    if found := ctypes.util.find_library("sodium"):
        yield found


def _load() -> ctypes.CDLL:
    for path in _libraries():
        library = ctypes.CDLL(path)
        if hasattr(library, "crypto_aead_aegis256_encrypt") and library.sodium_init() >= 0:
            return library
    raise ImportError("there is no libsodium from 1.0.19 on; the wheels of pyzmq bring one")


_sodium = _load()
_encrypt, _decrypt = _sodium.crypto_aead_aegis256_encrypt, _sodium.crypto_aead_aegis256_decrypt
_LENGTH = ctypes.POINTER(c_ulonglong)
_encrypt.argtypes = [
    c_char_p, _LENGTH, c_char_p, c_ulonglong, c_char_p, c_ulonglong, c_void_p, c_char_p, c_char_p,
]  # fmt: skip
_decrypt.argtypes = [
    c_char_p, _LENGTH, c_void_p, c_char_p, c_ulonglong, c_char_p, c_ulonglong, c_char_p, c_char_p,
]  # fmt: skip
_encrypt.restype = _decrypt.restype = c_int


def for_engine(key: bytes) -> abi.Seal:
    """The cipher and a key, as the engine takes them."""
    functions = (ctypes.cast(function, c_void_p) for function in (_encrypt, _decrypt))
    return abi.Seal(*functions, (ctypes.c_uint8 * KEY).from_buffer_copy(key))


class Seal:
    """Seals one direction of a connection, or opens what comes on it, in order; `key` is not used for anything else."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def close(self, contents: bytes) -> bytes:
        """The next record."""
        sealed = ctypes.create_string_buffer(len(contents) + TAG)
        _encrypt(sealed, None, contents, len(contents), None, 0, None, self._nonce(), self._key)
        return len(sealed).to_bytes(SIZE, "little") + sealed.raw

    def open(self, sealed: bytes) -> bytes:
        """The contents of the next record, given without its size. Raises PermissionError if it is not that."""
        contents = ctypes.create_string_buffer(max(len(sealed) - TAG, 1))
        if _decrypt(contents, None, None, sealed, len(sealed), None, 0, self._nonce(), self._key) != 0:
            raise PermissionError("what came from the other host was not sealed by it")
        return contents.raw[: len(sealed) - TAG]

    def _nonce(self) -> bytes:
        number = self._number.to_bytes(NONCE, "little")
        self._number += 1
        return number


def receive(connection: socket.socket, seal: Seal, most: int) -> bytes | None:
    """The contents of the next record of `most` bytes at most, None when the other side hangs up.

    Raises PermissionError for anything else than that.
    """
    size = _exactly(connection, SIZE)
    if size is None:
        return None
    length = int.from_bytes(size, "little")
    if not TAG <= length <= most + TAG:
        raise PermissionError(f"a record of {length} bytes came from the other host, of {most + TAG} at most")
    sealed = _exactly(connection, length)
    if sealed is None:
        raise PermissionError("the other host hung up within a record")
    return seal.open(sealed)


def _exactly(connection: socket.socket, nbytes: int) -> bytes | None:
    data = bytearray()
    while len(data) < nbytes:
        part = connection.recv(nbytes - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
