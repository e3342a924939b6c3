"""sentence_transformers: a pooled BERT made here learns from pairs, with a loss of ranks in parts."""
# needs: sentence_transformers transformers tokenizers
# slow

import torch
import transformers
from sentence_transformers import SentenceTransformer, losses, models
from tokenizers import Tokenizer, models as kinds, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.manual_seed(0)
words = ["[PAD]", "[UNK]", *"a cat dog sat ran on the mat hill far away".split()]
tokens = Tokenizer(kinds.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16).save_pretrained("bert")
BertModel(BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16)).save_pretrained("bert")
body = models.Transformer("bert")
model = SentenceTransformer(modules=[body, models.Pooling(16, "mean"), models.Normalize()], device="cpu")
pairs = [["a cat sat", "the cat sat on a mat"], ["a dog ran", "the dog ran far away"], ["far hill", "the hill far away"]]
sides = [model.preprocess(list(side)) for side in zip(*pairs)]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for loss_of in (losses.MultipleNegativesRankingLoss(model), losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2)):
    for step in range(2):
        optimizer.zero_grad()
        loss = loss_of([dict(side) for side in sides], torch.zeros(0))
        loss.backward()
        optimizer.step()
        print(type(loss_of).__name__, step, loss.item().hex(), body.auto_model.embeddings.word_embeddings.weight.grad.norm().item().hex())
print(float(model.encode(["the dog sat"], show_progress_bar=False).sum()).hex())
