"""Ranks that a program starts itself, as with `torch.multiprocessing.spawn`.

# Note [Ranks without a launcher]
torchrun tells a process which rank it is, and starts `gradscope trace` in each. A program that
starts processes itself tells them by arguments of its own. Only the default process group knows
their ranks. So the function that such a process runs is replaced by an object which is pickled in
its stead. In the child it calls the function, and begins to record when the child has joined the
group. A child that joins no group, as a worker that loads data, is not recorded. A forked child is
not recorded either: functions that the parent's recording has replaced stay so there.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from multiprocessing import get_all_start_methods, get_start_method
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol

from gradscope.errors import GradscopeError, RecordingError, fault_text, leave_no_frame
from gradscope.record.process.ranks import ENDINGS, Rank, is_rank, this_process, writing_to
from gradscope.record.process.trace_file import complain, trace_file
from gradscope.trace.load_save import load
from gradscope.trace.schema import Meta
from gradscope.trace.writer import FileWriter
from gradscope.watch.in_place.standing_in import passed_over

SPAWN = "torch.multiprocessing.spawn"
"""The module whose processes call their first argument."""

JOINS = "init_process_group"


class RecordedProcess(Protocol):
    """The recording of a process, which can be made again in a child."""

    options: Any
    engine: Any
    writer: Any

    def __init__(self, writer: Any, options: Any, engine: Any) -> None: ...

    def start(self) -> Any:
        """Start recording."""

    def stop(
        self, error: BaseException | None = None, ending: Mapping[str, Any] | None = None
    ) -> None:
        """Stop recording after this error, with these facts about the end."""


class StartedRanks:
    """Makes the processes that a program starts record themselves if they become ranks."""

    def __init__(self, recording: RecordedProcess) -> None:
        self._path: Path = recording.writer.path
        self._recording = type(recording), recording.options, type(recording.engine)
        self._since = time.time()

    @classmethod
    def of(cls, recording: RecordedProcess) -> StartedRanks | None:
        """Those of a recording, if it has a file and is not itself that of a rank."""
        has_file = isinstance(recording.writer, FileWriter)
        return cls(recording) if has_file and not this_process().is_one_of_several else None

    @contextmanager
    def replacing(self, process: Any) -> Iterator[None]:
        """A context in which a process that has not been started would record itself."""
        if _is_forked(process):
            yield
            return
        own = vars(process)
        target, given = kept = own.get("_target"), own.get("_args", ())
        if getattr(target, "__module__", "") == SPAWN and given and callable(given[0]):
            own["_args"] = (RankFunction(given[0], self._path, *self._recording), *given[1:])
        elif callable(target):
            own["_target"] = RankFunction(target, self._path, *self._recording)
        try:
            yield
        finally:
            if "_target" in own:  # a started process has neither
                own["_target"], own["_args"] = kept

    def files(self) -> dict[int, str]:
        """The files that such processes have written: by process id, their names."""
        ending = ENDINGS.search(self._path.name)
        end = "" if ending is None else ending[0]
        name = re.escape(self._path.name.removesuffix(end))
        is_a_ranks = re.compile(rf"{name}(\.restart\d+)?\.rank\d+(\.\d+)?{re.escape(end)}")
        found = {}
        for path in sorted(self._path.parent.iterdir()):
            try:
                if is_a_ranks.fullmatch(path.name) and path.stat().st_mtime >= self._since:
                    found[int(load(path, [Meta]).meta["pid"])] = path.name
            except (OSError, GradscopeError, KeyError, TypeError, ValueError):
                continue  # it is not a trace
        return found


class RankFunction:
    """A function of the program, whose process is recorded from when it joins a process group."""

    def __init__(
        self,
        function: Callable[..., Any],
        path: Path,
        recording: type[RecordedProcess],
        options: Any,
        engine: type[Any],
    ) -> None:
        self._function = function
        self._path = path
        self._recording = recording
        self._options = options
        self._engine = engine

    @passed_over
    def __call__(self, *given: Any, **more: Any) -> Any:
        """Call the function."""
        recorded: list[RecordedProcess] = []
        _watch_joining(self._function, lambda: self._joined(recorded))
        failed: BaseException | None = None
        try:
            return self._function(*given, **more)
        except BaseException as error:
            failed = error
            leave_no_frame(error)
            raise
        finally:
            for recording in recorded:
                recording.stop(*_ending(failed))

    def _joined(self, recorded: list[RecordedProcess]) -> None:
        """Begin to record: the process is a rank now."""
        if recorded:
            return
        try:
            distributed = sys.modules["torch.distributed"]
            is_rank(Rank(distributed.get_rank(), distributed.get_world_size()))
            file = writing_to(self._path).file(self._path)
            options = self._options
            writer, _ = trace_file(file, None, options.max_bytes, options.keep)
            recording = self._recording(writer, options, self._engine())
            with suppress(RecordingError):  # the function records itself
                recording.start()
                recorded.append(recording)
        except Exception as error:  # noqa: BLE001  the program must go on
            complain(f"this rank is not recorded: {fault_text(error)}")


def _ending(error: BaseException | None) -> tuple[BaseException | None, dict[str, Any] | None]:
    """How a rank ended, for its recording: `sys.exit()` is no error, nor is Ctrl-C."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return None, {"exit": f"exit code {code}" if code else "ok", "exit_code": code}
    if isinstance(error, KeyboardInterrupt):
        return None, {"exit": "interrupted (KeyboardInterrupt)", "exit_code": 130}
    return error, {"exit": "ok", "exit_code": 0} if error is None else None


def _is_forked(process: Any) -> bool:
    """Whether a process that has not been started will be a copy of this one."""
    method = getattr(process, "_start_method", None) or get_start_method(allow_none=True)
    return (method or get_all_start_methods()[0]) == "fork"


def _watch_joining(function: Any, joined: Callable[[], None]) -> None:
    """Call `joined` when this process has joined a process group."""
    homes = [sys.modules.get(f"torch.distributed{each}") for each in ("", ".distributed_c10d")]
    spaces = [vars(home) for home in homes if home is not None]
    spaces.append(getattr(function, "__globals__", {}))
    originals = [
        (space, name, each)
        for space in spaces
        for name, each in space.items()
        if type(each) is FunctionType and each.__name__ == JOINS
    ]

    def telling(own: Callable[..., Any]) -> Callable[..., Any]:
        def join(*given: Any, **more: Any) -> Any:
            for space, name, original in originals:
                space[name] = original
            try:
                result = own(*given, **more)
            except BaseException as error:
                leave_no_frame(error)
                raise
            joined()
            return result

        return passed_over(wraps(own)(join))

    for space, name, each in originals:
        space[name] = telling(each)
