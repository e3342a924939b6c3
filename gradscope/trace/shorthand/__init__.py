"""Expands the rows a producer wrote in short form when they are read.

# Note [Shorthand]
Calling a small operation and running its backward takes five microseconds, and recording may add
a third of that. Writing every event and every row would alone cost more. So a producer may write
what it noted: one row for a call, one for a run of a node, one for a gradient passed on. What
follows from such a row is derived here, when the file is opened: the node, edges and saved tensors
of a call from the origins of its inputs; pop, begin, end, decrement, buffer and push from a run.

Nothing is guessed: a short row holds what was recorded, in another form. Special cases (views,
tensors written in place, saved-tensor hooks, hooks of any kind) are written in full.

In short rows a tensor is written as twice its id, plus one if its gradient goes to the node with
the same id.
"""

from gradscope.trace.shorthand.write_out import SHORT, expanded

__all__ = ["SHORT", "expanded"]
