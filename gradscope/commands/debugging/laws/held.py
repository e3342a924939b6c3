"""What can be held equal in two runs of a program, to see whether that was why they differed.

If two runs differ, and two runs with one thing held equal do not, that thing is the cause: this
needs no knowledge of the program. What it takes is done in the child process, before the program
starts; the user's own runs are not touched.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from gradscope.record.notes.sites import is_installed, is_ours

NO_RANDOM_ADDRESSES = 0x0040000
"""ADDR_NO_RANDOMIZE of Linux's personality(2)."""


@dataclass(frozen=True)
class Held:
    """Something that is held equal in both runs of a program."""

    name: str
    cause: str  # the cause of the difference, if two runs with it are equal
    advice: str
    variables: tuple[tuple[str, str], ...] = ()  # of the environment
    begin: Callable[[Callable[[str], None]], None] | None = None  # called in the child process
    prepare: Callable[[], None] | None = None  # called before the child process is executed

    @property
    def works(self) -> bool:
        """Whether this system can hold it."""
        return bool(self.variables or self.begin or self.prepare)


def lines_noted(path: Path) -> Callable[[str], None]:
    """A function that adds to a file the line of the program that calls something, once each."""
    seen: set[str] = set()

    def note(what: str) -> None:
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001
        while frame is not None and _is_no_file_of_the_program(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or is_ours(frame.f_code):
            return
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if (text := json.dumps([what, place])) not in seen:
            seen.add(text)
            with suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    return note


def _is_no_file_of_the_program(file: str) -> bool:
    return file.startswith("<") or is_installed(file)


# -- random numbers -----------------------------------------------------------------------------


def seed_all(note: Callable[[str], None]) -> None:
    """Seed the generators of Python and NumPy, and take the system's random bytes from a fixed one.

    Calls that draw before the program seeds that generator itself are noted.
    """
    import numpy as np

    system = random.Random(0)  # noqa: S311  the same in each run

    def urandom(size: int) -> bytes:
        note("os.urandom")
        return system.randbytes(size)

    os.urandom = urandom
    random._urandom = urandom  # type: ignore[attr-defined]  # noqa: SLF001  read by SystemRandom
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  the program's own generator
    _note_draws(random, "random", random._inst, note)  # noqa: SLF001
    _note_draws(np.random, "numpy.random", np.random.mtrand._rand, note)  # noqa: SLF001


def _note_draws(module: Any, name: str, generator: Any, note: Callable[[str], None]) -> None:
    """Wrap the functions of a module that belong to its generator; `seed` ends the notes."""
    seeded = False

    def wrapped(function: Any, called: str) -> Any:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            nonlocal seeded
            if called in SEEDING:
                seeded = True
            elif not seeded and called not in ASKING:
                note(f"{name}.{called}")
            return function(*given, **named)

        return call

    for called, function in list(vars(module).items()):
        if getattr(function, "__self__", None) is generator:
            setattr(module, called, wrapped(function, called))


SEEDING = frozenset({"seed", "setstate", "set_state"})
ASKING = frozenset({"getstate", "get_state", "get_bit_generator", "set_bit_generator"})


# -- time ---------------------------------------------------------------------------------------


def hold_clock(note: Callable[[str], None]) -> None:
    """Let the clock that programs read begin at a fixed time, and advance a millisecond a call."""
    import datetime as dt

    now = 1_700_000_000_000_000_000

    def nanoseconds() -> int:
        nonlocal now
        now += 1_000_000
        return now

    def read_ns() -> int:
        note("time.time_ns")
        return nanoseconds()

    def read() -> float:
        note("time.time")
        return nanoseconds() / 1e9

    class HeldDatetime(dt.datetime):
        """The class datetime with a clock that is the same in each run."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            note("datetime.now")
            return cls.fromtimestamp(nanoseconds() / 1e9, tz)

        @classmethod
        def utcnow(cls) -> Any:
            note("datetime.utcnow")
            return cls.fromtimestamp(nanoseconds() / 1e9, dt.UTC).replace(tzinfo=None)

    time.time, time.time_ns = read, read_ns
    dt.datetime = HeldDatetime  # type: ignore[misc]


# -- addresses ----------------------------------------------------------------------------------


def hold_addresses() -> None:
    """Ask Linux to place the next program of this process at the same addresses each time."""
    import ctypes

    with suppress(OSError, AttributeError):
        personality = ctypes.CDLL(None).personality
        personality(personality(0xFFFFFFFF) | NO_RANDOM_ADDRESSES)


ONE_THREAD = tuple(
    (name, "1") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                             "NUMBA_NUM_THREADS")
)  # fmt: skip

EVERY = (
    Held(
        "random",
        "random numbers of Python, NumPy or the system that the program did not seed",
        "seed the generator: random.seed(0), numpy.random.default_rng(0)",
        begin=seed_all,
    ),
    Held(
        "hash",
        "the order of a set of strings, or hash() of one: Python hashes strings differently in "
        "each process",
        "sort the set before its order matters, or set PYTHONHASHSEED",
        variables=(("PYTHONHASHSEED", "0"),),
    ),
    Held(
        "time",
        "the time of day",
        "do not compute with time.time(), nor use it as a seed",
        begin=hold_clock,
    ),
    Held(
        "addresses",
        "addresses of objects: id(), or the order of a set of objects",
        "use a list or a dict, which keep their order, instead of a set",
        prepare=hold_addresses if sys.platform == "linux" else None,
    ),
    Held(
        "threads",
        "the order in which threads add",
        "set OMP_NUM_THREADS=1, or ask PyTorch for torch.use_deterministic_algorithms(True)",
        variables=ONE_THREAD,
    ),
)
"""What is held equal, one after another, until two runs no longer differ."""


def same_random_numbers(note: Callable[[str], None]) -> None:
    """Seed all, and let compiled code draw random numbers as PyTorch does."""
    seed_all(note)
    with suppress(ImportError):
        import_module("torch._inductor.config").fallback_random = True  # type: ignore[attr-defined]


SAME_HASHES = ("PYTHONHASHSEED", "0")
SEEDS = Held("seeds", "", "", variables=(SAME_HASHES,), begin=seed_all)
"""For runs with other arguments: they draw the same numbers, though the program does not seed."""

COMPILED = Held("compiled", "", "", variables=(SAME_HASHES,), begin=same_random_numbers)
EAGER = Held(
    "eager", "", "", variables=(SAME_HASHES, ("TORCH_COMPILE_DISABLE", "1")), begin=seed_all
)
"""The same for runs with compilation, and without it."""


def with_backend(name: str) -> Held:
    """A run in which everything is compiled with this backend."""

    def begin(note: Callable[[str], None]) -> None:
        same_random_numbers(note)
        torch: Any = import_module("torch")
        compile_with = torch.compile

        @wraps(compile_with)
        def compile(model: Any = None, **options: Any) -> Any:
            kept = {name: options[name] for name in ("fullgraph", "dynamic") if name in options}
            return compile_with(model, backend=name, **kept)

        torch.compile = compile

    return Held(f"backend-{name}", "", "", variables=(SAME_HASHES,), begin=begin)


BACKENDS = tuple(map(with_backend, ("eager", "aot_eager")))
"""From the one that does least: which part of compilation makes a difference."""

NOTHING = "nothing"
"""Stands for no held thing in the arguments of a child process."""


def prepared(arguments: list[str]) -> list[str]:
    """Hold what is named, and return the command line of gradscope that records the program.

    The arguments are the name of what is held, the file of notes, and options of `trace`.
    """
    from gradscope.record.acts.numbers.summaries.step_summaries import measure_every_step

    name, notes, *command = arguments
    held = next(
        (each for each in (*EVERY, SEEDS, COMPILED, EAGER, *BACKENDS) if each.name == name), None
    )
    measure_every_step()
    if held is not None and held.begin is not None:
        held.begin(lines_noted(Path(notes)))
    return ["trace", *command]
