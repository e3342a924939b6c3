"""Ignite: the rate is found by trial, then warmed up; checkpoints, an average of the weights, and a run that goes on."""
# needs: ignite
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EMAHandler, FastaiLRFinder, PiecewiseLinear, TerminateOnNan, create_lr_scheduler_with_warmup, global_step_from_engine
from ignite.metrics import ConfusionMatrix, Precision, Recall

torch.manual_seed(0)
x = torch.randn(30, 5)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=5)  # an even number of batches
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Hardswish(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.5)
trainer = create_supervised_trainer(model, optimizer, torch.nn.CrossEntropyLoss(), gradient_accumulation_steps=2)
finder = FastaiLRFinder()
with finder.attach(trainer, {"model": model, "optimizer": optimizer}, num_iter=8, end_lr=1.0, diverge_th=3.0) as finding:
    finding.run(loader)
print(*(float(each).hex() for each in finder.get_results()["loss"]))
optimizer.param_groups[0]["lr"] = 0.05
schedule = create_lr_scheduler_with_warmup(PiecewiseLinear(optimizer, "lr", [(3, 0.05), (10, 0.01)]), warmup_start_value=0.0, warmup_end_value=0.05, warmup_duration=3)
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
average = EMAHandler(model, momentum=0.2)
average.attach(trainer, event=Events.ITERATION_COMPLETED(every=2))
precision, recall = Precision(average=False), Recall(average=False)
evaluator = create_supervised_evaluator(average.ema_model, {"f1": (precision * recall * 2 / (precision + recall)).mean(), "matrix": ConfusionMatrix(2)})
keep = {"model": model, "optimizer": optimizer, "trainer": trainer}
evaluator.add_event_handler(Events.COMPLETED, Checkpoint(keep, DiskSaver("kept", create_dir=True), n_saved=1, global_step_transform=global_step_from_engine(trainer)))


@trainer.on(Events.EPOCH_COMPLETED(once=2))
def rarely(engine):
    print("second epoch is over", engine.state.iteration)


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    state = evaluator.run(loader)
    print(engine.state.epoch, engine.state.output.hex(), float(state.metrics["f1"]).hex(), state.metrics["matrix"].tolist())


trainer.run(loader, max_epochs=2)
trainer.run(loader, max_epochs=3)
Checkpoint.load_objects({"model": model}, torch.load("kept/checkpoint_3.pt"))
print(model[0].weight.norm().item().hex())
