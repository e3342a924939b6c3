"""Records some steps of a training: of a plain loop, of Lightning, of transformers' Trainer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradscope.errors import GradscopeError
from gradscope.record.engines import AUTO, imported
from gradscope.record.process.ranks import this_process
from gradscope.record.process.trace_file import trace_file
from gradscope.record.recording import Options, Recording
from gradscope.record.run_script import steps_named


class GradscopeCallback:
    """Records the steps `first:last` of a training into a trace.

        trainer = Trainer(…, callbacks=[GradscopeCallback(steps="100:110")])  # of either package

        with GradscopeCallback(steps="100:110", out="run.json", level="values") as scope:
            for batch in loader:
                scope.step()  # a step begins
                …

    Steps count from 0, as the trainer's `global_step` does; outside of them nothing is watched.
    It is no subclass of either package's Callback, and imports neither: it has the methods that
    they call. Whatever goes wrong with the recording is said, and the training goes on.
    """

    state_key = "GradscopeCallback"  # Lightning's: it keeps no state

    def __init__(
        self,
        steps: str | None = None,
        out: str | os.PathLike[str] = "trace.json",
        *,
        level: str = "engine",
        on: str = AUTO,
        quiet: bool = False,
    ) -> None:
        self._first, self._last = steps_named(steps) or (0, sys.maxsize)
        self._out = Path(out)
        script, *arguments = sys.argv or [""]
        asked = Options(
            level=level,
            steps=(self._first, self._last),
            script=script,
            arguments=tuple(arguments),
        )
        self._options = replace(asked, steps=None)  # a recording begins and ends with them
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
        """Say that a step begins: the next one, or the one of this number."""
        number = self._next if number is None else number
        self._next = number + 1
        self._begin(number)

    def close(self, error: BaseException | None = None) -> None:
        """The training is over, by this error if there is one: finish the trace."""
        self._harmlessly(self._finish, error)

    # transformers' Trainer -------------------------------------------------------------------

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step of the optimizer begins; its gradients may come from several batches."""
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
        """A fit or a test begins: nothing to do before its first step."""

    def teardown(self, *_: Any, **__: Any) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """It keeps no state."""

    # Either ----------------------------------------------------------------------------------

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_"):  # of the many moments that a trainer tells of
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
        """A step has ended; the number of the one that comes next."""
        if not self._over and self._recording is not None and following > self._last:
            self.close()

    def _record(self, number: int) -> None:
        if self._recording is None:
            script = self._options.script
            path = this_process().file(self._out)
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
        """Whatever goes wrong with us, the training goes on."""
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
    """A moment that is of no concern here."""
