"""Calls modules in eval mode again, on copies, and writes down where two calls differ.

The program's own call is not touched. After it, a copy of the module is called twice on copies of
the inputs: parameters are shared, buffers and attributes are copied, hooks of the program are left
out, and the random state is put back. If the outputs of the two calls differ, another copy is
called twice, and every operation is compared.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from gradscope.commands.debugging.laws.copied_modules import (
    attributes,
    copied,
    copy_of,
    same,
    tensors,
)
from gradscope.commands.debugging.laws.operations import Operations, line_of_the_program
from gradscope.scene.timeline.laws.eval_answer import DiffersAt, EvalCall

MOST, EACH = 40, 2
"""Largest number of calls that are checked: of all modules, and of each."""


class CalledTwice:
    """Checks outermost calls of modules in eval mode, while the program runs."""

    def __init__(self, torch: Any, report: Callable[[EvalCall], None]) -> None:
        self.torch, self.report = torch, report
        self.call = torch.nn.Module.__call__
        self.process = os.getpid()
        self.here = threading.local()
        self.lock = threading.Lock()
        self.checked: list[ref[Any]] = []  # the module of each checked call

    def install(self) -> None:
        """Replace the method by which modules are called."""
        call, watched = self.call, self._called

        def __call__(self: Any, *given: Any, **named: Any) -> Any:  # noqa: N807
            return watched(self, call, given, named)

        self.torch.nn.Module.__call__ = __call__

    def _called(self, module: Any, call: Any, given: Any, named: Any) -> Any:
        depth = getattr(self.here, "depth", 0)
        if depth:
            operations = getattr(self.here, "operations", None)
            return (
                call(module, *given, **named)
                if operations is None
                else operations.module(module, call, given, named)
            )
        self.here.depth = 1
        try:
            if module.training or not self._wants(module):
                return call(module, *given, **named)
            return self._checked(module, call, given, named)
        finally:
            self.here.depth = 0

    def _wants(self, module: Any) -> bool:
        with self.lock:
            often = sum(each() is module for each in self.checked)
            wants = os.getpid() == self.process and often < EACH and len(self.checked) < MOST
            if wants:
                self.checked.append(ref(module))
            return wants

    def _checked(self, module: Any, call: Any, given: Any, named: Any) -> Any:
        """Call a module as the program does, and then its copies."""
        name, line = type(module).__name__, line_of_the_program(self.torch)
        try:
            inputs = copied((given, named), self.torch)
        except Exception as error:  # noqa: BLE001  copying may call the program's code
            self.report(EvalCall(name, line, error=f"its inputs cannot be copied: {error}"))
            return call(module, *given, **named)
        result = call(module, *given, **named)
        with random_state_kept(self.torch):
            try:
                self.report(self._compared(module, call, inputs, name, line))
            except Exception as error:  # noqa: BLE001  the program's own code is called
                self.report(EvalCall(name, line, error=f"a copy cannot be called: {error}"))
        return result

    def _compared(self, module: Any, call: Any, inputs: Any, name: str, line: str) -> EvalCall:
        second = copy_of(module, self.torch)
        before, states = attributes(second, self.torch), random_states()
        outputs = []
        for _ in range(2):
            given, named = copied(inputs, self.torch)
            outputs.append(list(tensors(call(second, *given, **named), self.torch)))
        after = attributes(second, self.torch)
        differs = not same(outputs[0], outputs[1], self.torch)
        return EvalCall(
            name,
            line,
            outputs=len(outputs[0]),
            differs=differs,
            first=self._first_that_differs(module, call, inputs) if differs else None,
            changed=[
                name for name, old in before.items()
                if name in after and not same(old, after[name], self.torch)
            ],
            training=[
                f"{path} ({type(each).__name__})"
                for path, each in module.named_modules() if each.training
            ],
            drew=[name for name, state in random_states().items() if state != states[name]],
        )  # fmt: skip

    def _first_that_differs(self, module: Any, call: Any, inputs: Any) -> DiffersAt | None:
        """The first operation, or module, with other results in a second call."""
        second, runs = copy_of(module, self.torch), []
        for _ in range(2):
            given, named = copied(inputs, self.torch)
            self.here.operations = operations = Operations(self.torch, second)
            try:
                with operations.recorded():
                    operations.module(second, call, given, named)
            finally:
                self.here.operations = None
            runs.append(operations.happened)
        return next((b for a, b in zip(*runs, strict=False) if a != b), None)


def random_states() -> dict[str, str]:
    """The states of the generators of Python and NumPy, by their names."""
    state: Any = np.random.get_state()  # noqa: NPY002  the program's own
    return {"Python": repr(random.getstate()), "NumPy": repr((state[1].tobytes(), state[2:]))}


@contextmanager
def random_state_kept(torch: Any) -> Iterator[None]:
    """Put back the state of random generators at the end."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  the program's own
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def run_program(notes: str, on: str, module: str, script: str, *arguments: str) -> int:
    """Run a script in this process, and write each checked call into a file, as JSON.

    Returns the script's exit code.
    """
    from gradscope.record.run_script import TraceOptions, run_script

    def report(call: EvalCall) -> None:
        with Path(notes).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(call))}\n")

    def begin() -> None:
        CalledTwice(import_module("torch"), report).install()

    options = TraceOptions(script, arguments, module=bool(module), on=on, unrecorded=begin)
    return run_script(options).code
