"""What lower rooms call of higher ones: each name is filled in by the room that has the function.

# Note [Calls upwards]
Rooms import one way. A few functions are needed below where they can be written: a leaf's node is
made by the engine, which is made of tensors. They are called by these names; who has them assigns
them when it is read, which the top module sees to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

accumulator: Callable[[Any], Any]
"""The node of a leaf (autograd/engine/accumulate_grad.py)."""

call_with_tangents: Callable[..., Any]
"""Runs a call while a dual level is open (autograd/forward/jvp.py)."""

cross_entropy_in_pieces: Callable[..., Any]
"""That of a linear layer, a few rows at a time (nn/modules/linear_cross_entropy.py)."""

full_road: Callable[[Any], Any]
"""The road of an operation below the dispatcher (calls/late.py)."""

given_to_modes: Callable[..., Any]
"""Offers to dispatch modes what is no row of a table (dispatch/modes/protocol.py)."""

observed: Callable[[Any], Any]
"""An operation that asks the innermost dispatch mode (dispatch/modes/protocol.py)."""

offered_to_stranger: Callable[..., Any]
"""Offers a call to the class of a value that is no tensor (dispatch/overrides/public.py)."""

put_up_gates: Callable[[], None]
"""From then on calls are offered to overriding classes (dispatch/overrides/public.py)."""

raw_saved_value: Callable[[Any, int], Any]
"""What a node keeps in a slot, not unpacked (tensors/saved/saved_attributes.py)."""

replayed: Callable[[Any], Any]
"""A function or a model that is replayed once it has been recorded (fast/__init__.py)."""

saved_value: Callable[[Any, int], Any]
"""What a node keeps in a slot, as users see it (tensors/saved/saved_attributes.py)."""

set_kernel_threads: Callable[[int | None], None]
"""Lets compiled kernels run in so many threads (fast/threads/spread.py)."""

view_as: Callable[[Any], Any]
"""A view made by a class that handles functions (dispatch/overrides/public.py)."""

written: Callable[..., Any]
"""A result put into what `out=` names (calls/extra_arguments/out.py)."""
