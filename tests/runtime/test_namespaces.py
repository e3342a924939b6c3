"""Parts of `torch` that ordinary scripts name, whatever they are there for."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from gradscope.runtime import nn
from gradscope.runtime.core.state import warned
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.both import raises, runtime

CALLS = """
torch.__version__ >= "1.10"
torch.__version__ < (3, 0)
torch.__version__ > "2.13.0"
torch.torch_version.TorchVersion("2.1.0a0") < "2.1"
torch.torch_version.TorchVersion("2.1") == "2.1.0"
torch.torch_version.TorchVersion("2.1") >= "what"
torch.device("cuda:1")
torch.device("cuda", 0)
torch.device("foo")
torch.zeros(2, device="cuda")
torch.ones(2).to("cuda:0")
torch.tensor([1.0], device=torch.device("cuda"))
torch.nn.Linear(2, 2).to("cuda")
torch.ones(2).cuda()
torch.get_device(torch.ones(1))
torch.get_device_module("cuda").is_available()
torch.is_storage(3)
torch.cuda.is_available()
torch.cuda.memory_allocated()
torch.cuda.max_memory_allocated("cuda")
torch.cuda.synchronize()
torch.cuda.get_device_properties(0)
torch.cuda.current_stream()
torch.cuda.Stream()
torch.cuda.Event(enable_timing=True)
torch.cuda.seed_all()
torch.cuda.get_rng_state_all()
torch.cuda.is_bf16_supported()
torch.accelerator.is_available()
torch.accelerator.current_accelerator()
torch.accelerator.synchronize()
torch.mps.is_available(), torch.xpu.is_available(), torch.cpu.is_available()
torch.backends.mps.is_available()
torch.distributed.is_initialized()
torch.jit.is_scripting(), torch.jit.is_tracing()
torch.jit.annotate(int, 3)
torch.jit.isinstance([1], list[int])
torch.compiler.is_compiling()
torch.compiler.disable(len)([1])
torch.get_deterministic_debug_mode()
torch.set_deterministic_debug_mode("x")
torch.use_deterministic_algorithms(1)
torch.set_default_tensor_type(torch.FloatTensor)
torch.hub.get_dir().endswith("torch/hub")
torch.OutOfMemoryError is torch.cuda.OutOfMemoryError, torch.OutOfMemoryError.__base__
torch.index_put(torch.zeros(2, 2), (torch.tensor([1]),), torch.tensor(9.0))
torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()) * 2
2 * torch.nn.Sequential(torch.nn.ReLU())
torch.nn.Sequential(torch.nn.ReLU()).__imul__(3).append(torch.nn.Tanh())
torch.nn.Sequential(torch.nn.ReLU()).__iadd__(torch.nn.Sequential(torch.nn.Tanh()))
torch.nn.Sequential(torch.nn.ReLU()) + [torch.nn.Tanh()]
type(torch.nn.Sequential(torch.nn.ReLU()) * True).__name__
torch.nn.DataParallel(torch.nn.Linear(2, 2))
list(torch.nn.DataParallel(torch.nn.Linear(2, 2)).state_dict())
torch.nn.DataParallel(torch.nn.Linear(2, 2))(torch.ones(3, 2)).shape
torch.multiprocessing.get_sharing_strategy()
torch.multiprocessing.set_sharing_strategy("x")
torch.autograd.profiler.record_function("a")(len)([1])
torch._dynamo.config.suppress_errors
torch.nn.modules.utils._pair(3), torch.nn.modules.utils._triple([1, 2, 3])
torch.nn.modules.utils._reverse_repeat_tuple((1, 2), 2)
isinstance((1, 2), torch.nn.common_types._size_2_t.__args__[0])
torch.nn.attention.SDPBackend(1).name
torch.nn.attention.sdpa_kernel(3).__enter__()
torch.backends.opt_einsum.is_available(), torch.backends.cusparselt.is_available()
"""


def told(torch: Any, call: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(call, {"torch": torch}))
        except Exception as error:
            text = (
                str(error)
                .splitlines()[0]
                .partition(", but expected")[0]
                .partition(", expected one of")[0]
            )
            return f"{type(error).__name__}: {text}"


@as_pytorch_answered({"namespaces": CALLS.strip().splitlines()})
def test_it_says_what_pytorch_says(torch: Any, call: str) -> Any:
    importlib_all(torch)
    return told(torch, call)


def importlib_all(torch: Any) -> None:
    for name in (
        "_dynamo",
        "nn.attention",
        "nn.common_types",
        "hub",
        "multiprocessing",
        "mps",
        "xpu",
        "cpu",
    ):
        __import__(f"{torch.__name__}.{name}")


def test_what_is_not_compiled_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = runtime()
    monkeypatch.setattr(warned, "_said", set())
    model = torch.nn.Linear(2, 2)

    def all_of_them() -> list[Any]:
        return [
            torch.jit.script(model),
            torch.jit.trace(model, torch.ones(2)),
        ]

    with pytest.warns(UserWarning, match="nothing is compiled") as caught:
        made = all_of_them()
    assert all(each is model for each in made)
    assert [str(each.message).partition(":")[0] for each in caught] == [
        "torch.jit.script",
        "torch.jit.trace",
    ]
    assert {each.filename for each in caught} == {__file__}


def test_what_is_given_to_tensorboard_is_forgotten_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(warned, "_said", set())
    monkeypatch.chdir(tmp_path)
    tensorboard = __import__("gradscope.runtime.utils.tensorboard", fromlist=["x"])

    with pytest.warns(UserWarning, match="writes no event files"):
        made = tensorboard.SummaryWriter()
    with made as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_histogram("weights", [1, 2], global_step=3)

    assert writer.get_logdir() == "runs"
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "hub.load('pytorch/vision', 'resnet18')": "downloads no programs",
    "hub.load_state_dict_from_url('http://a/b.pth', model_dir='/nowhere')": "downloads nothing",
    "jit.load('a.pt')": "no TorchScript",
    "distributed.init_process_group('nccl')": "no backend 'nccl'",
    "distributed.init_process_group('gloo', world_size=2, rank=0)": "2",
    "distributed.init_device_mesh('cpu', (2,))": "no torch.distributed.init_device_mesh",
    "profiler.profile()": "gradscope trace",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_is_refused_in_words(call: str) -> None:
    torch = runtime()

    assert REFUSED[call] in raises(RuntimeError, lambda: eval(f"torch.{call}", {"torch": torch}))


def test_weights_that_were_fetched_before_are_read(tmp_path: Any) -> None:
    torch = runtime()
    torch.save({"w": torch.ones(2)}, tmp_path / "b.pth")

    found = torch.hub.load_state_dict_from_url("https://a/b.pth?x=1", model_dir=tmp_path)

    assert found["w"].tolist() == [1.0, 1.0]


def test_a_tree_of_containers_is_flattened_and_built_again(torch: Any) -> None:
    tree = __import__(f"{torch.__name__}.utils._pytree", fromlist=["x"])
    nested = {"a": [1, (2, 3)], "b": None}

    leaves, spec = tree.tree_flatten(nested)

    assert leaves == [1, 2, 3, None]
    assert tree.tree_unflatten(leaves, spec) == nested
    assert tree.tree_map(lambda x, y: (x, y), [1, 2], [3, 4]) == [(1, 3), (2, 4)]
    assert tree.tree_map_only(int, lambda x: x + 1, nested) == {"a": [2, (3, 4)], "b": None}
    assert tree.tree_leaves([1, [2]], is_leaf=lambda x: x == [2]) == [1, [2]]


def test_data_parallel_says_that_it_uses_no_devices() -> None:
    with pytest.warns(UserWarning, match=r"no GPUs, so device_ids=\[0, 1\] and output_device=1"):
        model = nn.DataParallel(nn.Linear(2, 2), device_ids=[0, 1], output_device=1)

    assert model.device_ids == []
