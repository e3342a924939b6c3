"""Gets a PyTorch without its 4 GB of libraries for graphics cards, which the CPU does not use.

The wheel is unpacked into a folder. Each missing library becomes a small one with the names that
PyTorch looks up in it; calling one of them returns an error code, so that no graphics card is
found. Needs gcc, readelf and nm. About 1 GB a version instead of 5.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

LEFT_OUT = ("torch/include/", "torch/test/", "torch/bin/")
OF_A_LIBRARY = re.compile(r"(cu|CU|nccl|nv|cupti|__cuda|_nv|__nv)")
NOT_FOUND = 35  # cudaErrorInsufficientDriver
HEADERS_END = ("Version symbols", "Version definition")


def site(pytorch: str, python: str, folder: Path) -> Path:
    """The folder with this PyTorch, downloaded if it is not there."""
    where = folder / f"torch-{pytorch}-py{python}"
    if not (where / "complete").exists():
        wheels = where / "wheels"
        os.environ["PIP_CONFIG_FILE"] = os.devnull  # it may admit fewer versions
        ran(
            sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
            "--python-version", python, "--implementation", "cp", "-d", str(wheels),
            f"torch=={pytorch}",
        )  # fmt: skip
        for wheel in wheels.iterdir():
            with zipfile.ZipFile(wheel) as packed:
                names = [name for name in packed.namelist() if not name.startswith(LEFT_OUT)]
                packed.extractall(where, names)
            wheel.unlink()
        (where / "torch/bin").mkdir(exist_ok=True)
        (where / "torch/bin/torch_shm_manager").touch()  # PyTorch looks whether it exists
        for library, needed in missing(where / "torch/lib").items():
            stand_in(where / "stubs", library, needed)
        (where / "complete").touch()
    return where


def missing(libraries: Path) -> dict[str, dict[str, set[str]]]:
    """Libraries that are not there: the names that are looked up in each, by version."""
    there = {path.name for path in libraries.iterdir()} | of_the_system()
    wanted: set[str] = set()
    versions: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for path in libraries.glob("*.so*"):
        wanted |= set(re.findall(r"NEEDED.*\[(.*)\]", ran("readelf", "-dW", str(path)))) - there
        file = ""
        for line in ran("readelf", "-VW", str(path)).splitlines():
            if begins := re.search(r"File: (\S+)", line):
                file = begins[1]
            elif (version := re.search(r"Name: (\S+)\s+Flags", line)) and file:
                versions[file].add(version[1])
            elif any(text in line for text in HEADERS_END):
                file = ""
        for line in ran("nm", "-D", "--undefined-only", str(path)).splitlines():
            name, _, of = line.split()[-1].partition("@")
            names[of.lstrip("@")].add(name)
    plain = {name for name in names[""] if OF_A_LIBRARY.match(name)}
    return {
        library: {"": plain, **{version: names[version] for version in versions[library]}}
        for library in wanted
    }


def of_the_system() -> set[str]:
    found = set(re.findall(r"^\s*(\S+) ", ran("/sbin/ldconfig", "-p"), re.MULTILINE))
    return {name for name in found if not name.startswith(("libcu", "libnv"))}


def stand_in(folder: Path, library: str, versions: dict[str, set[str]]) -> None:
    """Write a library whose functions all return an error."""
    folder.mkdir(exist_ok=True)
    names = sorted(set().union(*versions.values()))
    file = folder / library
    source, script = file.with_suffix(".s"), file.with_suffix(".map")
    labels = "".join(f".globl {name}\n.type {name},@function\n{name}:\n" for name in names)
    source.write_text(f"{labels}mov ${NOT_FOUND},%eax\nret\n", encoding="utf-8")
    told = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(of_it))} }};"
        for version, of_it in versions.items()
        if version
    ]
    script.write_text("\n".join(told), encoding="utf-8")
    ran(
        "gcc", "-shared", "-nostdlib", "-Wl,-z,noexecstack", f"-Wl,-soname,{library}", "-o",
        str(file), str(source), *([f"-Wl,--version-script={script}"] if told else []),
    )  # fmt: skip


def ran(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
