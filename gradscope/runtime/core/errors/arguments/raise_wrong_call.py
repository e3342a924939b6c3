"""Checks, when an operation fails, whether the arguments of the user's call were wrong."""

from __future__ import annotations

import sys

from gradscope.runtime.core.errors.memory import out_of_memory

OR_BLAME = """\
    except Exception:
        blame_the_call()
        raise
"""
"""The end of a `try` in generated functions."""


def blame_the_call() -> None:
    """Raise PyTorch's error for missing memory or wrong arguments, if one of them is the cause."""
    from gradscope.runtime.core.errors.arguments.called_function import wrong_call

    failure = sys.exc_info()[1]
    error = (failure and out_of_memory(failure)) or wrong_call()
    if error is not None:
        raise error from None
