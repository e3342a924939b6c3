"""gradscope's own hooks on nodes of the runtime, which are not reported."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any


class RunningHook(threading.local):
    """Whether this thread runs a hook of gradscope."""

    ours = False


running = RunningHook()


class OwnHook(partial[Any]):
    """A hook of gradscope."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        finally:
            running.ours = True  # others may have run inside
