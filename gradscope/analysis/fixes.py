"""Rewritten lines of findings, compared with the program's files as they are now."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from gradscope.analysis.findings import Finding, Rewrite
from gradscope.analysis.identity.sites import is_installed
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.source.functions import parsed
from gradscope.trace.privacy.secrets import MASK
from gradscope.trace.schema import Source
from gradscope.trace.trace import Trace

LINE = re.compile(r"[^\n]*\n|[^\n]+")
AROUND = 2
"""Number of unchanged lines that a diff shows before and after a change."""


@dataclass(frozen=True, slots=True)
class FileNow:
    """A file of the program, as it is now."""

    path: Path = Path()  # without symbolic links
    content: bytes = b""
    encoding: str = ""
    lines: tuple[str, ...] = ()  # each with its line end
    problem: str = ""  # why it cannot be changed


@dataclass(frozen=True, slots=True)
class Fix:
    """The rewritten line of a finding, and whether it can be written."""

    finding: Finding
    rewrite: Rewrite
    file: FileNow = field(default=FileNow(), repr=False)
    line: str = ""  # the new one, with its line end
    problem: str = ""  # why there is no new line

    @property
    def left(self) -> str:
        """Why `--apply` leaves it; "" if it writes it."""
        return self.problem or (self.rewrite.unsafe and f"not safe: {self.rewrite.unsafe}")

    @property
    def diff(self) -> tuple[str, ...]:
        """A unified diff, as `patch` reads it in the folder of the program."""
        if self.problem:
            return ()
        name, old = self.rewrite.site.file.replace("\\", "/"), self.file.lines
        new = changed(self.file, [self])
        given = [line.rstrip("\r\n") for line in old], [line.rstrip("\r\n") for line in new]
        return tuple(unified_diff(*given, name, name, n=AROUND, lineterm=""))


def fixes(trace: Trace, findings: Iterable[Finding]) -> list[Fix]:
    """The fixes of those findings that have a rewritten line, each line once."""
    files: dict[str, FileNow] = {}
    found: dict[tuple[str, int, str], Fix] = {}
    for finding in findings:
        rewrite = finding.rewrite
        if rewrite is not None:
            site = rewrite.site
            if site.file not in files:
                files[site.file] = file_now(trace, site.file)
            fix = _fix(finding, rewrite, files[site.file])
            found.setdefault((site.file, site.line, rewrite.code), fix)
    return _each_line_once([*found.values()])


def changed(file: FileNow, several: Sequence[Fix]) -> list[str]:
    """The lines of a file after these fixes."""
    lines = [*file.lines]
    for fix in several:
        lines[fix.rewrite.site.line - 1] = fix.line
    return lines


def _each_line_once(every: list[Fix]) -> list[Fix]:
    """The fixes; of two that change the same line, the second is left."""
    shown, taken = [], set[tuple[Path, int]]()
    for fix in every:
        place = fix.file.path, fix.rewrite.site.line
        if not fix.left and place in taken:
            problem = "another fix changes the same line"
            shown.append(Fix(fix.finding, fix.rewrite, fix.file, problem=problem))
            continue
        taken |= set() if fix.left else {place}
        shown.append(fix)
    return shown


def _fix(finding: Finding, rewrite: Rewrite, file: FileNow) -> Fix:
    site = rewrite.site
    if file.problem or not 0 < site.line <= len(file.lines):
        return Fix(finding, rewrite, file, problem=file.problem or "the line is not there")
    old = file.lines[site.line - 1]
    code, start = code_of(old), len(old) - len(old.lstrip())
    if code != code_of(site.text) or MASK in rewrite.code:
        problem = "the line holds what the trace masks as a secret"
        return Fix(finding, rewrite, file, problem=problem)
    fix = Fix(finding, rewrite, file, old[:start] + rewrite.code + old[start + len(code) :])
    if parsed("".join(changed(file, [fix]))) is None:
        return Fix(finding, rewrite, file, problem="the statement goes on in the next line")
    return fix


def file_now(trace: Trace, name: str) -> FileNow:
    """A file of the program on this machine, if it still is as it was recorded."""
    recorded = [row.text for row in trace.rows(Source) if row.file == name]
    folder = str(trace.meta.get("cwd", ""))
    if not recorded:
        return FileNow(problem=f"the text of {name} is not in this trace")
    if not Path(folder, name).is_absolute():
        return FileNow(problem="the trace does not say in which folder the program ran")
    try:
        path = Path(folder, name).resolve(strict=True)
        content = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except OSError as error:
        return FileNow(problem=f"cannot read {name}: {error.strerror}")
    except (SyntaxError, UnicodeDecodeError):  # the latter is a ValueError, so it comes first
        return FileNow(problem=f"cannot read {name}: its encoding is not known")
    except (ValueError, RuntimeError):  # a null character, or links in a circle
        return FileNow(problem=f"{name} is no path on this machine")
    if is_installed(str(path)):
        return FileNow(problem=f"{name} belongs to an installed package")
    if not any(_is_same(each, text) for each in recorded):
        return FileNow(
            problem=f"{name} has changed since the recording, or is only partly in the trace: "
            "record the program again"
        )
    return FileNow(path, content, encoding, tuple(LINE.findall(text)))


def _is_same(recorded: str, now: str) -> bool:
    """Whether a text is the recorded one, in which secrets are masked."""
    before, after = recorded.split("\n"), now.replace("\r\n", "\n").split("\n")
    while before and not before[-1]:
        before.pop()
    while after and not after[-1]:
        after.pop()
    return len(before) == len(after) and all(map(_is_same_line, before, after))


def _is_same_line(recorded: str, now: str) -> bool:
    if MASK not in recorded:
        return recorded == now
    first, *others = recorded.split(MASK)
    if not now.startswith(first):
        return False
    at = len(first)
    for each in others:
        found = now.find(each, at)
        if found < 0:
            return False
        at = found + len(each)
    return not others or now.endswith(others[-1])
