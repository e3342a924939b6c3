"""Run the sessions that README and docs show, and put in what they print; or say which are old.

    python tools/docs/sessions.py                  # rewrite all
    python tools/docs/sessions.py --check          # say which are old; exit with 1 if any is
    python tools/docs/sessions.py README.md        # only this page

A session is a block marked `console`, with commands after `$ `. A block of Python whose first line
is a comment with a file name is that file. The blocks of a page run in order in one folder, in
which `docs` and `samples` are those of this checkout. In the output a line `…` stands for lines
that are left out. Times, and sizes of files, may differ.

A page that records with PyTorch needs it, and one that starts ranks needs mpi4py; the others run on
gradscope's own engine, or read traces of the gallery.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from paths import DOCS, HOUSE

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./-]+\.py)\n")
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)
LEFT_OUT = "…"
WIDTH = "80"
VARIES = re.compile(r"-?[\d.,]+ ?(?:ns|µs|ms|s|%)(?!\w)|[█▌░▃▲├┤─▄▆▇▅▂▁]+")
MARKS = re.compile(r" *[~^]*\^[~^]*")
"""Under a line of a traceback; each version of Python marks other parts."""
SIZE = re.compile(r"[\d.]+ (?:KiB|MiB|bytes)")


@dataclass
class Session:
    """A command of a page and what the page says that it prints."""

    command: str
    output: str


def pages() -> list[Path]:
    """The pages with sessions."""
    every = [HOUSE / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in every if "```console\n" in page.read_text(encoding="utf-8")]


def needs_pytorch(text: str) -> bool:
    """Whether a page records with PyTorch."""
    commands = [each for block in sessions_of(text) for each in block]
    return any(
        re.search(r"\bgradscope trace\b|\bGRADSCOPE=", each.command)
        and "--on gradscope" not in each.command
        for each in commands
    )


def needs_mpi(text: str) -> bool:
    """Whether a page starts ranks of gradscope's own engine."""
    return "--on gradscope --ranks-here" in text


def sessions_of(text: str) -> list[list[Session]]:
    """The sessions of a page, block by block."""
    return [_sessions(body) for kind, body in BLOCK.findall(text) if kind == "console"]


def _sessions(body: str) -> list[Session]:
    starts = [found.start() for found in COMMAND.finditer(body)]
    parts = [body[a:b] for a, b in zip(starts, [*starts[1:], len(body)], strict=True)]
    return [Session(part.partition("\n")[0][2:], part.partition("\n")[2]) for part in parts]


def rewritten(text: str) -> str:
    """The page with what its sessions print now."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for shared in ("docs", "samples"):
            (folder / shared).symlink_to(HOUSE / shared)
        return BLOCK.sub(lambda block: _block(block, folder), text)


def _block(block: re.Match[str], folder: Path) -> str:
    kind, body = block[1], block[2]
    if kind == "python" and (named := FILE.match(body)):
        (folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
        (folder / named[1]).write_text(body, encoding="utf-8")
    if kind != "console":
        return block[0]
    parts = [_said(each, folder) for each in _sessions(body)]
    return f"```console\n{''.join(parts)}```"


def _said(session: Session, folder: Path) -> str:
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHONHASHSEED": "0"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(  # noqa: S602  commands of our own pages
        session.command, shell=True, cwd=folder, env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    printed = done.stdout.replace(f"{folder}/", "").replace(f"{HOUSE}/", "")
    lines = [line.rstrip() for line in printed.splitlines() if not MARKS.fullmatch(line)]
    shown = "".join(f"{line}\n" for line in _shortened(lines, session.output.splitlines()))
    if alike(shown) == alike(session.output):
        shown = session.output
    return f"$ {session.command}\n{shown}"


def _shortened(lines: list[str], as_in: list[str]) -> list[str]:
    """The lines, with as many left out as the page leaves out."""
    if LEFT_OUT not in as_in:
        blank = not as_in or as_in[-1] == ""
        return [*lines, ""] if blank and as_in else lines
    first = as_in.index(LEFT_OUT)
    rest = len(as_in) - first - 1
    if first + rest >= len(lines):
        return lines
    return [*lines[:first], LEFT_OUT, *(lines[-rest:] if rest else [])]


def alike(text: str) -> str:
    """What must be the same in each run of a command."""
    lines = (
        SIZE.sub("#", line) if line.startswith(("wrote ", "added to ")) else line
        for line in text.splitlines()
    )
    return " ".join(VARIES.sub("#", "\n".join(lines)).split())


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    named = [Path(each).resolve() for each in arguments if not each.startswith("-")]
    old = []
    for page in named or pages():
        text = page.read_text(encoding="utf-8")
        if needs_pytorch(text) and find_spec("torch") is None:
            print(f"{page.relative_to(HOUSE)}: not run, as PyTorch is not installed")
            continue
        if needs_mpi(text) and find_spec("mpi4py") is None:
            print(f"{page.relative_to(HOUSE)}: not run, as mpi4py is not installed")
            continue
        new = rewritten(text)
        if new == text:
            continue
        old.append(page)
        print(f"{page.relative_to(HOUSE)}{' is old; run: make docs' if check else ''}")
        if not check:
            page.write_text(new, encoding="utf-8", newline="\n")
    return 1 if old and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
