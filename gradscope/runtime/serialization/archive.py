"""The container: an uncompressed zip file with all members in one folder."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

MAGIC: Final = b"PK\x03\x04"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same object gives the same bytes
_CORRUPTED: Final = (
    "If you are seeing this error, there is a high likelihood that your checkpoint file is "
    "corrupted. This can happen if the checkpoint was not saved properly, was transferred "
    "incorrectly, or the file was modified after saving."
)


def is_path(file: Any) -> bool:
    return isinstance(file, str | os.PathLike)


def write(file: Any, pickled: bytes, storages: Mapping[str, memoryview]) -> None:
    """Write a pickle and the storages it references, to a path or an open file."""
    if not is_path(file) and not hasattr(file, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    folder = "archive"
    if is_path(file):
        path = Path(file)
        if not path.parent.is_dir():
            raise RuntimeError(f"Parent directory {path.parent} does not exist.")
        folder = path.stem or folder
    records: dict[str, Any] = {
        "data.pkl": pickled,
        "byteorder": sys.byteorder.encode(),
        **{f"data/{key}": memory for key, memory in storages.items()},
        "version": b"3\n",
    }
    target: Any = file if is_path(file) else _Forwards(file)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            member = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            with archive.open(member, "w", force_zip64=len(content) > zipfile.ZIP64_LIMIT) as out:
                out.write(content)


class _Forwards:
    """A file that is written without seeking: compressed, or a pipe."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, content: bytes, /) -> int:
        return int(self._file.write(content))

    def flush(self) -> None:
        if hasattr(self._file, "flush"):
            self._file.flush()


class Archive:
    """A file that is read."""

    def __init__(self, members: zipfile.ZipFile) -> None:
        self._members = members
        found = [name for name in members.namelist() if name.endswith("/data.pkl")]
        if not found:
            raise RuntimeError(
                "PytorchStreamReader failed locating file data.pkl: file not found\n"
                "This is a zip file, but not one that torch.save wrote."
            )
        self._folder = min(found, key=len).removesuffix("data.pkl")

    def read(self, name: str) -> bytes:
        try:
            return self._members.read(self._folder + name)
        except KeyError:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {name}: file not found"
            ) from None
        except zipfile.BadZipFile as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading file {name}: {error}. {_CORRUPTED}"
            ) from None

    def swapped(self) -> bool:
        """Whether its byte order differs from this machine's."""
        if f"{self._folder}byteorder" not in self._members.namelist():
            return sys.byteorder != "little"
        order = self.read("byteorder").decode("ascii", "replace")
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        return order != sys.byteorder


@contextmanager
def opened(file: Any) -> Iterator[Archive]:
    """The archive of a path or file; raises an error if it is none."""
    if is_path(file):
        with Path(file).open("rb") as stream, _archive(stream) as archive:
            yield archive
        return
    _check_seekable(file)
    with _archive(file) as archive:
        yield archive


def _check_seekable(file: Any) -> None:
    try:
        file.seek(file.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None


@contextmanager
def _archive(stream: Any) -> Iterator[Archive]:
    start = stream.tell()
    head = stream.read(len(MAGIC))
    stream.seek(start)
    if head != MAGIC:
        raise _not_an_archive(head)
    try:
        members = zipfile.ZipFile(stream)
    except zipfile.BadZipFile:
        raise RuntimeError(
            "PytorchStreamReader failed reading zip archive: not a ZIP archive. This is an "
            f"internal miniz error. {_CORRUPTED}"
        ) from None
    with members:
        yield Archive(members)


def _not_an_archive(head: bytes) -> Exception:
    if not head:
        return EOFError("Ran out of input: the file is empty")
    if head.startswith(b"\x80"):
        return RuntimeError(
            "this file is a pickle, as PyTorch wrote them before 1.6 or for "
            "_use_new_zipfile_serialization=False; only zip files are read here. Load it with "
            "PyTorch and save it again with torch.save"
        )
    return RuntimeError(
        f"this is no file that torch.save wrote: it begins with {head!r}, and not with {MAGIC!r}"
    )
