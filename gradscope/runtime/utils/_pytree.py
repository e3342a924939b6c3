"""`torch.utils._pytree`: flattens nested containers and restores them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradscope.runtime.core.errors import missing

PyTree = Any

__all__ = [
    "LeafSpec",
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a nested container, without its leaves."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return sum(each.num_leaves for each in self.children_specs) if self.type else 1

    def is_leaf(self) -> bool:
        return self.type is None


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return TreeSpec(None, None)


Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]


def _of_mapping(tree: Any) -> tuple[list[Any], Any]:
    return list(tree.values()), list(tree)


_KNOWN: dict[Any, tuple[Flatten, Unflatten]] = {
    tuple: (lambda tree: (list(tree), None), lambda values, _: tuple(values)),
    list: (lambda tree: (list(tree), None), lambda values, _: list(values)),
    dict: (_of_mapping, lambda values, keys: dict(zip(keys, values, strict=True))),
    OrderedDict: (_of_mapping, lambda values, keys: OrderedDict(zip(keys, values, strict=True))),
    defaultdict: (
        lambda tree: (list(tree.values()), (tree.default_factory, list(tree))),
        lambda values, said: defaultdict(said[0], zip(said[1], values, strict=True)),
    ),
    deque: (
        lambda tree: (list(tree), tree.maxlen),
        lambda values, length: deque(values, maxlen=length),
    ),
    namedtuple: (lambda tree: (list(tree), type(tree)), lambda values, cls: cls(*values)),
}


def register_pytree_node(
    cls: Any, flatten_fn: Flatten, unflatten_fn: Unflatten, **options: Any
) -> None:
    """Register a container class, so that its instances are flattened, too."""
    _KNOWN[cls] = flatten_fn, unflatten_fn


def _kind(tree: Any) -> Any:
    """The registered class that matches this container; None for a leaf."""
    cls = type(tree)
    if cls in _KNOWN:
        return cls
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else None


def tree_flatten(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """All leaves in order, and the structure."""
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        return [tree], LeafSpec()
    children, context = _KNOWN[kind][0](tree)
    parts = [tree_flatten(each, is_leaf) for each in children]
    leaves = [leaf for found, _ in parts for leaf in found]
    return leaves, TreeSpec(kind, context, [spec for _, spec in parts])


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> PyTree:
    """The container with this structure and these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _built(iter(given), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return _KNOWN[spec.type][1](
        [_built(leaves, each) for each in spec.children_specs], spec.context
    )


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """The same structure with `func` of each leaf, or of the leaves of several trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_leaves(each, is_leaf) for each in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree) -> PyTree:
    """Call a function with each leaf, and return the tree itself."""
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: Any = None
) -> PyTree:
    """The same structure, with `func` applied to leaves of some types only."""
    wanted = type_or_types_or_pred
    if not isinstance(wanted, type | tuple):
        return tree_map(lambda each: func(each) if wanted(each) else each, tree, is_leaf=is_leaf)
    return tree_map(
        lambda each: func(each) if isinstance(each, wanted) else each, tree, is_leaf=is_leaf
    )


def tree_all(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    return any(map(pred, tree_leaves(tree)))


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.utils._pytree", name, __all__)
