"""Lightning's Trainer: fit, validate, callbacks, accumulation, clipping."""
# needs: lightning
# slow

import logging
import warnings

warnings.simplefilter("ignore")
import lightning as L
import torch

for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        print("train", index, loss.item().hex())
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        print("valid", index, torch.nn.functional.mse_loss(self.net(x), y).item().hex())

    def on_before_optimizer_step(self, optimizer):
        print("norm", self.net[0].weight.grad.norm().item().hex())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


L.seed_everything(1, verbose=False)
data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4)
trainer = L.Trainer(
    max_epochs=2, accelerator="cpu", accumulate_grad_batches=2, gradient_clip_val=0.5, enable_progress_bar=False, logger=False, enable_checkpointing=False,
    enable_model_summary=False,
)
trainer.fit(Net(), loader, loader)
print(trainer.global_step, trainer.callback_metrics["loss"].item().hex())
