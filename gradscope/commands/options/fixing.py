"""`gradscope inspect --fix` shows rewritten lines as a diff; `--apply` writes the safe ones."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.output import safe
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.analysis.findings import Finding
    from gradscope.analysis.fixes import FileNow, Fix
    from gradscope.analysis.report import Report
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.trace.trace import Trace

_fix_option = partial(typer.Option, rich_help_panel="Findings")
ShowsFixes = Annotated[
    bool, _fix_option("--fix", help="Show findings whose fix is one line, as a diff.")
]
AppliesFixes = Annotated[
    bool,
    _fix_option(
        "--apply",
        help="With --fix, write the fixes that are marked safe into the program's files.",
    ),
]


def show_fixes(trace: "Trace", report: "Report", out: "Terminal", *, apply: bool) -> "Report":
    """Show the fixes of findings, or write those that are safe. The result lacks what was fixed."""
    from gradscope.analysis.fixes import fixes
    from gradscope.render.terminal.cells import line
    from gradscope.render.views.fixes import fix_lines, summary_line, written_lines
    from gradscope.scene.report import verdict

    findings = report.findings
    found = fixes(trace, findings)
    if not apply:
        ends = line(verdict(report)), summary_line(found, len(findings))
        out.show([*fix_lines(found), *ends])
        return report
    found, refused = _written(found)
    done = [fix for fix in found if not fix.left]
    out.show([*written_lines(found), summary_line(found, len(findings), done=True)])
    if refused:
        raise UsageError("; ".join(refused))
    fixed = {(fix.rewrite.site.file, fix.rewrite.site.line, fix.rewrite.code) for fix in done}
    left = tuple(each for each in findings if not _is_fixed(each, fixed))
    return replace(report, findings=left)


def _written(found: "Sequence[Fix]") -> "tuple[list[Fix], list[str]]":
    """Write what is safe. The fixes of a file that cannot be written say so; other files go on."""
    problems: dict[Path, str] = {}
    for file, several in by_file([fix for fix in found if not fix.left]):
        try:
            write_fixes(file, several)
        except UsageError as error:
            problems[file.path] = str(error)
    tried = [
        fix if fix.left else replace(fix, problem=problems.get(fix.file.path, "")) for fix in found
    ]
    return tried, [*problems.values()]


def _is_fixed(finding: "Finding", fixed: "set[tuple[str, int, str]]") -> bool:
    rewrite = finding.rewrite
    if rewrite is None:
        return False
    return (rewrite.site.file, rewrite.site.line, rewrite.code) in fixed


def by_file(several: "Sequence[Fix]") -> "list[tuple[FileNow, list[Fix]]]":
    """The fixes of each file."""
    files: dict[Path, tuple[FileNow, list[Fix]]] = {}
    for fix in several:
        files.setdefault(fix.file.path, (fix.file, []))[1].append(fix)
    return [*files.values()]


def write_fixes(file: "FileNow", several: "Sequence[Fix]") -> None:
    """Replace a file by one with these fixes: at any moment it is whole, the old or the new one."""
    from gradscope.analysis.fixes import changed

    path, temporary = file.path, ""
    try:
        content = "".join(changed(file, several)).encode(file.encoding)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as new:
            temporary = new.name
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        shutil.copymode(path, temporary)
        if path.read_bytes() != file.content:
            raise UsageError(f"{safe(str(path))} has changed meanwhile; nothing was written to it")
        Path(temporary).replace(path)
        temporary = ""
    except OSError as error:
        raise UsageError(f"cannot write {safe(str(path))}: {error.strerror}") from None
    finally:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()
