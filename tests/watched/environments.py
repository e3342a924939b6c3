"""Where programs of other packages run: this environment, and one with the PyTorch of torchvision.

torchvision's wheels need the one PyTorch that they are made for. The extra `vision` of
pyproject.toml names both; they are put into a folder of their own, without other packages that they
need, which come from this environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.matrix.cells import HOUSE, interpreter
from tests.matrix.sites import site
from tests.watched.program import Program

LOOK = """
import json
from importlib.metadata import packages_distributions, version
found = packages_distributions()
print(json.dumps({module: [names[0], version(names[0])] for module, names in found.items()}))
"""


@dataclass(frozen=True)
class Environment:
    python: str

    @cached_property
    def versions(self) -> dict[str, tuple[str, str]]:
        """The package and its version for each module that can be imported."""
        told = subprocess.run([self.python, "-c", LOOK], check=True, capture_output=True).stdout
        return {module: (name, of) for module, (name, of) in json.loads(told).items()}

    @property
    def pytorch(self) -> str:
        return self.versions["torch"][1].partition("+")[0]

    def has(self, program: Program) -> bool:
        return all(module in self.versions for module in ["torch", *program.words("needs")])


def environment_of(program: Program, folder: Path) -> Environment:
    """Where a program runs: here, or in the environment of torchvision, made if none is there."""
    if here().has(program):
        return here()
    apart = vision(folder)
    if not apart.has(program):
        raise LookupError(f"{program.name} needs {', '.join(program.words('needs'))}")
    return apart


@cache
def here() -> Environment:
    """This one."""
    return Environment(sys.executable)


@cache
def vision(folder: Path) -> Environment:
    """The environment of torchvision."""
    told = tomllib.loads((HOUSE / "pyproject.toml").read_text("utf-8"))
    pytorch, *others = told["project"]["optional-dependencies"]["vision"]
    version = pytorch.removeprefix("torch==")
    place = site(version, ".".join(map(str, sys.version_info[:2])), folder)
    os.environ["LD_LIBRARY_PATH"] = str(place / "stubs")
    python = interpreter(sys.executable, place, folder / f"vision-{version}")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    subprocess.run([*install, *others], check=True)
    return Environment(python)
