"""The cells of the matrix, and how a program is run in one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HOUSE = Path(__file__).parents[2]
PINNED = "2.13.0"
VERSIONS = ("2.4.1", "2.6.0", "2.8.0", "2.10.0", "2.12.1", PINNED, "2.14.1", "2.15.0")
OF_PYTORCH = (
    "filelock",
    "typing-extensions",
    "sympy",
    "networkx",
    "jinja2",
    "fsspec",
    "setuptools",
)
"""What a PyTorch imports."""

PYTHONS = ("3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Cell:
    """One PyTorch on one Python, with machine code or without."""

    pytorch: str
    python: str
    native: bool

    @property
    def name(self) -> str:
        return f"{self.pytorch}-py{self.python}-{'native' if self.native else 'hooks'}"


CELLS = [
    *(Cell(pytorch, "3.11", native) for pytorch in VERSIONS for native in (True, False)),
    *(Cell(PINNED, python, native) for python in PYTHONS for native in (True, False)),
]
REFERENCE = Cell(PINNED, "3.11", native=True)


def find_python(version: str) -> str | None:
    """An interpreter of this version: this one, on PATH, or of pyenv."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    of_pyenv = Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python")
    for found in (*sorted(map(str, of_pyenv)), shutil.which(f"python{version}")):
        if (
            found
            and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode
        ):
            return found
    return None


def interpreter(python: str, site: Path, where: Path) -> str:
    """The Python of a new environment that finds this folder's PyTorch first.

    All other packages come from this environment, or from `where`'s own if Python differs.
    """
    mine = python == sys.executable
    if mine:
        venv.create(where, with_pip=False)
    else:
        environment = {**os.environ, "VENV": str(where), "PYTHON": python}
        subprocess.run(["sh", str(HOUSE / "tools/venv.sh"), "dev"], check=True, env=environment)
        install = [str(where / "bin/python"), "-m", "pip", "install", "-q", *OF_PYTORCH]
        subprocess.run(install, check=True)
    packages = next(where.glob("lib/python*/site-packages"))
    others = [path for path in sys.path if path.endswith("site-packages")] if mine else []
    paths = "\n".join([str(site), str(HOUSE), *others])
    (packages / "first.pth").write_text(f"{paths}\n", encoding="utf-8")
    return str(where / "bin/python")


def ran(python: str, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python with these arguments in a cell."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**kept, "LD_LIBRARY_PATH": str(site / "stubs"), "OMP_NUM_THREADS": "1"}
    command = [python, *arguments]
    return subprocess.run(
        command, cwd=HOUSE, env=environment, capture_output=True, text=True, check=False
    )
