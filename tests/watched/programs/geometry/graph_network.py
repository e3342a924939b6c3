"""PyG: GCN, GAT and GraphSAGE on a small graph; mini-batches of graphs, pooled."""
# needs: torch_geometric
# slow

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.one, self.two = kind(4, 8), kind(8, 8)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, data):
        hidden = F.elu(self.one(data.x, data.edge_index))
        hidden = F.elu(self.two(hidden, data.edge_index))
        return self.head(global_mean_pool(hidden, data.batch))


graphs = [Data(x=torch.randn(5, 4), edge_index=torch.randint(0, 5, (2, 12)), y=torch.tensor([k % 2])) for k in range(8)]
for kind in (GCNConv, GATConv, SAGEConv):
    model = Net(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for data in DataLoader(graphs, batch_size=4):
        loss = F.cross_entropy(model(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(kind.__name__, loss.item().hex(), model.head.weight.grad.norm().item().hex())
