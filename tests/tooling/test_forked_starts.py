"""What the server of the tests starts is as if it had been started by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.record.running import House
from tests.shared import forked_starts
from tests.shared.forked_starts import GRADSCOPE, ForkedStart

TELLS = """
import atexit, gc, json, os, resource, signal, sys, threading
streams = [(s.encoding, s.errors, s.line_buffering, s.isatty(), s.fileno(), s.name)
           for s in (sys.stdin, sys.stdout, sys.stderr)]
handlers = {n.name: repr(signal.getsignal(n)).partition(" at ")[0] for n in signal.valid_signals()
            if isinstance(n, signal.Signals)}
facts = dict(
    argv=sys.argv, path=sys.path, flags=repr(sys.flags), modules=sorted(sys.modules),
    folder=os.getcwd(), environment=dict(os.environ), streams=streams, handlers=handlers,
    umask=os.umask(0), leads=os.getpgid(0) == os.getpid(), session=os.getsid(0),
    descriptors=sorted(os.listdir("/proc/self/fd"))[:-1], limits=resource.getrlimit(7),
    collects=(gc.isenabled(), gc.get_threshold()), threads=[t.name for t in threading.enumerate()],
    blocked=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), children=open(
        f"/proc/self/task/{os.getpid()}/children").read(), read=sys.stdin.read(),
    file=__file__, name=__name__, names=sorted(globals()), frames=sys._getframe(1).f_code.co_name,
)
atexit.register(print, "last words")
print(json.dumps(facts, sort_keys=True))
print("said", file=sys.stderr)
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def both(house: House, *arguments: str, said: str = "") -> list[tuple[int, str, str]]:
    """How a run ends when it is forked, and when it is started for itself."""
    found = []
    for real in (False, True):
        (house.folder / "trace.json").unlink(missing_ok=True)  # one that is replaced is named
        with pytest.MonkeyPatch.context() as patch:
            if real:
                patch.setattr(forked_starts, "server", lambda engine: None)
            process = house.start(GRADSCOPE, *arguments)
            assert isinstance(process, ForkedStart) is not real
            out, err = process.communicate(said, timeout=60)
            found.append((process.returncode, out, err))
    return found


def test_a_forked_run_finds_what_a_started_one_finds(house: House) -> None:
    house.write(TELLS)

    (code, out, err), (real_code, real_out, real_err) = both(
        house, "trace", "-q", "script.py", "--its", "own", said="some input\n"
    )

    facts, last = out.splitlines()
    real_facts, real_last = real_out.splitlines()
    forked, real = json.loads(facts), json.loads(real_facts)
    assert (code, last, err) == (real_code, real_last, real_err) == (0, "last words", "said\n")
    assert forked["read"] == "some input\n"
    assert {key: forked[key] for key in forked if forked[key] != real[key]} == {}, real


def without_times(ran: tuple[int, str, str]) -> tuple[int, str, str]:
    """What the recording took is its own each time."""
    code, out, err = ran
    kept = [line for line in err.splitlines() if not line.startswith("gradscope: gradscope itself")]
    return code, out, "\n".join(kept)


@pytest.mark.parametrize(
    "ends",
    ["raise SystemExit(7)", "raise ValueError('no')", "import os; os._exit(9)",
     "import os; os.abort()",
     "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"],
)  # fmt: skip
def test_it_ends_in_the_same_way(house: House, ends: str) -> None:
    house.write(f"print('first')\n{ends}\n")

    forked, real = both(house, "trace", "script.py")

    assert without_times(forked) == without_times(real)


def test_it_hears_signals_and_is_killed_with_what_it_started(house: House) -> None:
    house.write("import os, time\nprint(os.getpid(), flush=True)\nos.fork()\ntime.sleep(60)\n")
    process = house.start(GRADSCOPE, "trace", "-q", "script.py")
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.1)

    os.killpg(process.pid, signal.SIGKILL)

    assert process.wait(timeout=30) == -signal.SIGKILL
    until = time.monotonic() + 30
    while _is_there(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _is_there(process.pid)


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("name", ["PYTHONUNBUFFERED", "PYTHONPATH", "LC_ALL", "NUMBA_CACHE_DIR"])
def test_what_is_read_at_the_start_asks_for_a_real_one(house: House, name: str) -> None:
    process = house.start(GRADSCOPE, "--version", env={name: "/nowhere"})
    process.kill()

    assert not isinstance(process, ForkedStart)


def test_the_server_ends_with_who_started_it(house: House) -> None:
    script = (
        "from tests.shared import forked_starts as f; s = f.server('gradscope'); import os;"
        "print(s.fork(['--version'], '.', dict(os.environ), [0, 1, 2])[0] > 0, s.process)"
    )
    ran: Any = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    said = next(line for line in ran.stdout.splitlines() if line.startswith("True "))
    server = int(said.split()[1])  # the fork speaks there, too, at times sooner

    until = time.monotonic() + 30
    while Path(f"/proc/{server}/cmdline").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{server}/cmdline").exists()
