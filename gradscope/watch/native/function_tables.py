"""The virtual functions of PyTorch's engine, and of the anomaly metadata of nodes.

C++ objects begin with the address of a function table, and two words before it identify the class
(as in the Itanium ABI). The meaning of each function follows from the tables of the base classes,
whose functions have names. The metadata that the function creates must be the same as in a known
node.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.loaded import PROCESS
from gradscope.watch.native.layout import IN_WRAPPER, NotFound, _Memory, layout
from gradscope.watch.native.records import OURS, KnownMetadata
from gradscope.watch.native.versions import BEFORE, DICT, STRING, VERSION

HEADER = 2  # number of words before the first function
MORE, TRIES = 8, 8
ENDS, FREES, STORES, PRINTS, PARENTS = range(5)
ENGINE, METADATA = "_ZN5torch8autograd6Engine", "_ZN5torch8autograd15AnomalyMetadata"
ENGINES = {0: "D1Ev", 1: "D0Ev", 2: "7execute", 3: "23execute_with_graph_task"}
MAKES = len(ENGINES)
"""The index of `make_anomaly_metadata`, whose name the library does not export."""

ENGINES |= {
    MAKES + VERSION.between + place: name
    for place, name in enumerate(("19thread_on_exception", "11thread_init", "11thread_main"), 1)
}
METADATAS = {ENDS: "D1Ev", FREES: "D0Ev", STORES: "11store_stack", PRINTS: "11print_stack",
             PARENTS: "13assign_parent"}  # fmt: skip


class Tables(NamedTuple):
    """The function tables of the engine and of metadata, preceded by two words of their class."""

    place: Any  # the word of the engine that refers to its table
    engine: tuple[int, ...]
    metadata: tuple[int, ...]
    known: KnownMetadata


@cache
def tables() -> Tables:
    """The tables. Raises NotFound if the meaning of a function is not certain."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    memory = _Memory()
    try:
        for name, known in ((ENGINE, ENGINES), (METADATA, METADATAS)):
            _check(memory, library, name, known)
        engine = getattr(library, f"{ENGINE}18get_default_engineEv")
        engine.restype, engine.argtypes = ctypes.c_int64, []
        place = ctypes.c_int64.from_address(engine())
        of_engine = _functions(memory, place.value, max(ENGINES))
        with ThreadPoolExecutor(1) as apart:  # each thread numbers its nodes separately
            return apart.submit(_found, memory, place, of_engine).result()
    except AttributeError as error:
        raise NotFound(str(error)) from None
    finally:
        memory.close()


def _functions(memory: _Memory, table: int, last: int) -> tuple[int, ...]:
    """Two words of the class, the functions up to the last known one, and MORE words.

    A newer version may have more functions, which stay as they are. If it has none, these words
    are other data of the library, and nothing uses them.
    """
    found = memory.words(table - 8 * HEADER, HEADER + last + 1 + MORE)
    if not found or found[0]:
        raise NotFound("there is no table of functions")
    return found


def _check(memory: _Memory, library: Any, base: str, known: dict[int, str]) -> None:
    """Check that a base class has these functions."""
    mangled = base.replace("_ZN", "_ZTVN") + "E"
    at = ctypes.cast(getattr(library, mangled), ctypes.c_void_p).value or 0
    functions = _functions(memory, at + 8 * HEADER, max(known))[HEADER:]
    look = ctypes.CDLL(None).dladdr
    look.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
    for place, name in known.items():
        symbol = _Symbol()
        look(functions[place], ctypes.byref(symbol))
        text = (symbol.name or b"").decode()
        same = {text, text.replace("D2Ev", "D1Ev"), text.replace("D1Ev", "D2Ev")}
        if symbol.address != functions[place] or not any(
            each.startswith(base + name) for each in same
        ):
            raise NotFound(f"function {place} of {base} is {text or 'unknown'}")


class _Symbol(ctypes.Structure):
    """Dl_info."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p), ("address", ctypes.c_uint64),
    )  # fmt: skip


def _found(memory: _Memory, place: Any, of_engine: tuple[int, ...]) -> Tables:
    """The tables. What the engine's function creates must be the same as in a known node."""
    made, function = [], ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
    for _ in range(TRIES):
        result = ctypes.c_uint64()
        function(of_engine[HEADER + MAKES])(ctypes.addressof(result), ctypes.addressof(place))
        made.append(result.value)
    with torch.enable_grad():
        node: Any = torch.ones(1, requires_grad=True).neg().grad_fn
    metadata = node.metadata
    address = memory.words(id(node) + IN_WRAPPER, 1)[0]
    kept = memory.words(memory.words(address + layout().metadata, 1)[0], DICT // 8 + 1)
    smallest = min(made, key=_size)
    words = _metadata(memory, smallest)
    if not kept or kept[DICT // 8] != id(metadata) or kept[0] != words[0]:
        raise NotFound("what nodes keep is not where it was expected")
    functions = _functions(memory, words[0], max(METADATAS))
    for each in made:
        ctypes.PYFUNCTYPE(None, ctypes.c_uint64)(functions[HEADER + FREES])(each)
    known = KnownMetadata(smallest, np.array(words, np.uint64).view(np.int64))
    return Tables(place, of_engine, functions, known)


def _size(address: int) -> int:
    """The size of allocated memory; sometimes it is larger than what was asked for."""
    size = PROCESS.malloc_usable_size
    size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_uint64]
    return int(size(address))


def _metadata(memory: _Memory, made: int) -> list[int]:
    """The words of new metadata: function table, an empty text, no parent, a dict, and others."""
    words = list(memory.words(made, _size(made) // 8))
    if not DICT < 8 * len(words) <= OURS:
        raise NotFound(f"what nodes keep takes {8 * len(words)} bytes")
    at, many = words[1:3]
    if BEFORE:
        (many,) = memory.words(at - BEFORE, 1) or (-1,)
    elif at != made + 24:  # a short text is stored inline
        many = -1
    if many or any(words[1 + STRING // 8 : DICT // 8]):
        raise NotFound("what nodes keep does not look as it was expected")
    return words + [0] * (OURS // 8 - len(words))
