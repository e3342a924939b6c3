#!/bin/sh
# Build the wheel, install it alone in a new virtual environment, and run it from outside the checkout.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/${VENV:-.venv}/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m pip wheel -qq --no-deps --wheel-dir "$scratch" .
"$python" -m venv --without-pip "$scratch/venv"
"$python" -m pip --python "$scratch/venv/bin/python" install -qq --no-compile "$scratch"/gradscope_trace-*.whl
cd "$scratch"
venv/bin/gradscope --help
cat >script.py <<'END'
import torch

a = torch.tensor([2.0, 3.0], requires_grad=True)
(3 * a**3).sum().backward()
assert a.grad.tolist() == [36.0, 81.0]
END
venv/bin/gradscope trace -o trace.json script.py
venv/bin/gradscope inspect trace.json
venv/bin/gradscope render -o graph.svg trace.json
grep -q PowBackward0 graph.svg
venv/bin/gradscope view --no-open trace.json
grep -q '<canvas id="graph"' trace.html
venv/bin/python - <<'END'
import sys
import gradscope

assert "site-packages" in gradscope.__file__, gradscope.__file__
assert not {"numba", "torch"} & set(sys.modules), "importing gradscope must load neither"
END
venv/bin/python -c "import sys; assert not [n for n in sys.modules if n.startswith('gradscope')]"
GRADSCOPE=1 venv/bin/python -c "import sys; assert 'gradscope.record.at_start' in sys.modules"
echo "wheel: ok"
