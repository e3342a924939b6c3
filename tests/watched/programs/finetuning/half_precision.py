"""accelerate: bfloat16 on the CPU, a tracker and hooks of its own, two models in one loop, weights kept and read back."""
# needs: accelerate
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker, on_main_process
from accelerate.utils import ProjectConfiguration, set_seed


class Printed(GeneralTracker):
    name, requires_logging_directory = "printed", False

    @property
    def tracker(self):
        return None

    @on_main_process
    def store_init_configuration(self, values):
        print("run", values)

    @on_main_process
    def log(self, values, step=None, **_):
        print(step, {key: value.hex() for key, value in values.items()})


set_seed(1)
accelerator = Accelerator(cpu=True, mixed_precision="bf16", log_with=[Printed("run")], project_config=ProjectConfiguration("project", automatic_checkpoint_naming=True, total_limit=2))
accelerator.init_trackers("test", config={"lr": 0.01})
writer = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.LeakyReLU(0.2), torch.nn.Linear(8, 2))
critic = torch.nn.Sequential(torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 8)), torch.nn.LeakyReLU(0.2), torch.nn.Linear(8, 1))
real = torch.utils.data.DataLoader(torch.randn(16, 2) * 0.3 + 1, batch_size=8)
write, judge = torch.optim.Adam(writer.parameters(), lr=1e-2, betas=(0.5, 0.9)), torch.optim.Adam(critic.parameters(), lr=1e-2)
writer, critic, write, judge, real = accelerator.prepare(writer, critic, write, judge, real)
step = 0
for epoch in range(2):
    for batch in real:
        fake = writer(torch.randn(8, 3))
        with accelerator.autocast():
            loss = torch.relu(1 - critic(batch)).mean() + torch.relu(1 + critic(fake.detach())).mean()
        judge.zero_grad()
        accelerator.backward(loss)
        judge.step()
        with accelerator.autocast():
            other = -critic(fake).mean()
        write.zero_grad()
        accelerator.backward(other)
        norm = accelerator.clip_grad_norm_(writer.parameters(), 1.0)
        write.step()
        step += 1
        accelerator.log({"critic": loss.item(), "writer": other.item(), "norm": norm.item()}, step=step)
    accelerator.save_state()
print(accelerator.unwrap_model(writer)[0].weight.dtype, accelerator.get_state_dict(writer)["0.weight"].norm().item().hex())
accelerator.load_state("project/checkpoints/checkpoint_0")
print(accelerator.unwrap_model(writer)[0].weight.norm().item().hex())
accelerator.end_training()
