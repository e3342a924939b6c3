"""A process that has imported PyTorch and gradscope, has recorded once, and forks for each run.

Whoever connects to its socket has a server of its own, which is forked as well. It reads one run a
line, as JSON: a program `alone`, the same `watched`, or traces to `check`. It answers with the code
that the run ended with. All end when the input of the first one ends. harness.py has the other end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORTED = (
    "torch",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.masked",
    "torch.nested",
    "torch.testing._internal.distributed.fake_pg",
    "torch._subclasses.fake_tensor",
    "torch.utils.checkpoint",
    "gradscope.cli",
    "gradscope.record.from_pytorch.source",
    "gradscope.record.run_script",
    "gradscope.trace.spec",
    "gradscope.watch.watcher",
)
WARM = """
import torch
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""
LEVELS = ("graph", "engine", "values", "full")


def prepare() -> None:
    for name in IMPORTED:
        import_module(name)
    import torch

    torch.set_num_threads(1)
    program = Path("warm.py")
    program.write_text(WARM, encoding="utf-8")
    for level in LEVELS:
        watched({"program": "warm.py", "level": level})
    gc.collect()
    gc.freeze()


def listen(place: str) -> None:
    """Fork for whoever connects."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            connection = ready[0].accept()[0]
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                serve(connection)
            connection.close()


def serve(connection: socket.socket) -> None:
    """Fork for each line."""
    with connection.makefile("rw") as stream:
        while line := stream.readline():
            asked = json.loads(line)
            process = os.fork()
            if process == 0:
                connection.close()
                run(asked)
            stream.write(json.dumps(waited_for(process, asked["seconds"])) + "\n")
            stream.flush()
    os._exit(0)


def waited_for(process: int, seconds: float) -> dict[str, Any]:
    """How a run ended, or that it was killed after so long."""
    until, pause = time.monotonic() + seconds, 0.001
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return {"code": os.waitstatus_to_exitcode(status)}
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return {"code": "hangs"}
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def run(asked: dict[str, Any]) -> None:
    """Be a process of its own, and end."""
    os.setpgid(0, 0)
    os.chdir(asked["folder"])
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = {"alone": alone, "watched": watched, "check": check}[asked["what"]](asked)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 255)


def alone(asked: dict[str, Any]) -> int:
    """Run the program as `python` does."""
    program = asked["program"]
    place = os.path.join(os.getcwd(), program)  # noqa: PTH109, PTH118
    main = ModuleType("__main__")
    main.__dict__["__file__"] = place
    sys.modules["__main__"], sys.argv = main, [program]
    try:
        exec(compile(Path(program).read_bytes(), place, "exec"), main.__dict__)
    except SystemExit as error:
        code = exited(error.code)
    except BaseException as error:
        code = died(error)
    else:
        code = 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return code


def exited(code: object) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0)
    sys.stderr.write(f"{code}\n")
    return 1


def died(error: BaseException) -> int:
    traceback = error.__traceback__
    error.__traceback__ = traceback.tb_next if traceback else None
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as another:
        another.__context__ = None  # Python handles no exception any more when it calls the hook
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(another), another, another.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def watched(asked: dict[str, Any]) -> int:
    """Run the program as `gradscope trace` does."""
    from gradscope.record.run_script import TraceOptions, run_script

    level = asked["level"]
    options = TraceOptions(asked["program"], output=Path(f"{level}.json"), level=level)
    outcome = run_script(options)
    if outcome.trouble:
        sys.stderr.write(f"gradscope: {outcome.trouble}\n")
    return outcome.code


def check(asked: dict[str, Any]) -> int:
    """Say what is wrong with the traces of each level: broken rules, faults of gradscope's own."""
    from gradscope.trace.load_save import load
    from gradscope.trace.spec import check as violations

    for level in asked["level"].split(","):
        trace = load(Path(f"{level}.json"))
        for each in violations(trace):
            print(f"{level}: {each.rule}: {each.message}")
        for text in trace.meta.get("unseen") or {}:
            if "fault of gradscope" in text or "please report" in text:
                print(f"{level}: {text}")
    return 0


if __name__ == "__main__":
    task, argument = sys.argv[1:]
    if task == "check":
        sys.exit(check({"level": argument}))
    with contextlib.redirect_stdout(io.StringIO()):
        prepare()
    listen(argument)
