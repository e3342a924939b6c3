"""An LSTM over packed sequences, truncated backpropagation, weight and spectral norms."""
# slow

import torch
from torch.nn.utils import parametrizations, rnn

torch.manual_seed(0)
embed, lstm = torch.nn.Embedding(20, 8), torch.nn.LSTM(8, 12, batch_first=True)
gru = torch.nn.GRUCell(12, 12)
head = parametrizations.weight_norm(torch.nn.Linear(12, 20))
gate = parametrizations.spectral_norm(torch.nn.Linear(12, 12))
params = [p for m in (embed, lstm, gru, head, gate) for p in m.parameters()]
optimizer = torch.optim.Adam(params, lr=1e-2)
lengths = torch.tensor([7, 5, 3])
ids = torch.randint(0, 20, (3, 7))
state = torch.zeros(3, 12)
for step in range(4):
    packed = rnn.pack_padded_sequence(embed(ids), lengths, batch_first=True)
    hidden, _ = rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    state = gru(torch.tanh(gate(hidden.mean(1))), state.detach())
    loss = torch.nn.functional.cross_entropy(head(hidden + state.unsqueeze(1)).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), lstm.weight_hh_l0.grad.norm().item().hex())
