"""The two-phase loop of the tutorials, with a phase that is never called so."""

import copy
import time

import torch
import torch.nn as nn

torch.manual_seed(0)


def make_loaders():
    x = torch.randn(60, 5)
    y = (x.sum(dim=1) > 0).long()
    return {
        "training": [(x[i : i + 10], y[i : i + 10]) for i in range(0, 40, 10)],
        "val": [(x[40:], y[40:])],
    }


def train_model(model, criterion, optimizer, loaders, num_epochs=2):
    since = time.time()
    best_model_wts = copy.deepcopy(model.state_dict())
    best_acc = 0.0
    for epoch in range(num_epochs):
        for phase in ["training", "val"]:
            if phase == "training":
                model.train()
            else:
                model.eval()
            running_loss, running_corrects, seen = 0.0, 0, 0
            for inputs, labels in loaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):  # BUG graph-cut
                # FIX with torch.set_grad_enabled(phase == "training"):
                    outputs = model(inputs)  # ALSO
                    preds = outputs.argmax(1)
                    loss = criterion(outputs, labels)
                if phase == "training":
                    loss.backward()
                    optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += int((preds == labels).sum())
                seen += len(labels)
            epoch_acc = running_corrects / seen
            print(f"{phase} Loss: {running_loss / seen:.4f} Acc: {epoch_acc:.4f}")
            if phase == "val" and epoch_acc > best_acc:
                best_acc = epoch_acc
                best_model_wts = copy.deepcopy(model.state_dict())
    model.load_state_dict(best_model_wts)
    return model


net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
train_model(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.05), make_loaders())
