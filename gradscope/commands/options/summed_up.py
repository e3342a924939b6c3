"""The last lines of `gradscope trace`, made in a process of their own unless the trace is small.

# Note [Memory at the end]
To check a trace takes some 20 bytes of memory for each of its bytes. The process of the program has
its largest size already, with PyTorch and what the script left. A second process holds only the
trace, and if memory does not suffice, the kernel ends that one: the program and its trace are safe.
"""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.render.views.lines_at_end import Recorded

SMALL = 1 << 20
"""Size in bytes up to which a trace is checked here: that is done before a process has started."""
FIRST_TO_GO = "1000"
"""The `oom_score_adj` of a process that Linux ends before all others when memory is short."""


def summed_up(path: Path, shown: Path, *, plain: bool, width: int) -> "Recorded":
    """What `recorded` says of the trace at `path`."""
    from gradscope.render.views.lines_at_end import Recorded

    try:
        if not sys.executable or path.stat().st_size <= SMALL:
            return _here(path, shown, plain=plain, width=width)
        done = _in_new_process([str(path.absolute()), str(shown), str(int(plain)), str(width)])
    except (OSError, ValueError, TypeError, AttributeError):  # no process; or a script's own `run`
        return _here(path, shown, plain=plain, width=width)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        why_not = "since the process that checks it failed"
        return _here(path, shown, plain=plain, width=width, why_not=why_not)
    return Recorded(**{name: _tupled(value) for name, value in said.items()})


def _in_new_process(arguments: list[str]) -> "subprocess.CompletedProcess[bytes]":
    from gradscope.record.acts.kept.node_checks import environment

    return subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", __name__, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment(), check=False,
    )  # fmt: skip


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _here(path: Path, shown: Path, *, plain: bool, width: int, why_not: str = "") -> "Recorded":
    from gradscope.render.terminal.cells import PLAIN, UNICODE
    from gradscope.render.views.recorded import recorded

    return recorded(path, shown, PLAIN if plain else UNICODE, width, why_not)


def _main(path: str, shown: str, plain: str, width: str) -> None:
    """Print the lines as JSON in ASCII, which has any name of a file."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO, encoding="ascii")
    said = _here(Path(path), Path(shown), plain=plain == "1", width=int(width))
    sys.stdout.write(json.dumps(asdict(said)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
