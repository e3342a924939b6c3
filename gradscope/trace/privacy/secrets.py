"""Masks what looks like a secret: passwords, keys and tokens in arguments, code, messages and URLs.

A secret is recognized by its name (`api_key = "…"`, `--password …`, `token: …`), by its position in
a URL (`://user:…@`), or by the format of the tokens of a service (`ghp_…`). A secret without such a
name and such a format is not recognized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gradscope.trace.privacy.code_texts import in_texts
from gradscope.trace.privacy.pairs import without_pairs
from gradscope.trace.privacy.secret_names import Marking, fits, is_mixed, mark_of, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MASK: Final = "***"

SHAPES: Final = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
BEARER: Final = re.compile(
    r"(?i)(\bbearer\s+)((?=[\w.~+/=-]*[\d.~+/=])[\w.~+/-]{6,}=*(?<!\.))"
    r"|(\bbasic\s+)(?-i:(?=\S*[A-Z])(?=\S*[a-z])(?=\S*[\d=]))([\w+/]{12,}=*)"
)
IN_URL: Final = re.compile(r"((?<![\w+.-])[\w+.-]++://[^/\s:@\"'\\]*:)([^@/\s\"'\\]+)(?=@)")
IN_QUERY: Final = re.compile(r"([?&]([\w-]+)=)([^&\s\"'\\#]+)")
PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)((?:(?!-----)[\s\S])*+)(-----END [A-Z ]*PRIVATE KEY-----)"
)
ASSIGNED: Final = re.compile(
    r"""(?P<before>
        (?<![\w-])-*+(?P<name>[A-Za-z_][\w-]*+) (?P<named>\\?["'])? \]?  # api_key, os["TOKEN"]
        (?:\s*:\s*(?P<type>[A-Za-z_][\w\[\]., |]*))?        # an annotation
        \s*(?P<sign>==|!=|=|:|,)\s*
        (?P<brace>\{\s*)?                                   # f"token={'abc'}"
        [rbfuRBFU]{0,2}(?P<quote>\\?["'])
    )(?P<value>(?:(?!(?P=quote))[^\n\\]|\\(?!["'])[^\n]|\\(?!(?P=quote))["'])+)(?P=quote)
    (?(brace)(?=\s*(?:![rsa])?\}))""",
    re.VERBOSE,
)
LISTED: Final = re.compile(
    r"""(?P<before>
        (?<![\w-])-*+(?=[\w-]*?(?i:pass|pwd|secret|credential|key|token|auth|bearer))
        (?P<name>[A-Za-z_][\w-]*+) (?P<named>\\?["'])? \]?
        (?:\s*:\s*[A-Za-z_][\w\[\]., |]*)?
        \s*(?P<sign>=|:)\s*[\[({]\s*+)
    (?P<items>(?:[rbfuRBFU]{0,2}(?:"[^"\\\n]*"|'[^'\\\n]*')\s*+(?:,\s*+)?+)+)(?=[\])}])""",
    re.VERBOSE,
)
ITEM: Final = re.compile(r"(?P<quote>[\"'])(?P<value>.+?)(?P=quote)")
AMBIGUOUS: Final = frozenset({"token", "pass", "pwd"})
"""Names that are also ordinary words, in a list."""
MAYBE: Final = re.compile(
    r"(?i)pass|pwd|secret|credential|key|token|auth|bearer|basic|://|[?&]|sk-|gh[pousr]_|glpat|hf_"
    r"|xox|akia|aiza|eyj"
)
"""A text without any of these contains no secret that is recognized here."""


def masked(text: str, hide: Callable[[str], str] = lambda _: MASK) -> str:
    """A message, or another text, with `***` in place of what looks like a secret."""
    if MAYBE.search(text) is None:
        return text
    text = without_pairs(_without_literals(text, hide), hide)
    return SHAPES.sub(lambda found: hide(found[0]), text)


def masked_code(text: str) -> str:
    """A source text with secrets masked in its literals and comments; it can still be parsed."""
    if MAYBE.search(text) is None:
        return text
    text = in_texts(_without_literals(text, _mask), _in_a_text)
    return SHAPES.sub(MASK, text)


def masked_arguments(
    arguments: Iterable[str], hide: Callable[[str], str] = lambda _: MASK
) -> list[str]:
    """The arguments of a command line, with secrets masked: `--token ***`, `db.password=***`."""
    shown: list[str] = []
    option = ""
    for each in arguments:
        name, equals, value = each.partition("=")
        if option and not each.startswith("-"):
            shown.append(hide(each) if _is_secret(option, each) else masked(each, hide))
        elif equals and _is_secret(name, value):
            shown.append(f"{name}={hide(value)}")
        else:
            shown.append(masked(each, hide))
        option = each if each.startswith("-") and len(each) > 2 and not equals else ""
    return shown


def _mask(_: str) -> str:
    return MASK


def _in_a_text(text: str, is_skipped: Callable[[int], bool] | None) -> str:
    return without_pairs(text, _mask, is_skipped) if MAYBE.search(text) is not None else text


def _without_literals(text: str, hide: Callable[[str], str]) -> str:
    """Without secrets in quotes, in URLs, after `Bearer`, and private keys."""
    text = PRIVATE_KEY.sub(lambda found: _emptied(found, hide), text)
    text = _quoted(text, hide)
    text = IN_URL.sub(lambda found: found[1] + hide(found[2]), text)
    text = IN_QUERY.sub(lambda found: _in_query(found, hide), text)
    return BEARER.sub(lambda found: (found[1] or found[3]) + hide(found[2] or found[4]), text)


def _quoted(text: str, hide: Callable[[str], str]) -> str:
    text = ASSIGNED.sub(lambda found: _unassigned(found, hide), text)
    return LISTED.sub(lambda found: _unlisted(found, hide), text)


def _emptied(found: re.Match[str], hide: Callable[[str], str]) -> str:
    """A masked private key with the same number of lines, so that line numbers stay correct."""
    return found[1] + hide(found[2]) + "\n" * found[2].count("\n") + found[3]


def _unassigned(found: re.Match[str], hide: Callable[[str], str]) -> str:
    value = found["value"]
    if _is_assigned_secret(found):
        value = hide(value)
    elif MAYBE.search(value) is not None:
        value = _quoted(value, hide)  # '{"token": "abc"}'
    return f"{found['before']}{value}{found['quote']}"


def _is_assigned_secret(found: re.Match[str]) -> bool:
    value = found["value"]
    mark = mark_of(found["name"])
    last = (found["type"] or "").strip().rpartition(" ")[2]
    if mark is Marking.NONE and last.islower():
        mark = mark_of(last)  # class C: token = "abc"
    sign, name = found["sign"], found["name"].lower()
    is_word = name == "token" and (sign in {"==", "!="} or (sign == ":" and not found["named"]))
    if is_word or (sign == "," and name in AMBIGUOUS):
        mark = min(mark, Marking.IF_MIXED)  # unknown token: 'abc'; "token", "abc"
    if sign == "," and not found["named"]:
        return False
    return fits(mark, value) and not value.startswith(("<", "[", "{", MASK))


def _unlisted(found: re.Match[str], hide: Callable[[str], str]) -> str:
    mark = mark_of(found["name"])
    if found["name"].lower() in AMBIGUOUS:
        mark = min(mark, Marking.IF_MIXED)

    def hidden(item: re.Match[str]) -> str:
        value = item["value"]
        is_secret = fits(mark, value) and not value.startswith(("<", "["))
        return f"{item['quote']}{hide(value) if is_secret else value}{item['quote']}"

    return found["before"] + ITEM.sub(hidden, found["items"])


def _in_query(found: re.Match[str], hide: Callable[[str], str]) -> str:
    last = words(found[2])[-1:]
    is_secret = (
        last in (["key"], ["token"], ["auth"], ["pass"]) or mark_of(found[2]) is Marking.ALWAYS
    )
    return found[1] + hide(found[3]) if is_secret and found[3] != MASK else found[0]


def _is_secret(option: str, value: str) -> bool:
    """Whether a command-line option is a secret; a number is one only with a plain name."""
    name = option.rpartition(".")[2]
    mark = mark_of(name)
    last = words(name)[-1:]
    if last in (["tokens"], ["keys"]) and mark is not Marking.ALWAYS:
        is_path = "/" in value or re.search(r"\.[a-z]\w{1,5}$", value) is not None
        return is_mixed(value) and not is_path
    is_number = value.replace(".", "").replace("-", "").isdigit()
    is_other = last != ["key"] and mark is Marking.IF_RANDOM  # --pad-token, --first-pass
    if is_number or is_other or mark is Marking.NONE:
        return fits(mark, value)
    return value != "" and not value.startswith(("<", "["))
