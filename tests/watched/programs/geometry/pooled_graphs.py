"""PyG: graphs are classified by GIN layers with normalization, pooled to their best nodes and to a dense matrix."""
# needs: torch_geometric
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, DenseGCNConv, GINEConv, GraphNorm, JumpingKnowledge, SAGPooling, SetTransformerAggregation, dense_diff_pool
from torch_geometric.utils import dropout_edge, to_dense_adj, to_dense_batch

torch.manual_seed(3)


def graph(k):
    edges = torch.randint(0, 7, (2, 16))
    return Data(x=torch.randn(7, 4), edge_index=edges, edge_attr=torch.rand(16, 2), y=torch.tensor([k % 3]))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList([GINEConv(MLP([4 if k == 0 else 8, 8, 8]), edge_dim=2, train_eps=True) for k in range(2)])
        self.norms = torch.nn.ModuleList([GraphNorm(8) for _ in range(2)])
        self.jump = JumpingKnowledge("lstm", 8, 2)
        self.pool = SAGPooling(8, ratio=0.6)
        self.read = SetTransformerAggregation(8, heads=2)
        self.assign, self.embed = DenseGCNConv(8, 3), DenseGCNConv(8, 8)
        self.head = MLP([16, 8, 3], dropout=0.2, norm=None)

    def forward(self, data):
        x, seen = data.x, []
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, data.edge_index, data.edge_attr), data.batch))
            seen.append(x)
        x = self.jump(seen)
        edges, _ = dropout_edge(data.edge_index, p=0.1, training=self.training)
        kept, _, _, batch, _, _ = self.pool(x, edges, batch=data.batch)
        dense, mask = to_dense_batch(x, data.batch)
        adjacency = to_dense_adj(data.edge_index, data.batch).clamp(max=1)
        coarse, _, link, entropy = dense_diff_pool(self.embed(dense, adjacency, mask), adjacency, self.assign(dense, adjacency, mask), mask)
        return self.head(torch.cat([self.read(kept, batch), coarse.mean(1)], 1)), link + entropy


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
loader = DataLoader([graph(k) for k in range(12)], batch_size=6, shuffle=True)
for epoch in range(2):
    for data in loader:
        out, extra = model(data)
        loss = F.cross_entropy(out, data.y) + 0.1 * extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item().hex(), extra.item().hex(), model.convs[0].eps.grad.item().hex())
