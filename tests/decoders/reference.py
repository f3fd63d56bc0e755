"""What the libraries make of a chunk: libzstd, c-blosc, LZ4 and zlib themselves.

numcodecs' wheel has c-blosc with libzstd and LZ4 inside, and exports their functions; so any Python with
numcodecs has the references, and of libzstd what its bindings hide: one call that takes any number of
frames and gives no byte more than there is room for.
"""

from __future__ import annotations

import ctypes
import zlib

import numcodecs.blosc
import zstandard

lib = ctypes.CDLL(numcodecs.blosc.__file__)


def declare(name: str, result: object, *arguments: object):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
    return function


SIZE, INT, POINTER, BYTES = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p

_xxh64 = declare("ZSTD_XXH64", ctypes.c_uint64, BYTES, SIZE, ctypes.c_uint64)
_zstd = declare("ZSTD_decompressDCtx", SIZE, POINTER, POINTER, SIZE, BYTES, SIZE)
zstd_failed = declare("ZSTD_isError", ctypes.c_uint, SIZE)
_zstd_context = declare("ZSTD_createDCtx", POINTER)
_zstd_set = declare("ZSTD_DCtx_setParameter", SIZE, POINTER, INT, INT)
_lz4 = declare("LZ4_decompress_safe", INT, BYTES, POINTER, INT, INT)
_blosc = declare("blosc_decompress_ctx", INT, BYTES, POINTER, SIZE, INT)
_blosc_valid = declare("blosc_cbuffer_validate", INT, BYTES, SIZE, ctypes.POINTER(SIZE))

IGNORE_CHECKSUM = 1002  # ZSTD_d_forceIgnoreChecksum
contexts: dict[bool, object] = {}


def xxh64(data: bytes) -> int:
    return _xxh64(data, len(data), 0)


class Room:
    """Memory to decode to, with a page behind it that is looked at by nobody."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(1 << 20)

    def of(self, n: int):
        if len(self.buffer) < n + 4096:
            self.buffer = ctypes.create_string_buffer(2 * n + 4096)
        return self.buffer

    def take(self, n: int) -> bytes:
        return ctypes.string_at(self.buffer, n)


room = Room()


def zstd(data: bytes, size: int, checked: bool = True) -> bytes | None:
    if checked not in contexts:
        contexts[checked] = _zstd_context()
        if not checked:
            _zstd_set(contexts[checked], IGNORE_CHECKSUM, 1)
    n = _zstd(contexts[checked], room.of(size), size, data, len(data))
    return room.take(size) if n == size and not zstd_failed(n) else None


def newer_zstd(data: bytes, size: int) -> bytes | None:
    """What the libzstd of package zstandard makes of it, which is another version than that of numcodecs."""
    out = b""
    while data and len(out) <= size:
        decoder = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        try:
            out += decoder.decompress(data)
        except zstandard.ZstdError:
            return None
        if not decoder.eof:
            return None
        data = decoder.unused_data
    return out if len(out) == size else None


def lz4(data: bytes, size: int) -> bytes | None:
    """numcodecs' lz4: the decoded length, then a block that must give as much."""
    if len(data) < 4 or int.from_bytes(data[:4], "little") != size:
        return None
    n = _lz4(data[4:], room.of(size), len(data) - 4, size)
    return room.take(size) if n == size else None


def blosc(data: bytes, size: int) -> bytes | None:
    """A frame may be followed by other bytes; c-blosc reads as many as the header says, so these must be there."""
    if len(data) < 16:
        return None
    stored = int.from_bytes(data[12:16], "little")
    if stored > len(data):
        return None
    data, n = data[:stored], SIZE()
    if _blosc_valid(data, stored, ctypes.byref(n)) < 0 or n.value != size:
        return None
    return room.take(size) if _blosc(data, room.of(size), size, 1) == size else None


def inflate(data: bytes, size: int, bits: int) -> tuple[bytes, bytes] | None:
    """The bytes of a stream, no more than size, and what follows it."""
    decoder = zlib.decompressobj(bits)
    try:
        out = decoder.decompress(data, size + 1)
    except zlib.error:
        return None
    return (out, decoder.unused_data) if decoder.eof and len(out) <= size else None


def zlib_stream(data: bytes, size: int) -> bytes | None:
    """One stream; bytes behind it are ignored, as by every reader of stores."""
    found = inflate(data, size, zlib.MAX_WBITS)
    return found[0] if found and len(found[0]) == size else None


def gzip_members(data: bytes, size: int) -> bytes | None:
    """Members one after another; what starts no member ends them."""
    out = b""
    first = True
    while first or data[:2] == b"\x1f\x8b":
        found = inflate(data, size - len(out), 16 + zlib.MAX_WBITS)
        if not found:
            return None
        out, data, first = out + found[0], found[1], False
    return out if len(out) == size else None


def unshuffle(data: bytes, typesize: int) -> bytes:
    """numcodecs' shuffle, undone; what is left of an element stays where it is."""
    if typesize < 2:
        return data
    n = len(data) // typesize
    out = bytearray(data)
    for k in range(typesize):
        out[k : n * typesize : typesize] = data[k * n : (k + 1) * n]
    return bytes(out)


def shuffle(data: bytes, typesize: int) -> bytes:
    n = len(data) // typesize * typesize
    return b"".join(data[k:n:typesize] for k in range(typesize)) + data[n:]
