"""Fixes as text: a diff for each, what was written, and what was left and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gradscope.analysis.fixes import Fix
from gradscope.render.terminal.cells import line
from gradscope.render.terminal.styles import ACCENT, BOLD, GOOD, SOFT, WARN
from gradscope.render.text import visible_lines
from gradscope.scene.readable import plural


def fix_lines(fixes: Sequence[Fix]) -> Iterator[Text]:
    """Each fix: its finding, whether it is safe, and a unified diff."""
    for fix in fixes:
        yield line((f"{_title(fix)}: {fix.left or 'safe'}", WARN if fix.left else BOLD))
        for text in fix.diff:
            yield line((_shown(text), _style(text)))
        yield line("")


def written_lines(fixes: Sequence[Fix]) -> Iterator[Text]:
    """What was written, with its diff, and what was left and why."""
    for fix in fixes:
        if fix.left:
            yield line((f"left {_title(fix)}: {fix.left}", WARN))
            continue
        yield line((f"wrote {_title(fix)}", BOLD))
        for text in fix.diff:
            yield line((_shown(text), _style(text)))


def summary_line(fixes: Sequence[Fix], findings: int, *, done: bool = False) -> Text:
    """How many findings have a fix of one line, and how many of these are safe."""
    if not fixes:
        said = f"{plural(findings, 'finding')}, none with a fix of one line"
        return line((said if findings else "nothing to fix", SOFT))
    safe = sum(not fix.left for fix in fixes)
    fixed = plural(len(fixes), "fix", "fixes")
    if done:
        return line((f"{safe} of {fixed} written", GOOD if safe == len(fixes) else BOLD))
    more = ", --fix --apply writes " + ("it" if safe == 1 else "them") if safe else ""
    return line((f"{fixed} of one line, {safe} safe{more}", BOLD))


def _shown(text: str) -> str:
    """A line of a diff; tabs stay, so that it can be applied."""
    return "\t".join(map(visible_lines, text.split("\t")))


def _title(fix: Fix) -> str:
    finding, site = fix.finding, fix.rewrite.site
    return visible_lines(f"{site.place} ({finding.rule} {finding.slug})")


def _style(text: str) -> str:
    if text.startswith(("---", "+++")):
        return BOLD
    return {"+": GOOD, "-": WARN, "@": ACCENT}.get(text[:1], SOFT)
