"""The functions that programs call: `record(break_on=…)` and `breakpoint()`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from gradscope.record import recorder
from gradscope.record.process.claim import current
from gradscope.record.recording import Recording


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    level: str = "engine",
    on: str = "auto",
    break_on: str | Sequence[str] = (),
    **limits: Any,
) -> Recording:
    """Record a block: `with gradscope.record("trace.json"): …`.

    Without a path the trace stays in memory: `recording.trace()`. `on` is `torch`, `gradscope`, or
    `auto`: PyTorch, if the program has imported it and not gradscope's runtime. `break_on`: a
    breakpoint that stops the program and opens the debugger: "nan", "node Mul*", "train.py:41".
    `limits`: `max_events`, `max_bytes`, and `steps=(3, 7)` for the first and last step.
    """
    asked = (break_on,) if isinstance(break_on, str) else tuple(break_on)
    if asked:
        from gradscope.debug.live.made import debugger, level_for  # noqa: PLC0415 -- when asked

        recording = recorder.record(path, level=level_for(asked, level), on=on, **limits)
        recording.stop_at(debugger(asked).places)
        return recording
    return recorder.record(path, level=level, on=on, **limits)


def breakpoint() -> None:
    """Stop here and open the debugger. Without a recording only a message is printed."""
    from gradscope.debug.live.made import debugger  # noqa: PLC0415 -- when asked

    recording = current()
    if recording is None or recording.session is None:
        sys.stderr.write(
            "gradscope: breakpoint() is ignored because nothing is recorded: run the program "
            "with gradscope trace, or this part of it inside gradscope.record()\n"
        )
        return
    if recording.places is None:
        recording.stop_at(debugger().places)
    assert recording.places is not None
    recording.places.ask(sys._getframe(1))  # noqa: SLF001
