"""A step recorded once as a plan of calls on arrays, and replayed without the program.

    step = gradscope.capture(step)  # or torch.compile(step)
    for images, labels in loader:
        loss = step(images, labels)

# Note [How a step is captured]
The first call is *watched*: it runs as ever, while a profile function notes whose code ran. From
that code follows what the step may have read of the program: the names in it, and what they lead
to (`reach/`). The second call is *recorded*: it runs as ever, too, but the kernels in the roads of
calls, the engine's evaluation of a node and the steps of optimizers are exchanged for functions
that also note which arrays they were given and which they made (`recording/`). The third call is
*proved*: the plan and the program run on the same numbers, and everything they leave behind is
compared bit by bit. From then on the plan is replayed (`plan/`), after its *guards* have seen that
all it depends on is as it was.

What makes a replay true is that nothing may happen unseen. An array that a recorded call was given
must be one that the step was given or that a recorded call made; one whose origin is not known
stops the recording. A function of the runtime that looks into arrays outside of a kernel must be
marked where it is defined, by somebody who has read it (`captured_as`); a function in C that the
program calls must be known to depend on its arguments alone. What a step changes in the program's
own objects (a counter, a list that grows) is seen because the guards do not hold any more when it
is over. Whatever stops a recording is said once, with its line; the step is cut there into pieces
(`pieces.py`), or runs as if it were not captured.

A plan makes the same calls on arrays in the same order as the step: so aliases, views and writes
in place are true without being known, and numbers are the same to the bit. Options of optimizers
and their counts of steps are read anew each time; so are random numbers drawn. What of the rest
changes has to be put right after a replay is known by comparing all tensors that were there before
and after the recorded step: versions, and whose gradient is new, added to or gone (`making.py`).

Nothing in the roads knows of this room: an uncaptured call pays nothing.
"""
