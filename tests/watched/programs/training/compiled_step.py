"""The step of an optimizer as one compiled graph: as many operations, and the same numbers."""
# slow

import logging
import warnings

import torch
from torch._dynamo.testing import CompileCounterWithBackend

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters())
counted = CompileCounterWithBackend("aot_eager")
step = torch.compile(lambda: optimizer.step(), backend=counted)
for _ in range(3):
    loss = model(torch.ones(1, 3)).sum()
    loss.backward()
    step()
    optimizer.zero_grad()
    print(loss.item().hex())
print(counted.frame_count, counted.op_count)
