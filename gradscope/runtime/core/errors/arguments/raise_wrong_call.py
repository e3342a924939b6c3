"""Where an operation fails: ask whether the call that led here was wrong in itself."""

from __future__ import annotations

import sys

from gradscope.runtime.core.errors.memory import out_of_memory

OR_BLAME = """\
    except Exception:
        blame_the_call()
        raise
"""
"""The end of a `try` in functions that are written as text."""


def blame_the_call() -> None:
    """Raise what PyTorch says of memory there is not, or of the arguments the user has given."""
    from gradscope.runtime.core.errors.arguments.called_function import wrong_call

    failure = sys.exc_info()[1]
    error = (failure and out_of_memory(failure)) or wrong_call()
    if error is not None:
        raise error from None
