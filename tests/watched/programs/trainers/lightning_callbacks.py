"""Lightning: a data module, weights that are averaged, the best checkpoint, stopping early."""
# needs: lightning
# slow

import logging
import warnings

warnings.simplefilter("ignore")
import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, GradientAccumulationScheduler, ModelCheckpoint, StochasticWeightAveraging

for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Digits(L.LightningDataModule):
    def setup(self, stage):
        x = torch.randn(40, 1, 6, 6, generator=torch.Generator().manual_seed(1))
        every = torch.utils.data.TensorDataset(x, (x.mean((1, 2, 3)) > 0).long())
        self.train, self.valid, self.test = torch.utils.data.random_split(every, [0.6, 0.2, 0.2], torch.Generator().manual_seed(2))

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.train, batch_size=6, shuffle=True)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(self.valid, batch_size=8)

    def test_dataloader(self):
        return torch.utils.data.DataLoader(self.test, batch_size=8)


class Reader(L.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Conv2d(1, width, 3), torch.nn.BatchNorm2d(width), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(16 * width, 2))

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def training_step(self, batch, _):
        return {"loss": self.loss(batch)}

    def validation_step(self, batch, _):
        self.log("valid", self.loss(batch))

    def test_step(self, batch, _):
        self.log("test", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, nesterov=True)


class Told(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        print(trainer.current_epoch, index, outputs["loss"].item().hex())

    def on_validation_end(self, trainer, module):
        print("valid", trainer.callback_metrics["valid"].item().hex())


L.seed_everything(1, verbose=False)
best = ModelCheckpoint("kept", monitor="valid", save_top_k=1)
callbacks = [Told(), best, EarlyStopping("valid", patience=1), StochasticWeightAveraging(swa_lrs=1e-2, swa_epoch_start=2), GradientAccumulationScheduler({0: 1, 2: 2})]
trainer = L.Trainer(max_epochs=4, accelerator="cpu", callbacks=callbacks, enable_progress_bar=False, logger=False, enable_model_summary=False, num_sanity_val_steps=1)
data = Digits()
trainer.fit(Reader(), datamodule=data)
again = Reader.load_from_checkpoint(best.best_model_path)
print(again.hparams.width, again.net[0].weight.norm().item().hex())
print(trainer.test(again, datamodule=data, verbose=False)[0]["test"].hex())
