"""Lightning's Fabric: a loop of one's own with bfloat16, callbacks, clipping, and a state saved half-way."""
# needs: lightning
# slow

import logging
import warnings

warnings.simplefilter("ignore")
import torch
from lightning.fabric import Fabric, seed_everything

logging.getLogger("lightning.fabric").setLevel(logging.ERROR)


class Told:
    def on_epoch(self, fabric, epoch, loss):
        fabric.print("epoch", epoch, loss.item().hex())


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.gru = torch.nn.GRU(8, 12, num_layers=2, batch_first=True, dropout=0.1)
        self.head = torch.nn.Linear(12, 16)

    def forward(self, ids):
        states, _ = self.gru(self.embed(ids))
        return self.head(states)

    def loss(self, ids):
        return torch.nn.functional.cross_entropy(self(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


seed_everything(3, verbose=False)
fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed", callbacks=[Told()])
fabric.launch()
with fabric.init_module():
    model = Recurrent()
model, optimizer = fabric.setup(model, torch.optim.RAdam(model.parameters(), lr=1e-2))
model.mark_forward_method("loss")
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.arange(16).repeat(8, 1).roll(1, 1), batch_size=4))
for epoch in range(2):
    for index, ids in enumerate(loader):
        with fabric.no_backward_sync(model, enabled=index % 2 == 0):
            loss = model.loss(ids)
            fabric.backward(loss)
        if index % 2:
            norm = fabric.clip_gradients(model, optimizer, max_norm=0.7)
            optimizer.step()
            optimizer.zero_grad()
            print(index, loss.item().hex(), norm.item().hex())
    fabric.call("on_epoch", fabric=fabric, epoch=epoch, loss=loss)
    if epoch == 0:
        fabric.save("half.ckpt", {"model": model, "optimizer": optimizer, "epoch": epoch})
state = {"model": model, "optimizer": optimizer, "epoch": None}
fabric.load("half.ckpt", state)
print(state["epoch"], model.head.weight.norm().item().hex(), fabric.all_reduce(loss.detach()).item().hex())
