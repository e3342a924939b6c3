"""PyG: papers and authors in one graph, each relation with its own convolution, trained on some of the nodes."""
# needs: torch_geometric
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import torch_geometric.transforms as T
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATv2Conv, HeteroConv, HGTConv, Linear, SAGEConv

torch.manual_seed(0)
data = HeteroData()
data["paper"].x, data["author"].x = torch.randn(12, 5), torch.randn(6, 3)
data["paper"].y = torch.randint(0, 3, (12,))
data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(0, 6, (20,)), torch.randint(0, 12, (20,))])
data["paper", "cites", "paper"].edge_index = torch.randint(0, 12, (2, 24))
data = T.Compose([T.ToUndirected(), T.AddSelfLoops(), T.NormalizeFeatures(), T.RandomNodeSplit(num_val=2, num_test=2)])(data)


class Relations(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = HeteroConv({kind: GATv2Conv((-1, -1), 8, add_self_loops=False) if kind[0] != kind[2] else SAGEConv((-1, -1), 8) for kind in data.edge_types}, aggr="sum")
        self.two = HGTConv(8, 8, data.metadata(), heads=2)
        self.head = Linear(-1, 3)

    def forward(self, x, edges):
        x = {kind: value.relu() for kind, value in self.one(x, edges).items()}
        return self.head(self.two(x, edges)["paper"])


model = Relations()
with torch.no_grad():
    model(data.x_dict, data.edge_index_dict)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
train = data["paper"].train_mask
for step in range(3):
    model.train()
    out = model(data.x_dict, data.edge_index_dict)
    loss = torch.nn.functional.cross_entropy(out[train], data["paper"].y[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.head.weight.grad.norm().item().hex(), (out.argmax(1) == data["paper"].y).sum().item())
