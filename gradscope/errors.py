"""Everything that can go wrong in gradscope itself, one class each, with a slug for the docs."""

from __future__ import annotations

from typing import ClassVar


class GradscopeError(Exception):
    """A failure gradscope explains: what happened, where, and what to do.

    `slug` is the anchor of its page in docs/errors; `exit_code` is what the command line returns.
    """

    slug: ClassVar[str] = "gradscope"
    exit_code: ClassVar[int] = 2


class UsageError(GradscopeError):
    """The command or call was asked for something that does not exist."""

    slug = "usage"


class UnreadableTraceError(GradscopeError):
    """A file that is no trace, or is damaged beyond its first whole line."""

    slug = "unreadable-trace"
    exit_code = 3


class FutureTraceError(UnreadableTraceError):
    """A trace written by a newer gradscope than this one can read."""

    slug = "future-trace"


class TraceSpecError(GradscopeError):
    """A trace that breaks a rule every trace keeps."""

    slug = "trace-spec"
    exit_code = 1


class UnknownNameError(GradscopeError):
    """Something looked up by a name or id that is not there."""

    slug = "unknown-name"


class MissingProgramError(GradscopeError):
    """A program or an optional package that this output needs is not installed."""

    slug = "missing-program"


class RenderingError(GradscopeError):
    """A picture could not be drawn."""

    slug = "rendering"


class RecordingError(GradscopeError):
    """Recording could not start or had to stop."""

    slug = "recording"


class EmptyTraceError(GradscopeError):
    """A readable trace that holds nothing of what was asked for."""

    slug = "empty-trace"
