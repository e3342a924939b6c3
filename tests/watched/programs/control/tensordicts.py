"""tensordict and torchrl: modules over dictionaries, advantages, the clipped loss of PPO."""
# needs: torchrl tensordict
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torchrl.modules import TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2), NormalParamExtractor())
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
    ProbabilisticTensorDictModule(in_keys=["loc", "scale"], out_keys=["action"], distribution_class=TanhNormal, return_log_prob=True),
)
value = ValueOperator(torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)), in_keys=["observation"])
data = TensorDict({"observation": torch.randn(4, 6, 3)}, batch_size=[4, 6])
with torch.no_grad():
    data = policy(data)
done = torch.zeros(4, 6, 1, dtype=torch.bool)
data["next"] = TensorDict({"observation": torch.randn(4, 6, 3), "reward": torch.randn(4, 6, 1), "done": done, "terminated": done.clone()}, batch_size=[4, 6])
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value)
loss_of = ClipPPOLoss(policy, value, entropy_coeff=0.01)
optimizer = torch.optim.Adam(loss_of.parameters(), lr=1e-2)
for step in range(3):
    with torch.no_grad():
        advantage(data)
    losses = loss_of(data.reshape(-1))
    loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), net[0].weight.grad.norm().item().hex())
