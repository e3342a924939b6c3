"""What calls returned, looked at as each ends.

# Note [Results]
PyTorch keeps what a call returned for callbacks that ask for it (`needs_outputs`): a vector of
values, each of two words, the first of which is the tensor. Our callback calls back into Python
with the interpreter's lock; there the tensor is read where it lies (numbers.py), and not kept.
Where the vector lies is tried on a known call first. A call that raised has no results, and Python
must not run then: an exception may be on its way through it.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable

A_TENSOR = 1  # c10::IValue::Tag
LENGTH_OF_VALUE = 16

Look = Callable[[int, int, int], None]
"""Takes the number of a call, which of its results this is, and the address of the result."""


class _Local(threading.local):
    busy = False


class Teller:
    """Tells a function of results while it is the one that is asked."""

    def __init__(self, look: Look, noted: Callable[[str, BaseException], None]) -> None:
        self._look = look
        self._noted = noted
        self._local = _Local()

    def tell(self, first: int, last: int, call: int) -> None:
        """A call has ended, and its results lie there."""
        local = self._local
        if local.busy:  # what looking calls itself
            return
        local.busy = True
        try:
            for place, address in enumerate(range(first, last, LENGTH_OF_VALUE)):
                words = (ctypes.c_uint32 * 4).from_address(address)
                if words[2] == A_TENSOR and (words[0] or words[1]):
                    self._look(call, place, words[0] | words[1] << 32)
        except KeyboardInterrupt:  # meant for the program, which hears of it a moment later
            _thread.interrupt_main()
        except Exception as error:  # noqa: BLE001  Note [A fault of ours]
            self._noted("a call returned", error)
        finally:
            local.busy = False


class _Asked:
    """Who is told; one in a process."""

    teller: Teller | None = None


def ask(teller: Teller | None) -> None:
    """From now on tell this one."""
    _Asked.teller = teller


def _told(first: int, last: int, call: int) -> int:
    """What the callback calls."""
    teller = _Asked.teller
    if teller is not None:
        teller.tell(first, last, call)
    return 0


told = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_told)
