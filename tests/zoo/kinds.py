"""What can be wrong in a case of the zoo, and by which words it counts as named."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A way in which a script is wrong."""

    slugs: tuple[str, ...] = ()  # rules of `inspect` that say it; none: no rule does yet
    words: tuple[str, ...] = ()  # parts of an exception's text that say it


KINDS = {
    # numbers
    "non-finite": Kind(("non-finite-birth", "non-finite-seen")),
    # what nodes saved
    "written-in-place": Kind(("modified-in-place",), ("a leaf Variable that requires grad",)),
    "written-unseen": Kind(("written-unseen", "written-under-another-name")),
    "second-backward": Kind(("freed-graph",), ("backward through the graph a second time",)),
    # who trains what
    "graph-cut": Kind(
        (
            "graph-cut",
            "cut-term",
            "cut-inside",
            "sample-cuts",
            "no-straight-through",
            "nothing-to-step",
            "no-history",
            "zero-slope",
            "leaf-as-loss",
            "gradients-left-off",
            "inference-tensors",
        ),
        (
            "does not require grad and does not have a grad_fn",
            "Inference tensors cannot be saved for backward",
        ),
    ),
    "unregistered": Kind(("unregistered-parameter",)),
    "not-in-optimizer": Kind(("not-in-optimizer", "nothing-to-step", "gradients-unused")),
    "matches-no-name": Kind(("matches-no-name",)),
    "target-with-gradient": Kind(("target-with-gradient",)),
    "frozen": Kind(("frozen",)),
    "replaced": Kind(
        ("replaced-parameter",), ("does not require grad and does not have a grad_fn",)
    ),
    "not-a-leaf": Kind(
        ("not-a-leaf",),
        (".grad attribute of a Tensor that is not a leaf", "can't optimize a non-leaf Tensor"),
    ),
    "zeroed": Kind(("hook-returns-zeros", "zero-gradient")),
    "zero-slope": Kind(("zero-slope",)),
    "nothing-to-step": Kind(("nothing-to-step",)),
    # the order of the loop
    "gradients-add-up": Kind(("gradients-add-up",)),
    "cleared-too-early": Kind(("cleared-too-early",)),
    "stepped-too-early": Kind(("stepped-too-early",)),
    "changed-after-the-step": Kind(("changed-after-the-step",)),
    "clipped-at-the-wrong-time": Kind(("clipped-at-the-wrong-time",)),
    "scheduled-at-the-wrong-time": Kind(("scheduled-at-the-wrong-time",)),
    "rate-by-a-wrong-factor": Kind(("rate-by-a-wrong-factor",)),
    "not-unscaled": Kind(("not-unscaled",)),
    "not-scaled": Kind(("not-scaled",)),
    "never-stepped": Kind(("never-stepped",)),
    "steps-again": Kind(("steps-again",)),
    "optimizer-rebuilt": Kind(("optimizer-rebuilt",)),
    "schedule-without-effect": Kind(("schedule-without-effect",)),
    "mode-left": Kind(
        ("eval-left-on", "training-mode-in-evaluation", "dropout-always-on", "train-undoes-eval")
    ),
    "not-divided": Kind(("not-divided",)),
    "batches-lost": Kind(("batches-lost",)),
    # graphs across backwards, memory
    "history-kept": Kind(("graph-kept",)),
    "carried-over": Kind(("modified-in-place", "freed-graph")),
    "graph-grows": Kind(("graph-kept", "walked-again")),
    "graph-retained": Kind(("walked-again", "graph-on-grad", "hook-holds-its-tensor")),
    "graph-unused": Kind(("graph-unused",)),
    "gradients-unused": Kind(("gradients-unused",)),
    "saved-needlessly": Kind(("pairs-kept",)),
    # structure
    "double-softmax": Kind(("double-softmax",)),
    "double-sigmoid": Kind(("double-sigmoid",)),
    "wrong-dim": Kind(
        (
            "softmax-over-the-batch",
            "attention-over-the-wrong-dim",
            "mean-over-the-features",
            "mask-over-the-wrong-dim",
            "normalized-over-another-dim",
            "attention-between-samples",
            "positions-of-samples",
        )
    ),
    "sides-cancel": Kind(("sides-cancel",)),
    "wrong-loss-input": Kind(("wrong-loss-input",)),
    "wrong-index": Kind(("last-of-the-batch",)),
    "cross-indexed": Kind(("cross-indexed",)),
    "duplicates-lost": Kind(("duplicates-lost",)),
    "broadcast": Kind(("accidental-broadcast",)),
    "batch-swallowed": Kind(("exception",)),
    "batch-squeezed": Kind(("exception",)),
    "truncated": Kind(("truncated",)),
    "dtype-creep": Kind(("dtype-creep",)),
    "mixed-up-elements": Kind(("mixed-up-elements",)),
    "not-a-scalar": Kind((), ("grad can be implicitly created only for scalar outputs",)),
    "unused": Kind(("unused",)),
    # signal
    "vanishing": Kind(("vanishing-gradient",)),
    "exploding": Kind(("exploding-gradient",)),
    "dead": Kind(("dead-relu",)),
    "saturated": Kind(("saturated-activation",)),
    "update-ratio": Kind(("update-ratio",)),
    "rounded-away": Kind(("rounded-away",)),
    "symmetric": Kind(("symmetric-weights",)),
    "no-effect": Kind(("no-effect",)),
    # state
    "batch-of-one": Kind((), ("Expected more than 1 value per channel",)),
    "recompute-differs": Kind(("recompute-differs",)),
    "hooked-again": Kind(("hooked-again",)),
    "tied-twice": Kind(("tied-twice", "block-used-twice")),
    "untied": Kind(("untied",)),
    "padding-filled": Kind(("padding-filled",)),
    "statistics-not-averaged": Kind(("statistics-not-averaged",)),
    "reseeded": Kind(("reseeded",)),
    "weights-reset": Kind(("weights-reset",)),
    "not-a-copy": Kind(("not-a-copy",)),
    "averaged-the-wrong-way": Kind(("averaged-the-wrong-way",)),
    "nothing-loaded": Kind(("nothing-loaded",)),
    # custom functions
    "wrong-backward": Kind(("wrong-backward", "backward-writes-its-gradient")),
    "output-on-ctx": Kind(("output-on-ctx",)),
    "state-reset": Kind(("state-reset",)),
}
