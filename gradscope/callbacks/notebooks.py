"""Display of reports, traces and recordings in IPython and notebooks.

The formatters are registered by type name, so nothing is imported before one of them is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from gradscope.analysis.report import Report
    from gradscope.record.recording import Recording
    from gradscope.trace.trace import Trace

WIDTH, ROWS = 100, 8
PRE = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:1.3;'
    'font-family:ui-monospace,Menlo,Consolas,monospace">{code}</pre>'
)


def register() -> None:
    """Register the formatters if the program runs in IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", _none)()
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for (module, name), lines in LOOKS.items():
        formatters["text/html"].for_type_by_name(module, name, partial(_html, lines))
        formatters["text/plain"].for_type_by_name(module, name, partial(_plain, lines))


def _none() -> None:
    """Stands for `get_ipython` in a program without IPython."""


def _html(lines: Callable[[Any], Iterator[Text]], shown: Any) -> str:
    from rich.console import Console

    console = Console(
        file=StringIO(), record=True, width=WIDTH, force_terminal=True, force_jupyter=False
    )
    for line in lines(shown):
        console.print(line, soft_wrap=True)
    return console.export_html(inline_styles=True, code_format=PRE)


def _plain(lines: Callable[[Any], Iterator[Text]], shown: Any, printer: Any, cycle: bool) -> None:  # noqa: ARG001, FBT001  as IPython calls it
    printer.text("\n".join(line.plain.rstrip() for line in lines(shown)))


def _report(report: Report) -> Iterator[Text]:
    from gradscope.render.terminal.cells import UNICODE
    from gradscope.render.views.report import report_lines

    return report_lines(report, WIDTH, UNICODE, ROWS)


def _trace(trace: Trace) -> Iterator[Text]:
    from rich.text import Text

    from gradscope.analysis.report import inspect
    from gradscope.scene.report import headline

    yield from map(Text, headline(inspect(trace)))
    yield Text("next: gradscope.inspect(trace), gradscope.show(trace)", "dim")


def _recording(recording: Recording) -> Iterator[Text]:
    from pathlib import Path

    from rich.text import Text

    from gradscope.render.views.recorded import recorded

    path = getattr(recording.writer, "path", None)
    if recording.session is not None:
        where = f" to {path.name}" if path is not None else ""
        yield Text(f"recording{where} at level {recording.options.level}")
    elif path is not None and path.exists():
        said = recorded(path, Path(path.name), width=WIDTH)
        yield from map(Text, filter(None, (*said.summary, said.following)))
    else:
        yield from _trace(recording.trace())


LOOKS: dict[tuple[str, str], Callable[[Any], Iterator[Text]]] = {
    ("gradscope.analysis.report", "Report"): _report,
    ("gradscope.record.recording", "Recording"): _recording,
    ("gradscope.trace.trace", "Trace"): _trace,
}
