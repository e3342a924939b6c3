"""A module's call with other tensors in the place of its own: functional_call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.warned import warn

__all__ = ["functional_call"]

MISSING = object()


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The same under its old name."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
    )
    return call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def call(
    module: Any,
    tensors: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with these tensors instead of its parameters and buffers."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    given = _with_tied(module, tensors) if tie_weights else dict(tensors)
    if strict:
        _check_names(module, given)
    with _exchanged(module, given, tensors):
        return module(*args, **(kwargs or {}))


def _with_tied(module: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """What is one tensor under several names is replaced under all of them."""
    names: dict[int, set[str]] = {}
    own = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in own:
        names.setdefault(id(tensor), set()).add(name)
    made = dict(tensors)
    for tied in names.values():
        said = tied & set(tensors)
        if len(tied) < 2 or not said:
            continue
        if len({id(tensors[name]) for name in said}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        made.update(dict.fromkeys(tied, tensors[next(iter(said))]))
    return made


def _check_names(module: Any, given: dict[str, Any]) -> None:
    own = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    own |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
    faults = []
    for word, names in (("Unexpected", set(given) - own), ("Missing", own - set(given))):
        if names:
            faults.append(f"{word} key(s): {', '.join(repr(name) for name in sorted(names))}.")
    if faults:
        text = "\n\t".join(faults)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{text}")


@contextmanager
def _exchanged(module: Any, given: dict[str, Any], tensors: dict[str, Any]) -> Iterator[None]:
    """Put tensors in the place of others, and put those back."""
    before = {}
    try:
        for path, tensor in given.items():
            before[path] = _exchange(module, path, tensor)
        yield
    finally:
        for path in reversed(list(before)):
            now = _exchange(module, path, before[path])
            if path in tensors and now is not MISSING:
                tensors[path] = now


def _exchange(module: Any, path: str, tensor: Any) -> Any:
    """Put a tensor under a dotted name; returns what was there."""
    home, _, name = path.rpartition(".")
    owner = module.get_submodule(home) if home else module
    for kind in ("_parameters", "_buffers"):
        held = owner.__dict__[kind]
        if name in held:
            before = held[name]
            if tensor is MISSING:
                del held[name]
            else:
                held[name] = tensor
            return before
    before = getattr(owner, name, MISSING)
    if tensor is MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, tensor)
    return before
