"""`torch.autograd.graph.Node`: the interface of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gradscope.runtime.core.graph import node


class Node(ABC):
    """A function of the backward graph. Every node is an instance for `isinstance`.

    As in PyTorch, no node's class inherits from it.
    """

    @abstractmethod
    def name(self) -> str:
        """The name of the node."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[Any, ...]:
        """The edges of its gradients: one (node, input_nr) each."""

    @property
    @abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dict for users' data."""

    @property
    @abstractmethod
    def _input_metadata(self) -> Any: ...

    @abstractmethod
    def _register_hook_dict(self, tensor: Any) -> None: ...

    @abstractmethod
    def _sequence_nr(self) -> int: ...

    @abstractmethod
    def register_hook(self, fn: Any) -> Any:
        """Call `fn(grad_inputs, grad_outputs)` after the node has run."""

    @abstractmethod
    def register_prehook(self, fn: Any) -> Any:
        """Call `fn(grad_outputs)` before the node runs."""

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is Node and issubclass(other, node.Node) else NotImplemented
