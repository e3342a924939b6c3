"""Which recorded errors ended the program, and which it caught before it continued."""

from __future__ import annotations

from gradscope.trace.schema import Error, Finding
from gradscope.trace.trace import Trace

EXCEPTION = "exception"
WENT_ON = ", and the program went on"


def went_on(trace: Trace, error: Error) -> bool:
    """Whether the program continued after this error because it was caught.

    False for every error if the trace does not record how the program ended.
    """
    if "exit" not in trace.meta:
        return False
    endings = [str(trace.meta["exit"])]
    endings += [row.message for row in trace.rows(Finding) if row.kind == EXCEPTION]
    return not any(error.type in ending and error.message in ending for ending in endings)


def ended_by_will(trace: Trace, error: Error) -> bool:
    """Whether the program was ended on purpose: by an exit, Ctrl-C or `--stop-on`.

    An exit that the program caught does not count, if its code differs from the final one.
    """
    ending = str(trace.meta.get("exit", ""))
    match error.type:
        case "KeyboardInterrupt":
            return error.type in ending
        case "Stopped":
            return ending != "ok"
        case "SystemExit":
            if error.message in ("", "0", "None"):
                return ending == "ok"
            return ending in (f"exit code {error.message}", f"exit code 1: {error.message}")
    return False
