"""List every text of gradscope that a user can see, to be read through.

    python tools/docs/messages.py                  # all
    python tools/docs/messages.py analysis/rules   # those of one folder

A message is a text of three words or more in the code of a folder that speaks to users, and no
docstring. `{…}` stands for what is put in. The runtime's own engine is left out: its messages are
PyTorch's, and are compared with PyTorch's.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paths import HOUSE

CODE = HOUSE / "gradscope"
FOLDERS = (
    "analysis", "callbacks", "cli.py", "commands", "debug", "errors.py", "record", "render",
    "scene", "trace", "watch",
)  # fmt: skip
WORDS = 3
CODE_LIKE = re.compile(r"\w\[\w.]+[ ,|\]]|\w \| \w|\\[dws]|^\w+ = |\{\n")
"""What types, patterns and programs contain, and messages do not."""
PUNCTUATION = re.compile(r"[!-/:-@[-`{-~]")
"""What may mean something in Markdown."""


@dataclass(frozen=True)
class Message:
    """A text and where it stands."""

    file: str
    line: int
    text: str


def messages(folder: str = "") -> Iterator[Message]:
    """Every message, by file and line."""
    for name in FOLDERS:
        top = CODE / name
        for file in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            path = file.relative_to(CODE).as_posix()
            if path.startswith(folder):
                yield from _in_file(path, file)


def _in_file(path: str, file: Path) -> Iterator[Message]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = [*ast.walk(tree)]
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    for node in nodes:
        text = _text(node)
        if text is None or id(node) in inside or id(node) in alone:
            continue
        if len(text.split()) >= WORDS and CODE_LIKE.search(text) is None:
            yield Message(path, getattr(node, "lineno", 0), " ".join(text.split()))


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else "{…}" for each in node.values)
        return "".join(map(str, parts))
    return None


def as_markdown() -> str:
    """The messages as sections of a page: a list for each file."""
    file, lines = "", []
    for message in messages():
        if message.file != file:
            file = message.file
            lines.append(f"\n## {file}\n")
        lines.append("- " + PUNCTUATION.sub(r"\\\g<0>", message.text))
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    file = ""
    for message in messages(*arguments[:1]):
        if message.file != file:
            file = message.file
            print(f"\n{file}")
        print(f"{message.line:5}  {message.text}")


if __name__ == "__main__":
    main(sys.argv[1:])
