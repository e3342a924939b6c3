"""A step recorded once as a plan of calls on arrays, and replayed without the program.

    step = gradscope.capture(step)  # or torch.compile(step)
    for images, labels in loader:
        loss = step(images, labels)

# Note [How a step is captured]
The first call is *watched*: it runs normally, while a profile function records which code ran. This
code determines what the step may have read of the program: the names in it, and the objects they
lead to (`reach/`). The second call is *recorded*: it also runs normally, but the kernels in the
fast paths of calls, the engine's evaluation of a node and the steps of optimizers are replaced by
functions that also record which arrays they received and created (`recording/`). The third call is
*proved*: the plan and the program run on the same values, and everything they leave behind is
compared bit by bit. From then on the plan is replayed (`plan/`), after its *guards* have checked
that everything it depends on is unchanged.

A replay is correct only if nothing happens unrecorded. An array that a recorded call receives must
be an argument of the step or be created by a recorded call; an array of unknown origin stops the
recording. A function of the runtime that reads arrays outside of a kernel must be marked at its
definition, by a person who has checked it (`captured_as`). A C function that the program calls must
be known to depend only on its arguments. Changes of the program's own objects (a counter, a growing
list) are detected because the guards no longer hold after the step. The first reason that stops a
recording is printed once, with its line. Then the step is cut there into pieces (`pieces.py`), or
runs as if it were not captured.

A plan makes the same calls on arrays in the same order as the step. So aliases, views and in-place
operations are correct without special handling, and values are the same bit by bit. Options of
optimizers and their step counts are read in each replay, and random numbers are drawn again. The
other changes that a replay has to repeat are found by comparing all tensors that existed before and
after the recorded step: versions, and whose gradient is new, added to or removed (`making.py`).

The fast paths of calls do not depend on this package: an uncaptured call has no extra cost.
"""
