"""A model's forward and its backward as two plans, in a loop that runs as ever.

# Note [How a model is captured]
The first call of a model is watched, as that of a step is. In the second, its forward is recorded,
and right behind it a backward from its results with gradients that stand for those to come; it
gathers nothing, and the program goes on with the graph of that forward. Then both plans are run on
the numbers from before, and compared bit by bit. From then on a call replays the forward; its
results have one node, which keeps the arrays that the backward reads and replays that when the
engine comes to it. The engine gathers the gradients it returns.
"""
