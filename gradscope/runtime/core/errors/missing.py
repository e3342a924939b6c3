"""Error messages for names that the runtime does not have."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.packages import part_of_pytorch

SPARSE = "; gradscope's runtime has only dense tensors: create the matrix as a dense one"

METHODS_OF_SPARSE = (
    *("coalesce", "is_coalesced", "dense_dim", "indices", "values", "hspmm", "sspaddmm"),
    *("is_sparse_csr", "resize_as_sparse_", "sparse_dim", "sparse_mask", "sparse_resize_"),
    *("sparse_resize_and_clear_", "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo"),
    *("to_sparse_csc", "to_sparse_csr"),
)
"""Methods of sparse tensors, which the runtime's tensors do not have."""


def nearest(name: str, known: list[str]) -> str:
    """The closest known names, as '; the nearest there is: …', or ""."""
    if "sparse" in name or name in METHODS_OF_SPARSE:
        return SPARSE
    import difflib

    found = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; the nearest there is: {', '.join(found)}" if found else ""


class Absent:
    """An attribute that the runtime's tensors do not have, whose error says why.

    A `__getattr__` would work for any name, but would make every attribute lookup of Python slow.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'{SPARSE}")


def say_why_absent(cls: type) -> None:
    """Add attributes to a class of tensors that explain why it has no sparse methods."""
    for name in METHODS_OF_SPARSE:
        if not hasattr(cls, name):
            setattr(cls, name, Absent(name))


def make_read_only(cls: Any) -> None:
    """Make assigning to a read-only property raise PyTorch's error."""
    for name in dir(cls):
        found = getattr(cls, name, None)
        if isinstance(found, property) and found.fset is None:
            setattr(cls, name, found.setter(_refusal(name)))


def _refusal(name: str) -> Any:
    def refuse(tensor: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    return refuse


def refuse_dispatch_by_class(cls: type) -> None:
    """Raise for a class of tensors with `__torch_dispatch__`: only modes can have it."""
    if hasattr(cls, "__torch_dispatch__"):
        raise NotImplementedError(
            f"{cls.__qualname__} defines `__torch_dispatch__`, which gradscope's runtime never "
            "calls: it passes operations below autograd only to modes (TorchDispatchMode), not to "
            "classes of tensors; use a mode, or `__torch_function__`"
        )


def no_module_attribute(module: str, name: str, known: list[str]) -> AttributeError:
    """The error for `torch.name`."""
    text = f"module '{module}' has no attribute '{name}'"
    if name.startswith("__"):
        return AttributeError(text)
    public = [n for n in known if not n.startswith("_")]
    text += " (gradscope's runtime)"
    if part := part_of_pytorch(f"{module}.{name}"):
        return AttributeError(text + part, name=name, obj=None)  # so that Python suggests no name
    return AttributeError(text + nearest(name, public))
