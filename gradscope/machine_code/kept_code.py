"""Machine code that is kept between runs: what was compiled once, with the same words, is read.

# Note [What is kept]
A file's name says all that its code follows from: the functions, the numbers they name, who
compiled them and for which processor. Addresses are not among it. They are symbols, which are given
their values where the code is put into memory. Files are ours and nobody else's (cache_folder.py);
a file that is not whole is made again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding

from gradscope.machine_code.cache_folder import cache_folder

SUFFIX, DIGEST = ".machine-code", 32
MOST_KEPT = 64
"""So many files stay; the oldest go."""


def engine(about: str, text: Callable[[], str], symbols: Mapping[str, int], *, opt: int) -> Any:
    """Who has the code of a module in memory. `text`, of LLVM's, is asked for if none is kept."""
    for name, address in symbols.items():
        binding.add_symbol(name, address)
    target = _target()
    features = binding.get_host_cpu_features().flatten()
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=opt, codemodel="large"
    )
    key = f"{about}\n{opt} {_maker()} {binding.get_host_cpu_name()} {features}"
    folder = cache_folder()
    path = None if folder is None else folder / f"{sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"
    kept = None if path is None else _read(path)
    if kept is not None:
        made = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        made.add_object_file(binding.ObjectFileRef.from_data(kept))
    else:
        module = binding.parse_assembly(text())
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(opt))
        builder.getModulePassManager().run(module, builder)
        made = binding.create_mcjit_compiler(module, machine)
        if path is not None:
            made.set_object_cache(lambda _, code: _write(path, code))
    made.finalize_object()
    return made


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple()


@cache
def _maker() -> str:
    """Who compiles: Python, whose objects code looks into, LLVM, and the files beside this."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    own = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"{sys.version} {llvmlite.__version__} {binding.llvm_version_info} {own}"


def _read(path: Path) -> bytes | None:
    try:
        found = path.read_bytes()
    except OSError:
        return None
    code = found[DIGEST:]
    return code if sha256(code).digest() == found[:DIGEST] else None


def _write(path: Path, code: bytes) -> None:
    """All of it or nothing, whoever else does the same; and not too many."""
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(sha256(code).digest() + code)
        Path(file.name).replace(path)
        kept = sorted(path.parent.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            old.unlink()
