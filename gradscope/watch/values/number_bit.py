"""Finds the bit of a tensor that marks it as a number passed instead of a tensor.

For the 2 of `x * 2`, PyTorch creates a tensor without dims. The location of the mark is not part of
an API: it is determined with arguments of known calls, in the word with the dtype.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, increase, load, store
from gradscope.watch.observer import FUNCTION, VALUE, ready
from gradscope.watch.values.layout import found
from gradscope.watch.values.lists import A_TENSOR, LOW_HALF

WORDS, MOST, MANY, ROUNDS, WHOLE = 24, 64, 8, 16, (1 << 64) - 1
_state = np.zeros(3 + MOST * WORDS, np.int64)
GIVEN, WANTED, COUNT, LOOKS = (
    Address(_state.ctypes.data, "known_numbers") + 8 * n for n in range(4)
)
IN_WORDS = WORDS
thread: Any = None  # at::RecordFunction::currentThreadId


def number_begins(result: int, function: int) -> int:
    """Called when a call begins: if it has exactly two tensor arguments, copy the second."""
    store(result, 0)
    given, i = load(function + load(GIVEN)), 0
    if thread() != load(WANTED) or load(function + load(GIVEN) + 8) != 2:
        return result
    if load(given + 8) & LOW_HALF != A_TENSOR or load(given + VALUE + 8) & LOW_HALF != A_TENSOR:
        return result
    count = increase(COUNT, 1)
    if count < MOST:
        while i < IN_WORDS:
            store(LOOKS + 8 * (count * IN_WORDS + i), load(load(given + VALUE) + 8 * i))
            i += 1
    return result


def number_ends(function: int, given: int) -> int:  # noqa: ARG001 -- what it is called with
    """Called when a call ended."""
    return given


def number_bit(given: int) -> tuple[int, int]:
    """The offset of the word in bytes, and the bit; 0, 0: it was not found.

    `given`: the offset of arguments in a RecordFunction.
    """
    global thread  # noqa: PLW0603 -- compiled code names it
    library = ready()
    thread = library.thread
    code = Compiled([number_begins, number_ends])
    _kept.append(code)
    x = torch.ones(2, dtype=torch.float64)
    kinds = (torch.int64, torch.float64)
    plain = [torch.tensor(n, dtype=kind) for kind in kinds for n in range(MANY)]
    numbers = [kind(n) for kind in (int, float) for n in range(MANY)]

    def look() -> None:
        _state[:3] = given, library.thread_here(), 0
        begins, ends = code.address(number_begins), code.address(number_ends)
        handle = library.observe(begins, ends, FUNCTION, given=True)
        try:
            with torch.no_grad():
                for each in [*numbers, *plain]:
                    x.mul_(each)
        finally:
            library.remove(handle)

    looks, word = np.zeros((4, 0, WORDS), np.int64), found().dtype // 4
    between: list[Any] = []
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(1) as apart:
            apart.submit(look).result()
        if int(_state[2]) != 4 * MANY:
            return 0, 0
        new = _state[3 : 3 + 4 * MANY * WORDS].reshape(4, MANY, WORDS)
        looks = np.concatenate([looks, new], axis=1)
        bit = _bit(looks[:, :, word])
        if bit:
            return 8 * word, bit
        between += [torch.empty(()) for _ in range(MANY)]  # the next words differ each time
    return 0, 0


def _bit(words: Any) -> int:
    """The only bit that is set in all numbers and in no tensor; 0: none, or several.

    The words are from integers, floats, and tensors of either. Some bits are undefined: in a few
    samples they may be set in all numbers and in no tensor by chance.
    """
    varying = np.bitwise_or.reduce((words ^ words[:, :1]).reshape(-1))
    whole, half, no_whole, no_half = (int(each) & WHOLE for each in words[:, 0] & ~varying)
    bit: int = whole & ~no_whole
    return bit if bit & (bit - 1) == 0 and whole ^ no_whole == bit == half ^ no_half else 0


_kept: list[Compiled] = []  # callbacks may be called until the process ends
