"""What to say when a program asks for something the runtime does not have."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.packages import part_of_pytorch

SPARSE = "; here all tensors are dense, so a sparse matrix is to be made as a dense one"

METHODS_OF_SPARSE = (
    *("coalesce", "is_coalesced", "dense_dim", "indices", "values", "hspmm", "sspaddmm"),
    *("is_sparse_csr", "resize_as_sparse_", "sparse_dim", "sparse_mask", "sparse_resize_"),
    *("sparse_resize_and_clear_", "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo"),
    *("to_sparse_csc", "to_sparse_csr"),
)
"""Methods of sparse tensors, which ours do not have."""


def nearest(name: str, known: list[str]) -> str:
    """'; the nearest there is: …' or nothing."""
    if "sparse" in name or name in METHODS_OF_SPARSE:
        return SPARSE
    import difflib

    found = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; the nearest there is: {', '.join(found)}" if found else ""


class Absent:
    """An attribute that tensors do not have here, and that says why.

    A `__getattr__` would say it of any name, but Python then looks up every attribute the slow way.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'{SPARSE}")


def say_why_absent(cls: type) -> None:
    """Let a class of tensors say why it has no methods of sparse ones."""
    for name in METHODS_OF_SPARSE:
        if not hasattr(cls, name):
            setattr(cls, name, Absent(name))


def make_read_only(cls: Any) -> None:
    """Let assigning to a property that nobody can set say so in PyTorch's words."""
    for name in dir(cls):
        found = getattr(cls, name, None)
        if isinstance(found, property) and found.fset is None:
            setattr(cls, name, found.setter(_refusal(name)))


def _refusal(name: str) -> Any:
    def refuse(tensor: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    return refuse


def refuse_dispatch_by_class(cls: type) -> None:
    """Raise for a class of tensors that wants to see operations below autograd: only modes do."""
    if hasattr(cls, "__torch_dispatch__"):
        raise NotImplementedError(
            f"{cls.__qualname__} has a `__torch_dispatch__`, which gradscope's runtime would never "
            "call: it hands operations below autograd to modes (TorchDispatchMode), not to classes "
            "of tensors; `__torch_function__` works"
        )


def no_module_attribute(module: str, name: str, known: list[str]) -> AttributeError:
    """The error for `torch.name`."""
    text = f"module '{module}' has no attribute '{name}'"
    if name.startswith("__"):
        return AttributeError(text)
    public = [n for n in known if not n.startswith("_")]
    text += " (gradscope's runtime)"
    if part := part_of_pytorch(f"{module}.{name}"):
        return AttributeError(text + part, name=name, obj=None)  # or Python would guess, too
    return AttributeError(text + nearest(name, public))
