"""A very small compiler: functions over 64-bit integers, written in Python, to machine code.

# Note [A compiler of our own]
Numba could compile such functions, too; but importing it takes half a second of the program that is
recorded and leaves 45,000 objects for its garbage collector to walk through, again and again.
llvmlite, which Numba stands on, takes a tenth of that. What is left to do is little, since there is
one type: a function is a list of assignments, `if`, `while` and `return`; expressions are
arithmetic, comparisons, calls of each other and of C functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Self

from gradscope.machine_code.kept_code import engine

Function = Callable[..., int]


class External:
    """A C function over words. `half`: it returns a C int; `nothing`: it returns nothing.

    `last`: it may throw an exception of C++. What calls it takes as many words, and is left before
    it begins: it can only be what is returned.
    """

    def __init__(
        self,
        library: Any,
        name: str,
        arguments: int,
        *,
        half: bool = False,
        nothing: bool = False,
        last: bool = False,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.last = last
        self.returns = "half" if half else "nothing" if nothing else "word"
        function = getattr(library, name, None)  # None on Windows: nothing there is compiled
        self.address = 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    def __call__(self, *words: int) -> int:
        raise NotImplementedError("only compiled code can call this")


def load(address: int) -> int:
    """The word at an address."""
    raise NotImplementedError("only compiled code can do this")


def store(address: int, value: int) -> int:
    """Put a word at an address."""
    raise NotImplementedError("only compiled code can do this")


def increase(address: int, by: int) -> int:
    """Add to the word at an address, whoever else does; what was there before."""
    raise NotImplementedError("only compiled code can do this")


def invoke(address: int, *words: int) -> int:
    """Call the C function at an address, which takes these words and returns nothing."""
    raise NotImplementedError("only compiled code can do this")


class Address(int):
    """Where something is in this process: a symbol, and how many bytes behind it."""

    symbol: str
    behind: int

    def __new__(cls, value: int, symbol: str, behind: int = 0) -> Self:
        made = super().__new__(cls, value)
        made.symbol, made.behind = symbol, behind
        return made

    def __add__(self, other: int) -> Address:
        return Address(int(self) + other, self.symbol, self.behind + other)

    @property
    def named(self) -> str:
        """The symbol, among those of all of the process."""
        return f"gradscope_{self.symbol}"


class Compiled:
    """Functions as machine code, with all they call."""

    def __init__(self, functions: Sequence[Function]) -> None:
        about, symbols = _described(functions)
        self._functions = functions
        self._engine = engine(about, self._text, symbols, opt=3)  # owns the code

    def _text(self) -> str:
        from gradscope.machine_code.build import MachineModule  # noqa: PLC0415 -- what is kept needs none of it

        return MachineModule(self._functions).text()

    def address(self, function: Function) -> int:
        """Where the code of a function is."""
        return int(self._engine.get_function_address(function.__name__))


def _described(functions: Sequence[Function]) -> tuple[str, dict[str, int]]:
    """All that the code of functions follows from, and the symbols it has, with their values."""
    parts: list[str] = []
    symbols: dict[str, int] = {}
    known, pending = set(functions), list(functions)
    while pending:
        function = pending.pop()
        code = function.__code__
        parts.append(f"{code.co_name} {code.co_varnames} {code.co_code.hex()} {code.co_consts}")
        for name in code.co_names:
            value = function.__globals__.get(name)
            said: object = value
            if isinstance(value, Address):
                symbols[value.named] = int(value) - value.behind
                said = value.symbol, value.behind
            elif isinstance(value, External):
                symbols[value.name], said = (
                    value.address,
                    (value.name, value.arguments, value.returns, value.last),
                )
            elif callable(value):
                said = "function"
                if value not in known and value not in {load, store, increase, invoke}:
                    known.add(value)
                    pending.append(value)
            parts.append(f"{name} {said}")
    return "\n".join(parts), symbols
