"""A very small compiler: functions over 64-bit integers, written in Python, to machine code.

# Note [A compiler of our own]
Numba could also compile such functions; but importing it takes half a second and leaves 45,000
objects that the program's garbage collector traverses repeatedly. llvmlite, on which Numba is
based, takes a tenth of that. The rest is simple, because there is one type: a function is a list of
assignments, `if`, `while` and `return`; expressions are arithmetic, comparisons, calls of each
other and of C functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Self

from gradscope.machine_code.kept_code import engine

Function = Callable[..., int]


class External:
    """A C function over words. `half`: it returns a C int; `nothing`: it returns nothing.

    `last`: it may throw a C++ exception. Its caller has as many arguments, and jumps to it with a
    tail call: so it can only be used in `return`.
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
        function = getattr(library, name, None)  # None on Windows, where nothing is compiled
        self.address = 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    def __call__(self, *words: int) -> int:
        raise NotImplementedError("only compiled code can call this")


def load(address: int) -> int:
    """The word at an address."""
    raise NotImplementedError("only compiled code can do this")


def store(address: int, value: int) -> int:
    """Store a word at an address."""
    raise NotImplementedError("only compiled code can do this")


def increase(address: int, by: int) -> int:
    """Atomically add to the word at an address. Returns the previous value."""
    raise NotImplementedError("only compiled code can do this")


def invoke(address: int, *words: int) -> int:
    """Call the C function at an address with these words; it returns nothing."""
    raise NotImplementedError("only compiled code can do this")


class Address(int):
    """An address in this process: a symbol, and an offset in bytes."""

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
        """The symbol, unique in the process."""
        return f"gradscope_{self.symbol}"


class Compiled:
    """Functions compiled to machine code, with all functions that they call."""

    def __init__(self, functions: Sequence[Function]) -> None:
        about, symbols = _described(functions)
        self._functions = functions
        self._engine = engine(about, self._text, symbols, opt=3)  # owns the code

    def _text(self) -> str:
        from gradscope.machine_code.build import MachineModule  # noqa: PLC0415 -- what is kept needs none of it

        return MachineModule(self._functions).text()

    def address(self, function: Function) -> int:
        """The address of a function's code."""
        return int(self._engine.get_function_address(function.__name__))


def _described(functions: Sequence[Function]) -> tuple[str, dict[str, int]]:
    """A description that determines the code of functions, and their symbols with values."""
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
