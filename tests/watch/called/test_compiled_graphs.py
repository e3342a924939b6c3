"""The texts in which PyTorch's compiler reports graphs and kernels."""

from __future__ import annotations

import pytest

from gradscope.watch.called.compiled_graphs import GeneratedKernel, GraphLine, graph_of, kernels_of

OF_2_6 = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[8, 4][4, 1]cpu", primals_2: "f32[1][1]cpu"):
         # File: /work/train.py:14 in forward, code: return self.last(hidden, "# 1")
        sigmoid: "f32[8, 4][4, 1]cpu" = torch.ops.aten.sigmoid.default(primals_1);  primals_1 = None
        mul: "f32[8, 4][4, 1]cpu" = torch.ops.aten.mul.Tensor(sigmoid, primals_2);  primals_2 = None
        return (mul, sigmoid)
"""
OF_2_13 = """class <lambda>(torch.nn.Module):
    def forward(
        self,
        arg0_1: "Sym(s77)",  # PlainAOTInput(idx=0)
        arg1_1: "f32[s77, 4][4, 1]cuda:0",  # PlainAOTInput(idx=1)
    ):
        # No stacktrace found for following nodes
        full: "f32[][]cuda:0" = torch.ops.aten.full.default([], 0.0)
        # File: C:/my work/a:b.py:2 in torch_dynamo_resume_in_f_at_1, code: a, b = x.max(0)
        max_1 = torch.ops.aten.max.dim(arg1_1, 0)
        getitem: "f32[4][1]cuda:0" = max_1[0];  max_1 = None
        return (
            getitem,  # PlainAOTOutput(idx=0)
        )

    class inner(torch.nn.Module):
        def forward(self, x: "f32[4]"):
            sin: "f32[4]" = torch.ops.aten.sin.default(x)
            return (sin,)
"""


def test_an_operation_has_its_line_its_type_and_what_it_reads() -> None:
    at = "/work/train.py", 14, "forward"

    assert graph_of(OF_2_6) == (
        GraphLine("primals_1", "input", "f32[8, 4]", (), None),
        GraphLine("primals_2", "input", "f32[1]", (), None),
        GraphLine("sigmoid", "aten.sigmoid.default", "f32[8, 4]", (0,), at),
        GraphLine("mul", "aten.mul.Tensor", "f32[8, 4]", (2, 1), at),
    )


def test_newer_texts_symbolic_sizes_and_graphs_inside_of_graphs_are_read() -> None:
    at = "C:/my work/a:b.py", 2, "torch_dynamo_resume_in_f_at_1"

    assert graph_of(OF_2_13) == (
        GraphLine("arg0_1", "input", "Sym(s77)", (), None),
        GraphLine("arg1_1", "input", "f32[s77, 4]", (), None),
        GraphLine("full", "aten.full.default", "f32[]", (), None),
        GraphLine("max_1", "aten.max.dim", "", (1,), at),
        GraphLine("getitem", "getitem", "f32[4]", (3,), at),
    )


def test_a_text_that_is_not_a_graph_is_refused_or_empty() -> None:
    assert graph_of("") == ()
    assert graph_of("x = 1") == ()
    with pytest.raises(SyntaxError):
        graph_of("class GraphModule(torch.nn.Module):\n    def forward(self, <x>): pass")


CODE = """# AOT ID: ['0_forward']
cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*'], r'''
''')
def call(args):
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
    extern_kernels.addmm(primals_2, primals_3, out=buf0)
    cpp_fused_relu_threshold_backward_0(buf1, buf2)
    # Topologically Sorted Source Nodes: [y], Original ATen: [aten.sum]
    stream0 = get_raw_stream(0)
    triton_per_fused_sum_1.run(buf2, stream=stream0)
    extern_kernels.addmm(primals_2, primals_3, out=buf0)
    return (buf1, )

def benchmark_compiled_module(times=10):
    cpp_fused_relu_0(buf1)
"""


def test_kernels_are_those_that_the_code_calls() -> None:
    assert kernels_of(CODE) == (
        GeneratedKernel("extern_kernels.addmm", ("t", "addmm")),
        GeneratedKernel("cpp_fused_relu_threshold_backward_0", ()),
        GeneratedKernel("triton_per_fused_sum_1", ("sum",)),
        GeneratedKernel("extern_kernels.addmm", ()),
    )
