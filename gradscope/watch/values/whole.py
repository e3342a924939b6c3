"""Callbacks of level `full`, which also record arguments and results of calls."""

from __future__ import annotations

from gradscope.machine_code.language import Compiled, load
from gradscope.watch.called.call_rows import EVALUATE
from gradscope.watch.called.observer import SCHEMA
from gradscope.watch.called.operands import OperandObserver, put_operand
from gradscope.watch.observer import VALUE
from gradscope.watch.values.callbacks import (
    IN_LIST,
    INPUTS,
    LIST,
    LOW_HALF,
    NO_SCHEMA,
    RESULTS,
    VARIANT,
    CallbackAddresses,
    _kept,
    _state,
    looking_begins,
    looking_ends,
)
from gradscope.watch.values.lists import A_TENSOR
from gradscope.watch.values.number_bit import number_bit

EVALUATED = EVALUATE


def whole_begins(result: int, function: int) -> int:
    """Called when a call begins."""
    looking_begins(result, function)
    row, given = load(result), load(function + load(INPUTS))
    if row != 0 and load(row + 40) != EVALUATED:
        put_all(load(row + 8), 0, 1, given, given + VALUE * load(function + load(INPUTS) + 8))
    return result


def whole_ends(function: int, row: int) -> int:
    """Called when it ended. Results are written before its end, so that readers see both."""
    if row != 0 and load(function + load(VARIANT)) & 255 != NO_SCHEMA:
        results = function + load(RESULTS)
        if load(row + 40) == load(function + load(SCHEMA)):
            put_all(load(row + 8), -1, -1, load(results), load(results + 8))
    return looking_ends(function, row)


def put_all(call: int, at: int, step: int, value: int, end: int) -> int:
    """Write rows of all tensors among these values, including those in lists."""
    while value < end:
        kind, inner = load(value + 8) & LOW_HALF, load(value)
        if kind == A_TENSOR:
            put_operand(call, at, inner)
            at += step
        elif kind == load(LIST) and inner != 0:
            last, inner = load(inner + load(IN_LIST) + 8), load(inner + load(IN_LIST))
            while inner < last:
                if load(inner + 8) & LOW_HALF == A_TENSOR:
                    put_operand(call, at, load(inner))
                    at += step
                inner += VALUE
        value += VALUE
    return at


def operands() -> OperandObserver:
    """The reader of their rows."""
    return OperandObserver(number_bit(int(_state[0])))


def whole(around: CallbackAddresses) -> CallbackAddresses:
    """The callbacks, with those around calls replaced."""
    code = Compiled([whole_begins, whole_ends])
    _kept.append(code)
    return around._replace(calls=(code.address(whole_begins), code.address(whole_ends)))
