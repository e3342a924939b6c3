"""Tells recordings apart: a trace that has grown from another trace."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file.compression import unpacked
from gradscope.trace.file.scan import lines_of
from gradscope.trace.text import quoted_path

PIECE = 1 << 20


class TraceDigests(NamedTuple):
    """Digests of a trace file."""

    recording: str  # of its first window, which stays the same while the file grows
    whole: str  # of all of its bytes


def digests(path: Path) -> TraceDigests:
    """The digests of a trace file. Raises UnreadableTraceError if it cannot be read."""
    whole = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                whole.update(piece)
            size = file.tell()
            file.seek(0)
            recording = hashlib.blake2b(digest_size=16)
            for line in lines_of(unpacked(file, size)):
                recording.update(line)
                if line.startswith(b'{"window":'):
                    break
    except OSError as error:
        raise UnreadableTraceError(f"cannot open {quoted_path(path)}: {error.strerror}") from None
    except ValueError:  # a path with a NUL in it
        raise UnreadableTraceError(f"cannot open {quoted_path(path)}: invalid name") from None
    except UnreadableTraceError as error:
        raise type(error)(f"cannot read {quoted_path(path)}: {error}") from None
    return TraceDigests(recording.hexdigest(), whole.hexdigest())
