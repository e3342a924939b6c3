"""Ignite's Engine with events, handlers and metrics."""
# needs: ignite
# slow

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator
from ignite.handlers import EarlyStopping
from ignite.metrics import Accuracy, Loss, RunningAverage

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = torch.nn.CrossEntropyLoss()
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randint(0, 3, (24,))), batch_size=8)


def update(engine, batch):
    model.train()
    optimizer.zero_grad()
    loss = loss_of(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


trainer = Engine(update)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(loss_of)})
evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(2, lambda engine: -engine.state.metrics["loss"], trainer))


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(data)
    print(engine.state.epoch, engine.state.metrics["loss"].hex(), *(each.hex() for each in evaluator.state.metrics.values()))


trainer.run(data, max_epochs=3)
print(model[0].weight.grad.norm().item().hex())
