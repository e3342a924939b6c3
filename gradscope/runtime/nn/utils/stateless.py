"""`torch.func.functional_call`: call a module with other parameters than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.errors import missing

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with these tensors in place of its own parameters and buffers."""
    given = _joined(parameters_and_buffers)
    positional = args if isinstance(args, tuple) else () if args is None else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _joined(given: Any) -> Mapping[str, Any]:
    """Merge several dicts, which must not share keys."""
    if isinstance(given, Mapping):
        return given
    if not (isinstance(given, list | tuple) and all(isinstance(d, Mapping) for d in given)):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    names = [name for each in given for name in each]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return {name: value for each in given for name, value in each.items()}


@contextmanager
def _replaced(
    module: Any, given: Mapping[str, Any], tie_weights: bool, strict: bool
) -> Iterator[None]:
    own = {
        name: tensor
        for named in (module.named_parameters, module.named_buffers)
        for name, tensor in named(remove_duplicate=False)
    }
    wanted = {name: value for name, value in given.items() if name in own}
    if tie_weights:
        told = {id(own[name]): value for name, value in wanted.items()}
        wanted.update({n: told[id(t)] for n, t in own.items() if n not in given and id(t) in told})
    if strict:
        _check_names(module, own, given, wanted)
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, value in wanted.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            home = owner._parameters if last in owner._parameters else owner._buffers
            before.append((home, last, home[last]))
            home[last] = value
        yield
    finally:
        for home, last, value in reversed(before):
            home[last] = value


def _check_names(module: Any, own: Mapping[str, Any], given: Any, wanted: Any) -> None:
    lacking = [name for name in own if name not in wanted]
    unknown = [name for name in given if name not in own]
    said = []
    if unknown:
        said.append(f"Unexpected key(s): {', '.join(map(repr, sorted(unknown)))}.")
    if lacking:
        said.append(f"Missing key(s): {', '.join(map(repr, sorted(lacking)))}.")
    if said:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(said)
        )


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.nn.utils.stateless", name, __all__)
