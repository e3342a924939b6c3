"""Compiles with LLVM, and loads code that `loaded.py` does not support."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from llvmlite import binding


def compiled(text: str, opt: int) -> bytes:
    """The object file of a module."""
    module, machine = binding.parse_assembly(text), _machine(opt)
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(opt))
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def loaded(code: bytes, symbols: Mapping[str, int]) -> Any:
    """The owner of an object file's code in memory."""
    for name, address in symbols.items():
        binding.add_symbol(name, address)
    made = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(0))
    made.add_object_file(binding.ObjectFileRef.from_data(code))
    made.finalize_object()
    return made


def processor() -> str:
    """The name and features of the processor."""
    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


def _machine(opt: int) -> Any:
    features = binding.get_host_cpu_features().flatten()
    return _target().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=opt, codemodel="large"
    )


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple()
