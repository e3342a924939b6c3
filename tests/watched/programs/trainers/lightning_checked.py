"""Lightning's Trainer with detect_anomaly, bfloat16, a profiler, accumulation that grows, and weights that are averaged."""
# needs: lightning
# slow

import logging
import warnings

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler, StochasticWeightAveraging
from lightning.pytorch.profilers import SimpleProfiler
from torch.utils.data import DataLoader, TensorDataset


class Sums(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.SiLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        print("step", self.global_step, loss.item().hex())
        return loss

    def on_before_optimizer_step(self, optimizer):
        print("norms", {key: float(value).hex() for key, value in lightning.pytorch.utilities.grad_norm(self, 2).items()})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=12), "interval": "step"}}


lightning.seed_everything(0, verbose=False)
x = torch.randn(16, 4)
trainer = lightning.Trainer(
    max_epochs=4, accelerator="cpu", precision="bf16-mixed", detect_anomaly=True, gradient_clip_val=0.5, gradient_clip_algorithm="value",
    profiler=SimpleProfiler("times", "times"), callbacks=[GradientAccumulationScheduler({0: 1, 2: 2}), StochasticWeightAveraging(0.01, swa_epoch_start=2, annealing_epochs=1)],
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
model = Sums()
trainer.fit(model, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, drop_last=True))
print(trainer.global_step, *(p.norm().item().hex() for p in model.parameters()))
