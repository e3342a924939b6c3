"""Other adapters of peft, each on a small network: IA3, LoHa, DoRA, OFT, prefix-free."""
# needs: peft
# slow

import torch
from peft import IA3Config, LoHaConfig, LoraConfig, OFTConfig, get_peft_model

KINDS = {
    "ia3": IA3Config(target_modules=["0", "2"], feedforward_modules=["2"]),
    "loha": LoHaConfig(r=2, target_modules=["0", "2"]),
    "dora": LoraConfig(r=2, use_dora=True, target_modules=["0", "2"]),
    "oft": OFTConfig(r=0, oft_block_size=4, target_modules=["0"]),
}
x, y = torch.randn(12, 8, generator=torch.Generator().manual_seed(1)), torch.ones(12, 4)
for name, config in KINDS.items():
    torch.manual_seed(0)
    model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)), config)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, step, loss.item().hex(), trained[0].grad.norm().item().hex())
