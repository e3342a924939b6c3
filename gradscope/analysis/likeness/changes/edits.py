"""Lines of the program that were edited between two runs, apart from comments and layout."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePath

from gradscope.analysis.identity.sites import Site, is_installed, site_at
from gradscope.analysis.likeness.changes.change import Change, ChangeKind, counted
from gradscope.trace.schema import Source
from gradscope.trace.trace import Trace

MOST = 3
"""Largest number of edited lines that are listed."""

LAYOUT = frozenset((
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines that were replaced, added or removed: the first of them on each side."""

    one: Site
    other: Site
    gone: str  # what the first has instead
    new: str
    lines: tuple[frozenset[int], frozenset[int]]  # line numbers in both files

    @property
    def words(self) -> str:
        if not self.gone or not self.new:
            what, text = ("new", self.new) if self.new else ("gone", self.gone)
            return f"{what}: `{_cut(text)}`"
        return f"`{_cut(self.gone)}` → `{_cut(self.new)}`"


LONGEST = 60
SHORT = 40
"""Length of lines that are shown whole."""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


Line = tuple[int, tuple[str, ...]]


def edits(one: Trace, other: Trace) -> Iterator[Edit]:
    """The edits of each file that both have; files are matched by name, scripts with each other."""
    files = [_files(trace) for trace in (one, other)]
    for name, theirs in files[1].items():
        mine = files[0].get(name)
        if mine is not None and mine.text != theirs.text:
            yield from _of_file((one, mine), (other, theirs))


def _files(trace: Trace) -> dict[str, Source]:
    """The program's files by name; that of the script is "", since it may have been renamed."""
    script = PurePath(str(trace.meta.get("script", ""))).name
    found: dict[str, Source] = {}
    for row in trace.rows(Source):
        if not is_installed(row.file):
            name = PurePath(row.file).name
            found.setdefault("" if name == script else name, row)
    return found


def _of_file(one: tuple[Trace, Source], other: tuple[Trace, Source]) -> Iterator[Edit]:
    lines = [list(_lines(source.text)) for _, source in (one, other)]
    keys = [[tokens for _, tokens in each] for each in lines]
    for what, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if what == "equal":
            continue
        if b - a == d - c:  # line by line
            for x, y in zip(lines[0][a:b], lines[1][c:d], strict=True):
                yield _edit((one, [x]), (other, [y]))
        else:
            yield _edit((one, lines[0][a:b]), (other, lines[1][c:d]))


def _edit(one: tuple[tuple[Trace, Source], list[Line]],
          other: tuple[tuple[Trace, Source], list[Line]]) -> Edit:  # fmt: skip
    sites = []
    for (trace, source), lines in (one, other):
        text = source.text.split("\n")[lines[0][0] - 1].strip() if lines else ""
        sites.append(site_at(trace, source.file, lines[0][0], text) if lines else Site())
    tokens = [lines[0][1] if lines else () for _, lines in (one, other)]
    texts = [site.text.partition("  #")[0].rstrip() for site in sites]
    gone, new = _between(*tokens) if min(map(len, tokens)) else ("", "")
    if not (gone and new) or max(map(len, texts)) <= SHORT:
        gone, new = texts
    numbers = [frozenset(number for number, _ in lines) for _, lines in (one, other)]
    return Edit(sites[0], sites[1], gone, new, (numbers[0], numbers[1]))


def _between(one: Tokens, other: Tokens) -> tuple[str, str]:
    """The tokens of two lines that differ, with the name they are given to: `lr=0.1`, `lr=0.01`.

    Empty if the lines differ from their beginning.
    """
    begin = end = 0
    least = min(len(one), len(other))
    while begin < least and one[begin] == other[begin]:
        begin += 1
    while end < least - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    span = _balanced((one, other), begin, end)
    first = {tokens[span[0] : len(tokens) - span[1]][:1] for tokens in (one, other)}
    if any(not token or not token[0].isidentifier() for token in first):
        span = _enclosed(one, *span)  # a number in a list or a call: with the list, or the call
    if not span[0]:
        return "", ""
    texts = [_joined(tokens[span[0] : len(tokens) - span[1]]) for tokens in (one, other)]
    return texts[0], texts[1]


Tokens = tuple[str, ...]
OPENING, CLOSED = frozenset("([{"), frozenset(")]}")


def _balanced(lines: tuple[Tokens, Tokens], begin: int, end: int) -> tuple[int, int]:
    """Extend what differs, up to `end` tokens before the end, until all brackets are closed."""
    for tokens in lines:
        depth = lowest = 0
        for token in tokens[begin : len(tokens) - end]:
            depth += (token in OPENING) - (token in CLOSED)
            lowest = min(lowest, depth)
        for _ in range(-lowest):
            begin = _opener(tokens, begin)
        for _ in range(depth - lowest):
            end = _closer(tokens, end)
    return _with_name(lines[0], begin), end


def _enclosed(tokens: Tokens, begin: int, end: int) -> tuple[int, int]:
    """Extend it to the brackets around it, unless there are none, or it has a name."""
    opener = _opener(tokens, begin)
    if "=" in tokens[max(begin - 1, 0) : begin + 2] or tokens[opener] not in OPENING:
        return begin, end
    return _with_name(tokens, opener), _closer(tokens, end)


def _opener(tokens: Tokens, begin: int) -> int:
    """The place of the bracket around a place; 0 if there is none."""
    depth = 0
    for at in range(begin - 1, -1, -1):
        depth += (tokens[at] in CLOSED) - (tokens[at] in OPENING)
        if depth < 0:
            return at
    return 0


def _closer(tokens: Tokens, end: int) -> int:
    """The same to the right: how many tokens follow the bracket."""
    depth = 0
    for left in range(end, 0, -1):
        depth += (tokens[-left] in OPENING) - (tokens[-left] in CLOSED)
        if depth < 0:
            return left - 1
    return 0


def _with_name(tokens: Tokens, begin: int) -> int:
    """Where the name begins that a call, or a value, is given to."""
    if begin and begin < len(tokens) and tokens[begin] in OPENING:
        begin -= tokens[begin - 1].isidentifier()
    while begin >= 2 and tokens[begin - 1] in JOINTS and tokens[begin - 2].isidentifier():
        begin -= 2
    return begin


JOINTS = frozenset((".", "="))
CLOSED_UP = frozenset(("(", "[", "{", ".", "@", "="))
CLOSING = frozenset((")", "]", "}", ",", ".", ":", "=", "(", "["))


def _joined(tokens: Tokens) -> str:
    """Tokens as a line, with the usual spaces."""
    found, last, unary = "", "(", False
    for text in tokens:
        found += text if unary or last in CLOSED_UP or text in CLOSING else f" {text}"
        unary = text == "-" and (last in CLOSED_UP or last == ",")
        last = text
    return found


def _lines(text: str) -> Iterator[Line]:
    """The lines with code: number and tokens. Lines as they are if they are not Python."""
    found: dict[int, list[str]] = {}
    fresh = True  # at the beginning of a statement
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        yield from (
            (number, (line.strip(),))
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        )
        return
    for at, token in enumerate(tokens):
        if token.type in LAYOUT:
            fresh = fresh or token.type == tokenize.NEWLINE
            continue
        alone = fresh and token.type == tokenize.STRING
        fresh = False
        if not (alone and tokens[at + 1].type == tokenize.NEWLINE):  # a docstring
            found.setdefault(token.start[0], []).append(token.string)
    yield from ((number, tuple(line)) for number, line in found.items())


def edited(one: Trace, other: Trace, found: Sequence[Change]) -> Iterator[Change]:
    """Edits of lines that none of the changes found so far is about."""
    explained = {
        (place, site.file, site.line)
        for each in found
        for place, site in enumerate((each.one, each.other))
    }
    left = []
    for each in edits(one, other):
        sites = each.one, each.other
        if not any((place, sites[place].file, line) in explained
                   for place in (0, 1) for line in each.lines[place]):  # fmt: skip
            left.append(each)
    left = _without_moved(left)
    for each in left[:MOST]:
        yield Change(ChangeKind.LINE, each.words, one=each.one, other=each.other)
    if len(left) > MOST:
        more = sum(max(map(len, each.lines)) for each in left[MOST:])
        yield Change(ChangeKind.LINE, f"{counted(more, 'more line')} edited")


def _without_moved(found: list[Edit]) -> list[Edit]:
    """Edits without lines that only moved: an effect of theirs is another order of nodes."""
    gone = {each.gone for each in found if not each.new}
    new = {each.new for each in found if not each.gone}
    moved = gone & new
    return [
        each for each in found if (each.new and each.gone) or (each.new or each.gone) not in moved
    ]
