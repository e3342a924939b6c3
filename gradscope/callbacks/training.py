"""Records some steps of training with a plain loop, Lightning, or the Trainer of transformers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradscope.errors import GradscopeError, UsageError
from gradscope.record.engines import AUTO, imported
from gradscope.record.notes.positions.chosen_steps import chosen_steps
from gradscope.record.process.ranks import this_process, writing_to
from gradscope.record.process.trace_file import trace_file
from gradscope.record.recording import Options, Recording


class GradscopeCallback:
    """Records the training steps `first:last` into a trace.

        trainer = Trainer(…, callbacks=[GradscopeCallback(steps="100:110")])  # of either package

        with GradscopeCallback(steps="100:110", out="run.json", level="values") as scope:
            for batch in loader:
                scope.step()  # a step begins
                …

    Steps count from 0, like the trainer's `global_step`; other steps are not recorded. It is not a
    subclass of the Callback of either package and imports neither: it has the methods that they
    call. If the recording fails, a message is printed and training continues.
    """

    state_key = "GradscopeCallback"  # for Lightning: it has no state

    def __init__(
        self,
        steps: str | None = None,
        out: str | os.PathLike[str] = "trace.json",
        *,
        level: str = "engine",
        on: str = AUTO,
        quiet: bool = False,
    ) -> None:
        chosen = chosen_steps(steps)
        ranges = ((0, sys.maxsize),) if chosen is None else chosen.ranges
        if len(ranges) > 1:
            raise UsageError(f"a callback records one range of steps, not {steps}")
        ((self._first, self._last),) = ranges
        self._out = Path(out)
        script, *arguments = sys.argv or [""]
        asked = Options(
            level=level,
            steps=(self._first, self._last),
            script=script,
            arguments=tuple(arguments),
        )
        self._options = replace(asked, steps=None)  # a recording has just these steps
        self._on = on
        self._quiet = quiet
        self._recording: Recording | None = None
        self._over = False
        self._next = 0
        self._recorded: list[int] = []

    # A plain loop ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(error)

    def step(self, number: int | None = None) -> None:
        """Begin a step: the next one, or the one with this number."""
        number = self._next if number is None else number
        self._next = number + 1
        self._begin(number)

    def close(self, error: BaseException | None = None) -> None:
        """Finish the trace at the end of training; `error`: the exception that ended it."""
        self._harmlessly(self._finish, error)

    # transformers' Trainer -------------------------------------------------------------------

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called when an optimizer step begins; its gradients may come from several batches."""
        self._begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._done(state.global_step)

    # Lightning -------------------------------------------------------------------------------

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        self._begin(trainer.global_step)

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        self._done(trainer.global_step)

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        self.close(exception)

    def setup(self, *_: Any, **__: Any) -> None:
        """Called when a fit or a test begins: there is nothing to do before its first step."""

    def teardown(self, *_: Any, **__: Any) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Return no state."""

    # Either ----------------------------------------------------------------------------------

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_"):  # the many other events of a trainer
            return _nothing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # Recording -------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        if self._over or number < self._first:
            return
        if number > self._last:
            self.close()
        else:
            self._harmlessly(self._record, number)

    def _done(self, following: int) -> None:
        """Called after a step; `next_step` is the number of the following one."""
        if not self._over and self._recording is not None and following > self._last:
            self.close()

    def _record(self, number: int) -> None:
        if self._recording is None:
            script = self._options.script
            path = writing_to(self._out).file(self._out)
            writer, _ = trace_file(path, script if os.path.isfile(script) else None)  # noqa: PTH113
            self._recording = Recording(writer, self._options, imported(self._on))
            self._recording.start()
        session = self._recording.session
        if session is not None and session.contexts.steps.number != number:
            self._recording.step(number)
        self._recorded.append(number)

    def _finish(self, error: BaseException | None) -> None:
        recording, self._recording, self._over = self._recording, None, True
        if recording is None or recording.session is None:
            return
        recording.stop(error)
        if not self._quiet:
            self._say(
                f"{self._steps()} in {self._shown()}; next: gradscope inspect {self._shown()}"
            )

    def _steps(self) -> str:
        first, last = self._recorded[0], self._recorded[-1]
        return f"steps {first} to {last} are" if first != last else f"step {first} is"

    def _shown(self) -> Path:
        return this_process().file(self._out)

    def _harmlessly(self, do: Callable[[Any], None], what: Any) -> None:
        """A context in which errors of gradscope do not stop training."""
        try:
            do(what)
        except GradscopeError as error:
            self._over = True
            self._say(f"not recording: {error}")
        except Exception as error:  # noqa: BLE001  a fault of ours
            self._over = True
            self._say(f"not recording: a fault in gradscope: {error!r}; please report it")

    def _say(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"gradscope: {text}\n")


def _nothing(*_: Any, **__: Any) -> None:
    """Ignore this event."""
