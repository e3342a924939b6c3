"""`[tool.gradscope]` in pyproject.toml: which rules `gradscope inspect` checks, and what fails."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscope.errors import GradscopeError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from gradscope.analysis.findings import Severity
    from gradscope.analysis.rules.registry import Rule

FILE, TABLE = "pyproject.toml", "tool.gradscope"
SELECT, IGNORE, FAIL_ON = KEYS = ("select", "ignore", "fail-on")
HEADER = re.compile(r"\s*\[\s*tool\s*\.\s*gradscope\s*\]")
NEVER, DEFAULT = "never", "warning"


@dataclass(frozen=True)
class Choice:
    """Names of rules, and what makes the exit code 1: of the command line, or of a file."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Sequence[str] = ()
    file: Path | None = None  # None: the command line alone

    def over(self, settings: "Choice") -> "Choice":
        """These options, and for what they do not choose, the settings of a file.

        `--select` begins anew. `--ignore` leaves out more of what the file selects.
        """
        fails = self.fail_on or settings.fail_on
        if self.select or settings.file is None:
            return Choice(self.select, self.ignore, fails)
        ignored = (*settings.ignore, *self.ignore)
        return Choice(settings.select, ignored, fails, settings.file)

    @property
    def note(self) -> str:
        """What a file chose, in words; "" if it chose no rules."""
        if self.file is None or not (self.select or self.ignore):
            return ""
        chosen = [
            f"{key} {', '.join(names)}"
            for key, names in ((SELECT, self.select), (IGNORE, self.ignore))
            if names
        ]
        return f"rules chosen by [{TABLE}] of {self.file}: {'; '.join(chosen)}"


def names_in(given: Sequence[str] | None) -> list[str]:
    """The names in the values of an option: `--select GS1,GS4 --select graph-cut`."""
    parts = (part.strip() for value in given or () for part in value.split(","))
    return [part for part in parts if part]


def severities_and_rules(names: Sequence[str]) -> "list[Severity | list[Rule]]":
    """The findings that `fail-on` names: of a severity, or of rules; none for `never`."""
    from gradscope.analysis.findings import Severity
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require_some

    severities = {each.name.lower(): each for each in Severity}
    return [
        severities[name] if name in severities else require_some(all_rules(), name)
        for name in names
        if name != NEVER
    ]


def settings_here() -> Choice:
    """The settings in the nearest pyproject.toml, upwards, that has [tool.gradscope]."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / FILE
        text = _text_of(path)
        if "gradscope" in text:
            found = _table_in(path, text)
            if found is not None:
                return _read(path, text, found)
    return Choice()


def _text_of(path: Path) -> str:
    """The text of a file; "" where there is none, or none that can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _table_in(path: Path, text: str) -> object:
    """[tool.gradscope], or None."""
    import tomllib

    try:
        tool = tomllib.loads(text).get("tool")
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        line = f":{place[1]}" if place else ""
        raise UsageError(f"{path}{line}: it is not valid TOML: {error}") from None
    return tool.get("gradscope") if isinstance(tool, dict) else None


def _read(path: Path, text: str, table: Any) -> Choice:
    if not isinstance(table, dict):
        raise UsageError(f"{path}:{_line_of(text, 'gradscope')}: {TABLE} must be a table")
    for key in table:
        if key not in KEYS:
            raise UsageError(
                f"{path}:{_line_of(text, key)}: [{TABLE}] has no setting {key!r}; choose "
                f"{', '.join(KEYS)}"
            )
    select, ignore, fails = (_names(path, text, table, key) for key in KEYS)
    return Choice(select, ignore, fails, path)


def _names(path: Path, text: str, table: dict[str, Any], key: str) -> list[str]:
    """The names of a setting, each checked. `fail-on` also takes one name instead of a list."""
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require_some

    names = table.get(key, [])
    names = [names] if key == FAIL_ON and isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        example = '["GS4", "graph-cut"]'
        raise UsageError(
            f"{path}:{_line_of(text, key)}: {key} must be a list of strings, as in {example}"
        )
    for name in names:
        try:
            if key == FAIL_ON:
                severities_and_rules([name])
            else:
                require_some(all_rules(), name)
        except UnknownNameError as error:
            raise _wrong(f"{path}:{_line_of(text, key, name)}: {key}", key, error) from None
    return names


def _wrong(place: str, key: str, error: GradscopeError) -> UsageError:
    takes = " takes error, warning, note, never or rules" * (key == FAIL_ON)
    return UsageError(f"{place}{takes}: {error}")


def _line_of(text: str, key: str, name: str = "") -> int:
    """The line of a setting, or of a name in its list; 1 if it is written in another way."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if HEADER.match(line)), 0)
    its = re.compile(rf"""[\s{{.,"']*\b{re.escape(key)}\b["']?\s*[=\]]""")
    at = next((n for n in range(start, len(lines)) if its.match(lines[n])), start)
    quoted = (f'"{name}"', f"'{name}'")
    named = (n for n in range(at, len(lines)) if any(each in lines[n] for each in quoted))
    return 1 + (next(named, at) if name else at)
