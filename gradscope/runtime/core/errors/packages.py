"""Parts of PyTorch that gradscope's runtime does not have, and what they are for."""

from __future__ import annotations

PACKAGES = {
    "_decomp": "operations written in terms of others",
    "_dispatch": "its dispatcher's internals",
    "_export": "programs captured ahead of time",
    "_functorch": "the internals of torch.func",
    "_higher_order_ops": "its compiler's internals",
    "_inductor": "its compiler",
    "_lazy": "lazy tensors",
    "_numpy": "NumPy's functions, for its compiler",
    "_prims": "its compiler's internals",
    "_refs": "operations written in terms of others",
    "_subclasses": "tensors without values",
    "ao": "quantization and pruning",
    "contrib": "experiments",
    "distributed.algorithms.join": "uneven inputs",
    "distributed.checkpoint": "checkpoints of divided models",
    "distributed.elastic": "processes that are restarted; mpiexec starts those of gradscope",
    "distributed.fsdp": "models divided among ranks; DistributedDataParallel is there",
    "distributed.nn": "collectives with a backward",
    "distributed.optim": "optimizers divided among ranks",
    "distributed.pipelining": "pipelines of ranks",
    "distributed.rpc": "calls of functions on other ranks",
    "distributed.tensor": "tensors divided among ranks",
    "export": "programs captured ahead of time",
    "fx": "programs as graphs that can be changed",
    "masked.maskedtensor": "tensors that carry masks",
    "monitor": "counters for long runs",
    "mtia": "an accelerator",
    "nativert": "a runtime for exported programs",
    "nested": "tensors whose rows have different lengths",
    "nn.intrinsic": "quantization",
    "nn.qat": "quantization",
    "nn.quantizable": "quantization",
    "nn.quantized": "quantization",
    "numa": "processes bound to processors",
    "onnx": "exporting models to other runtimes",
    "package": "models together with their code",
    "quantization": "smaller numbers for faster inference",
    "quasirandom": "Sobol sequences",
    "sparse": "sparse tensors; gradscope's are all dense",
    "utils.benchmark": "measuring programs",
    "utils.cpp_extension": "operations written in C++",
    "utils.mobile_optimizer": "programs for mobile devices",
}


def part_of_pytorch(name: str) -> str:
    """'; … is a part of PyTorch …' if the name is in the list, such as `torch.fx`; else ""."""
    purpose = PACKAGES.get(name.removeprefix("torch."))
    return (
        f"; {name} is a part of PyTorch that gradscope's runtime does not have ({purpose})"
        if purpose
        else ""
    )
