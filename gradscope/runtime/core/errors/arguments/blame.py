"""Where an operation fails: ask whether the call that led here was wrong in itself."""

from __future__ import annotations

from gradscope.runtime.core.state import upward

OR_BLAME = """\
    except Exception:
        blame_the_call()
        raise
"""
"""The end of a `try` in functions that are written as text."""


def blame_the_call() -> None:
    """Raise what PyTorch says of the arguments the user has given, if these are the fault."""
    error = upward.wrong_call()
    if error is not None:
        raise error from None
