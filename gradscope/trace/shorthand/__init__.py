"""Rows a producer wrote in short, written out when they are read.

# Note [Shorthand]
Calling a small operation and running its backward takes five microseconds, and recording may add
a third of that. Writing every event and every row of it costs more than that by itself. So a
producer may write what it noted: one row for a call, one for a node's run, one for a gradient
handed on. What follows from such a row is worked out here, when the file is opened: a call's node,
edges and saved tensors from where its inputs came from; pop, begin, end, decrement, buffer and push
from a run.

Nothing is guessed: a short row holds what was seen, in another form. Whatever is out of the
ordinary (views, tensors written in place, saved-tensor hooks, hooks of any kind) is written in
full.

In short rows a tensor is written as twice its id, plus one if its gradient goes to the node of the
same id.
"""

from gradscope.trace.shorthand.write_out import SHORT, expanded

__all__ = ["SHORT", "expanded"]
