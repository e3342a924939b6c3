"""`torch.autograd.graph.Node`: what every node can do, without being above any of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gradscope.runtime.core.graph import node


class Node(ABC):
    """A function of the backward graph, to ask `isinstance` of; nodes are made by operations.

    As in PyTorch, no node's class inherits from it.
    """

    @abstractmethod
    def name(self) -> str:
        """What the node is called."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[Any, ...]:
        """Where its gradients go: (node, input_nr), one each."""

    @property
    @abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """What users keep with the node."""

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
