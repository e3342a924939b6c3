"""Masks what looks like a secret: passwords, keys and tokens in arguments, source lines and URLs.

A secret is recognised by its name (`api_key = "…"`, `--password …`), by its position in a URL
(`://user:…@`), or by the format of the tokens of a service (`ghp_…`). A secret without such a name
and such a format is not recognised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK: Final = "***"


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALWAYS: Final = words_of(
    "password passwd passphrase pwd secret secrets credential credentials apikey authorization "
    "bearer"
)
"""Words that mark a name as that of a secret, at any position in the name."""
KEYS: Final = words_of(
    "api access secret private auth encryption signing ssh session client account storage wandb "
    "openai anthropic aws azure gcp comet neptune"
)
TOKENS: Final = words_of(
    "access auth api bearer refresh session hf hub huggingface github gitlab wandb bot slack jwt "
    "login user"
)
"""Words before `key` and `token` that mark a secret; a `pad_token` is not one."""
OFTEN: Final = frozenset({"key", "token", "auth", "pass"})
"""Last words of names that are secrets if the value looks random."""

WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
RANDOM: Final = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)[^\s<\[]\S{15,}")
SHAPES: Final = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
IN_URL: Final = re.compile(r"(\b[a-zA-Z][\w+.-]*://[^/\s:@\"'\\]*):[^@/\s\"'\\]+@")
IN_QUERY: Final = re.compile(r"([?&]([\w-]+)=)[^&\s\"'\\#]+")
PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL
)
ASSIGNED: Final = re.compile(
    r"""(?P<before>
        (?P<name>[A-Za-z_][\w-]*) \\?["']? \]?          # api_key, "token", os.environ["TOKEN"]
        (?:\s*:\s*[A-Za-z_][\w\[\]., |]*)?              # an annotation
        \s*(?:==|!=|=|:|,)\s*
        [rbfuRBFU]{0,2}(?P<quote>\\?["'])
    )(?P<value>(?:(?!(?P=quote))[^\n\\]|\\(?!["'])[^\n]|\\(?!(?P=quote))["'])+)(?P=quote)""",
    re.VERBOSE,
)
MAYBE: Final = re.compile(
    r"(?i)pass|pwd|secret|credential|key|token|auth|bearer|basic|://|[?&]|sk-|gh[pousr]_|glpat|hf_"
    r"|xox|akia|aiza|eyj"
)
"""A text without any of these contains no secret that is recognised here."""


def masked(text: str) -> str:
    """The text with `***` in place of what looks like a secret."""
    if MAYBE.search(text) is None:
        return text
    text = PRIVATE_KEY.sub(_emptied, text)
    text = ASSIGNED.sub(_unassigned, text)
    text = IN_URL.sub(rf"\1:{MASK}@", text)
    text = IN_QUERY.sub(lambda m: m[1] + MASK if _names_a_secret(m[2]) else m[0], text)
    text = BEARER.sub(rf"\1 {MASK}", text)
    return SHAPES.sub(MASK, text)


def masked_arguments(arguments: Iterable[str]) -> list[str]:
    """The arguments of a command line, with secrets masked: `--token ***`, `db.password=***`."""
    shown: list[str] = []
    option = ""
    for each in arguments:
        name, equals, value = each.partition("=")
        if option and not each.startswith("-"):
            shown.append(MASK if _is_secret(option, each) else masked(each))
        elif equals and _is_secret(name, value):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(masked(each))
        option = each if each.startswith("--") and not equals else ""
    return shown


def _emptied(found: re.Match[str]) -> str:
    """A masked private key with the same number of lines, so that line numbers stay correct."""
    return found[1] + MASK + "\n" * found[2].count("\n") + found[3]


def _unassigned(found: re.Match[str]) -> str:
    if not _names_a_secret(found["name"], found["value"]):
        return found[0]
    return f"{found['before']}{MASK}{found['quote']}"


def _is_secret(option: str, value: str) -> bool:
    """Whether a command-line option is a secret; a number is one only with a plain name."""
    words = _words(option.rpartition(".")[2])
    is_number = value.replace(".", "").replace("-", "").isdigit()
    return _surely(words) or (bool(words) and words[-1] in OFTEN and not is_number)


def _names_a_secret(name: str, value: str = "") -> bool:
    words = _words(name)
    if _surely(words):
        return not value.startswith(("<", "["))  # "<pad>", "[MASK]"
    return bool(words) and words[-1] in OFTEN and RANDOM.fullmatch(value) is not None


def _surely(words: list[str]) -> bool:
    if not words or ALWAYS & {*words}:
        return bool(words)
    last = words[-1]
    before = {*words[:-1]}
    return (last == "key" and bool(KEYS & before)) or (
        last == "token" and (not before or bool(TOKENS & before))
    )


def _words(name: str) -> list[str]:
    """The words of `apiKey`, `API_KEY` and `--api-key`."""
    return [word.lower() for word in WORDS.findall(name)]
