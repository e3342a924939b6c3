"""Plans for a model's forward and backward, in a loop that is not captured.

# Note [How a model is captured]
The first call of a model is watched, as that of a step is. In the second its forward is recorded,
followed by backwards from each choice of its results (the program may use some of them only) with
stand-in gradients. These accumulate nothing, and the program continues with the graph of that
forward. Then all plans run on the earlier values and are compared bit by bit. From then on a call
replays the forward. Its results have one node, which saves the arrays that the backward reads and
replays it when the engine runs the node. The engine accumulates the gradients it returns.

A model that cannot be captured as a whole is cut as steps are (Note [Where a step is cut]). Each
piece is captured like a separate model, whose gradients continue to its inputs.
"""
