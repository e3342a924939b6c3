"""The text of a trace on disk: plain, or compressed window by window."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from gradscope.errors import MissingProgramError, UnreadableTraceError, how_to_install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Note [Decompression bombs]
# A file of n bytes may hold at most RATIO * n + FREE bytes of text. The writer respects this: a
# window that would shrink further (3 to 10 is usual) is compressed less.
RATIO: Final = 64
FREE: Final = 1 << 24

CHUNK: Final = 1 << 18
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
SKIPPED: Final = 0x184D2A50  # the magic number of a zstd frame that readers skip
LEVEL: Final = {"gzip": 6, "zstd": 3}


class Pack(Protocol):
    """Turns the text of one window into bytes that can be read independently of earlier ones."""

    def __call__(self, text: bytes) -> bytes: ...


def packer(path: Path) -> Pack:
    """How a file of this name is compressed."""
    if path.suffix == ".gz":
        return _gzip
    if path.suffix == ".zst":
        return _zstd()
    return _plain


def _plain(text: bytes) -> bytes:
    return text


def _gzip(text: bytes) -> bytes:
    member = _gzip_member(text, zlib.Z_DEFAULT_STRATEGY)
    return member if len(text) <= RATIO * len(member) else _gzip_member(text, zlib.Z_HUFFMAN_ONLY)


def _gzip_member(text: bytes, strategy: int) -> bytes:
    packing = zlib.compressobj(LEVEL["gzip"], zlib.DEFLATED, 31, 9, strategy)
    return packing.compress(text) + packing.flush()


def _zstd() -> Pack:
    packing = zstandard().ZstdCompressor(level=LEVEL["zstd"], write_checksum=True)

    def pack(text: bytes) -> bytes:
        frame: bytes = packing.compress(text)
        short = len(text) // RATIO - len(frame)
        return frame + struct.pack("<II", SKIPPED, short) + bytes(short) if short > 0 else frame

    return pack


def zstandard() -> Any:
    """The package zstandard. Raises MissingProgramError if it is not installed."""
    try:
        import zstandard as package  # noqa: PLC0415 - optional, and 10 ms to import
    except ImportError:
        raise MissingProgramError(
            f"a .zst trace needs the package zstandard ({how_to_install('zstandard')}); "
            "or use a name that ends in .json.gz"
        ) from None
    return package


def is_zstd(beginning: bytes) -> bool:
    """Whether a text that is compressed with zstd begins like this."""
    return beginning.startswith(ZSTD) or is_skipped(beginning)


def is_skipped(frame: bytes) -> bool:
    """Whether this is the beginning of a zstd frame that readers skip."""
    return frame[1:4] == struct.pack("<I", SKIPPED)[1:]


def unpacked(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The text of an open file of this size, piece by piece, decompressed if necessary."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(GZIP):
        pieces = _gunzipped(file)
    elif is_zstd(magic):
        pieces = _unzstd(file)
    else:
        while piece := file.read(CHUNK):
            yield piece
        return
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > RATIO * size + FREE:
            raise UnreadableTraceError(
                f"its {size} bytes decompress to more than {RATIO} times as many: it is not a trace"
            )
        yield piece


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    """The text of all members, including what is readable of a truncated one."""
    member = zlib.decompressobj(31)
    packed = b""
    while packed := packed or file.read(CHUNK):
        if member.eof:
            member = zlib.decompressobj(31)
        try:
            piece = member.decompress(packed, CHUNK)
        except zlib.error as error:
            raise UnreadableTraceError(f"its gzip data is damaged: {error}") from None
        packed = member.unused_data if member.eof else member.unconsumed_tail
        if piece:
            yield piece


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    package = zstandard()
    unpacking = package.ZstdDecompressor(max_window_size=1 << 27)
    with unpacking.stream_reader(file, read_across_frames=True, closefd=False) as reader:
        while True:
            try:
                piece = reader.read(CHUNK)
            except package.ZstdError as error:
                raise UnreadableTraceError(f"its zstd data is damaged: {error}") from None
            if not piece:
                return
            yield piece
