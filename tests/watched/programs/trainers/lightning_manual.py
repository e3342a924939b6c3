"""Lightning with manual optimization of two optimizers, as a GAN is trained; Fabric beside it."""
# needs: lightning
# slow

import logging
import warnings

warnings.simplefilter("ignore")
import lightning as L
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce

for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.maker = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        self.judge = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.LeakyReLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        (real,) = batch
        of_judge, of_maker = self.optimizers()
        fake = self.maker(torch.randn(len(real), 3))
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        loss = bce(self.judge(real), ones) + bce(self.judge(fake.detach()), zeros)
        of_judge.zero_grad()
        self.manual_backward(loss)
        of_judge.step()
        self.toggle_optimizer(of_maker)
        other = bce(self.judge(fake), ones)
        of_maker.zero_grad()
        self.manual_backward(other)
        of_maker.step()
        self.untoggle_optimizer(of_maker)
        print(index, loss.item().hex(), other.item().hex())

    def configure_optimizers(self):
        return torch.optim.Adam(self.judge.parameters(), 1e-3), torch.optim.Adam(self.maker.parameters(), 1e-3)


L.seed_everything(1, verbose=False)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 2)), batch_size=4)
L.Trainer(max_epochs=1, accelerator="cpu", enable_progress_bar=False, logger=False, enable_checkpointing=False, enable_model_summary=False).fit(Gan(), loader)
fabric = L.Fabric(accelerator="cpu", devices=1)
model = torch.nn.Linear(2, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for x in fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.randn(8, 2), batch_size=4)):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    print(loss.item().hex(), model.weight.grad.norm().item().hex())
