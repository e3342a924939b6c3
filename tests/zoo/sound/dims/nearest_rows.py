"""Rows that are looked up by a choice, where nothing more is to learn of it."""


def greedy_words(torch):
    torch.manual_seed(0)
    emb, cell, out = torch.nn.Embedding(9, 6), torch.nn.GRUCell(6, 8), torch.nn.Linear(8, 9)
    parameters = [*emb.parameters(), *cell.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    wanted = torch.randint(0, 9, (5, 4))
    for _ in range(3):
        h, word, loss = torch.zeros(4, 8), torch.zeros(4, dtype=torch.long), 0.0
        for target in wanted:
            h = cell(emb(word), h)
            logits = out(h)
            loss = loss + torch.nn.functional.cross_entropy(logits, target)
            word = logits.argmax(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


def codes_of_a_trained_encoder(torch):
    torch.manual_seed(0)
    encoder = torch.nn.Linear(5, 4).requires_grad_(False)
    book, prior = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8)
    optimizer = torch.optim.Adam([*book.parameters(), *prior.parameters()], lr=1e-3)
    for _ in range(3):
        with torch.no_grad():
            codes = torch.cdist(encoder(torch.randn(12, 5)), book.weight).argmin(1)
        rows = book(codes)
        loss = torch.nn.functional.cross_entropy(prior(rows[:-1]), codes[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


def straight_through_quantiser(torch):
    torch.manual_seed(0)
    encoder, decoder = torch.nn.Linear(5, 4), torch.nn.Linear(4, 5)
    book = torch.nn.Embedding(8, 4)
    parameters = [*encoder.parameters(), *decoder.parameters(), *book.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for _ in range(3):
        x = torch.randn(12, 5)
        z = encoder(x)
        nearest = (z[:, None] - book.weight[None]).pow(2).sum(-1).argmin(1)
        q = book(nearest)
        loss = (q - z.detach()).pow(2).mean() + 0.25 * (q.detach() - z).pow(2).mean()
        loss = loss + (decoder(z + (q - z).detach()) - x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
