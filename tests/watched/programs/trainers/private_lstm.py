"""opacus: an LSTM made fit for privacy, virtual steps in big batches, and how much privacy was spent."""
# needs: opacus
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from opacus import PrivacyEngine
from opacus.layers import DPLSTM
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators import ModuleValidator

torch.manual_seed(0)


class Names(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 6)
        self.lstm = DPLSTM(6, 8, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, ids):
        states, _ = self.lstm(self.embedding(ids))
        return self.head(self.norm(states.mean(1)))


model = ModuleValidator.fix(Names())
print(type(model.norm).__name__, ModuleValidator.validate(model, strict=False))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randint(0, 20, (24, 5)), torch.randint(0, 3, (24,)))
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private_with_epsilon(
    module=model, optimizer=optimizer, data_loader=torch.utils.data.DataLoader(data, batch_size=12), epochs=2, target_epsilon=20.0, target_delta=1e-2,
    max_grad_norm=[1.0] * len(list(model.parameters())), clipping="per_layer", noise_generator=torch.Generator().manual_seed(2), poisson_sampling=False,
)
model.train()
for epoch in range(2):
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as parts:
        for ids, y in parts:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(ids), y)
            loss.backward()
            optimizer.step()
            print(epoch, len(y), loss.item().hex())
    print(engine.get_epsilon(1e-2) > 0, sum(p.norm() for p in model.parameters()).item().hex())
