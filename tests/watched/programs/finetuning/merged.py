"""peft: two LoRA adapters trained by turns, saved on their own, one merged into the weights."""
# needs: peft safetensors
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.conv, self.head = torch.nn.Embedding(12, 8), torch.nn.Conv1d(8, 8, 3, padding=1), torch.nn.Linear(8, 4)

    def forward(self, ids):
        return self.head(torch.relu(self.conv(self.embed(ids).mT)).mean(-1))


torch.manual_seed(0)
base = Net()
torch.save(base.state_dict(), "base.pt")
config = LoraConfig(r=2, lora_alpha=4, lora_dropout=0.1, target_modules=["embed", "conv", "head"], use_rslora=True, init_lora_weights="gaussian")
model = get_peft_model(base, config, adapter_name="even")
model.add_adapter("odd", config)
ids, y = torch.randint(0, 12, (8, 6)), torch.randint(0, 4, (8,))
for step in range(4):
    name = ("even", "odd")[step % 2]
    model.set_adapter(name)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    loss = torch.nn.functional.cross_entropy(model(ids), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(name, step, loss.item().hex(), model.base_model.model.head.lora_B[name].weight.grad.norm().item().hex())
model.eval()
save_file({key: value.contiguous() for key, value in get_peft_model_state_dict(model, adapter_name="odd").items()}, "odd.safetensors")
print({key: value.norm().item().hex() for key, value in sorted(load_file("odd.safetensors").items())})
with torch.no_grad(), model.disable_adapter():
    print("base", model(ids).sum().item().hex())
model.save_pretrained("saved", selected_adapters=["even"])
model.set_adapter("even")
before = model(ids).detach()
again = Net()
again.load_state_dict(torch.load("base.pt"))
merged = PeftModel.from_pretrained(again, "saved/even", adapter_name="even").eval().merge_and_unload()
print(type(merged).__name__, torch.allclose(merged(ids), before, atol=1e-5), merged.head.weight.norm().item().hex())
