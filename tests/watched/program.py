"""The programs of this room, and what the comments at their top say of how to run them.

# needs: peft transformers    the modules it imports that are not always installed
# ranks: 2                    so many processes, started as `torchrun` starts them
# stdin: 3 4 5                what is written to its standard input
# arguments: --steps 3        its command line
# as a module                 run by `python -m`
# every level                 `make test` runs it at each level, not at one
# slow                        more than a few seconds: only `make programs` runs it
# true: GS411 because …       a finding above a note that is right
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOM = Path(__file__).parent / "programs"
KEYS = "needs|ranks|stdin|arguments|true|slow|every level|as a module"
COMMENT = re.compile(rf"^# ({KEYS})(?:: (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOM).with_suffix("").as_posix()

    @cached_property
    def comments(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, value in COMMENT.findall(self.path.read_text(encoding="utf-8")):
            found.setdefault(key, []).append(value)
        return found

    def words(self, key: str) -> list[str]:
        return " ".join(self.comments.get(key, [])).split()

    @property
    def ranks(self) -> int:
        return int("".join(self.words("ranks")) or 0)

    @property
    def stdin(self) -> str:
        return "".join(f"{line}\n" for line in self.comments.get("stdin", []))

    @property
    def true_findings(self) -> set[str]:
        return {line.split()[0] for line in self.comments.get("true", [])}

    @property
    def small(self) -> bool:
        """Whether PyTorch alone is enough for it, and it takes few seconds."""
        return not self.words("needs") and not self.ranks and "slow" not in self.comments


def programs() -> list[Program]:
    return [Program(path) for path in sorted(ROOM.glob("*/*.py"))]
