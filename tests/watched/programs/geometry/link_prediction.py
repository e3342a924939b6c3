"""PyG: a variational graph autoencoder with negative sampling, and a heterogeneous graph."""
# needs: torch_geometric
# slow

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCNConv, HeteroConv, SAGEConv, VGAE

torch.manual_seed(0)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.log = GCNConv(4, 3), GCNConv(4, 3)

    def forward(self, x, edges):
        return self.mu(x, edges), self.log(x, edges)


x, edges = torch.randn(10, 4), torch.randint(0, 10, (2, 30))
model = VGAE(Encoder())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    z = model.encode(x, edges)
    loss = model.recon_loss(z, edges, edges.flip(1)[:, :20].roll(1, 0)) + model.kl_loss() / 10
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.encoder.mu.lin.weight.grad.norm().item().hex())
data = HeteroData()
data["user"].x, data["item"].x = torch.randn(4, 5), torch.randn(6, 3)
data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 3, 0], [0, 1, 2, 3, 5]])
data["item", "of", "user"].edge_index = torch.tensor([[0, 1, 4], [0, 2, 3]])
conv = HeteroConv({("user", "buys", "item"): SAGEConv((5, 3), 4), ("item", "of", "user"): SAGEConv((3, 5), 4)})
out = conv(data.x_dict, data.edge_index_dict)
sum(each.square().mean() for each in out.values()).backward()
print(*(p.grad.norm().item().hex() for p in conv.parameters()))
