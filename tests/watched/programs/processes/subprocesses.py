"""Starts other programs: Python with torch, a shell, one that fails; reads what they say."""
# slow

import subprocess
import sys

import torch

w = torch.ones(2, requires_grad=True)
(w * 3).sum().backward()
code = "import torch; x = torch.ones(2, requires_grad=True); (x * 5).sum().backward(); print(x.grad.tolist())"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(done.returncode, done.stdout.strip(), repr(done.stderr))
print(subprocess.run("cat; echo no >&2; exit 4", shell=True, input="yes", text=True, capture_output=True))
print(w.grad.tolist(), sys.argv[1:], __name__, __file__.endswith("subprocesses.py"))
