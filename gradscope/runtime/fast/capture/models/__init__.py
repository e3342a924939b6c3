"""A model's forward and its backward as plans, in a loop that is not captured.

# Note [How a model is captured]
The first call of a model is watched, as that of a step is. In the second, its forward is recorded,
and right behind it backwards from each choice of its results (the program may use some of them
only) with gradients that stand for those to come; they gather nothing, and the program goes on
with the graph of that forward. Then all plans are run on the numbers from before, and compared bit
by bit. From then on a call replays the forward; its results have one node, which keeps the arrays
that the backward reads and replays that when the engine comes to it. The engine gathers the
gradients it returns.

A model that cannot be captured whole is cut as steps are (Note [Where a step is cut]); each piece
is captured like a model of its own, whose gradients go on into what it was given.
"""
