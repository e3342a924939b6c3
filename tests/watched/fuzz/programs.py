"""Programs drawn from a seed, as readable text: pieces/*.txt say what they are made of.

A piece is a few lines under a title. `<<a|b>>` is one of these, drawn; `$n` the number of the
piece; `$t` and `$p` are a tensor and a plain tensor that the program has by then.
What it assigns to `t$n`, `m$n` and `o$n`, later pieces may use. All pieces but the end stand in a
function, so that what one raises is said and the others are done.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
WEIGHTS = {
    "tensors": 5, "operations": 6, "backwards": 5, "hooks": 4, "modules": 4, "optimizers": 3,
    "modes": 3, "signals": 1, "threads": 1,
}  # fmt: skip
CHOICE = re.compile(r"<<((?:(?!<<|>>).)*)>>", re.DOTALL)
SHARED = re.compile(r"^\s*([tmo]\d+)\b[^=\n]*(?<![=!<>])=(?!=)", re.MULTILINE)
FEWEST, MOST = 4, 14
PLAIN = "t0 = torch.randn(3, 4, requires_grad=True)\nt1 = torch.randn(3, 4, requires_grad=True)"


@dataclass(frozen=True)
class Program:
    """Blocks of text in their order."""

    seed: int
    blocks: tuple[str, ...]

    def text(self) -> str:
        """The file to run."""
        prologue = (HERE / "prologue.py").read_text(encoding="utf-8").partition("\n")[2]
        title = f'"""A program of the fuzzer (tests/watched/fuzz), from seed {self.seed}."""\n'
        return "\n\n".join([title + prologue, PLAIN, *self.blocks]) + "\n"

    def without(self, left_out: Sequence[int]) -> Program:
        kept = tuple(block for nr, block in enumerate(self.blocks) if nr not in left_out)
        return replace(self, blocks=kept)


def drawn(seed: int) -> Program:
    """The program of a seed: always the same."""
    draw = random.Random(seed)
    names = ["t0", "t1"]
    blocks = []
    kinds = draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=draw.randint(FEWEST, MOST))
    for number, kind in enumerate(kinds, start=2):
        title, text = draw.choice(pieces()[kind])
        body = written(text, number, names, draw)
        shared = sorted(set(SHARED.findall(body)) & {f"{each}{number}" for each in "tmo"})
        names += shared
        blocks.append(block(f"{kind}_{number}", title, body, shared))
    blocks.append(shown(names))
    blocks.append(written(draw.choice(pieces()["ends"])[1], 99, names, draw))
    return Program(seed, tuple(blocks))


def block(name: str, title: str, body: str, shared: Sequence[str]) -> str:
    """A function that is called at once."""
    lines = [f"global {', '.join(shared)}"] if shared else []
    inner = textwrap.indent("\n".join([f"# {title}", *lines, body]), "    ")
    return f"@attempt\ndef {name}():\n{inner}"


def shown(names: Sequence[str]) -> str:
    tensors = [name for name in names if name[0] == "t"]
    pairs = ", ".join(f'"{name}": globals().get("{name}")' for name in tensors)
    return f"show_all({{{pairs}}})"


def written(text: str, number: int, names: Sequence[str], draw: random.Random) -> str:
    """The text of a piece, with everything drawn."""
    while match := CHOICE.search(text):
        text = text[: match.start()] + draw.choice(match[1].split("|")) + text[match.end() :]
    text = text.replace("$n", str(number))
    pools = {"t": [n for n in names if n[0] == "t"], "p": ["t0", "t1"]}
    return re.sub(r"\$([tp])", lambda found: draw.choice(pools[found[1]]), text).strip("\n")


@cache
def pieces() -> dict[str, list[tuple[str, str]]]:
    """Title and text of every piece, by file."""
    found = {}
    for file in sorted((HERE / "pieces").glob("*.txt")):
        parts = file.read_text(encoding="utf-8").split("### ")[1:]
        found[file.stem] = [(each.partition("\n")[0], each.partition("\n")[2]) for each in parts]
    return found
