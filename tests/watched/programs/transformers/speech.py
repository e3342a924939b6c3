"""transformers: a small Whisper learns words from spectrograms, a small Wav2Vec2 by CTC."""
# needs: transformers
# slow

import warnings

warnings.simplefilter("ignore")
import numpy
import torch
import transformers
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, WhisperConfig, WhisperForConditionalGeneration

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=40, num_mel_bins=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32,
    max_source_positions=20, max_target_positions=12, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None, apply_spec_augment=True,
    mask_time_prob=0.2, mask_time_length=2,
)
model = WhisperForConditionalGeneration(config)
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)
mels, labels = torch.randn(2, 8, 40), torch.randint(3, 40, (2, 6))
labels[1, 4:] = -100
model.train()
for step in range(2):
    numpy.random.seed(step)
    loss = model(input_features=mels, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("whisper", step, loss.item().hex(), model.model.encoder.conv1.weight.grad.norm().item().hex())
config = Wav2Vec2Config(
    vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=(8, 8), conv_stride=(4, 2), conv_kernel=(8, 3), num_feat_extract_layers=2,
    num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, ctc_loss_reduction="mean", mask_time_prob=0.0, layerdrop=0.0, pad_token_id=0,
)
model = Wav2Vec2ForCTC(config)
model.freeze_feature_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
sound, labels = torch.randn(2, 200), torch.randint(1, 12, (2, 5))
for step in range(2):
    loss = model(sound, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("wav2vec2", step, loss.item().hex(), model.lm_head.weight.grad.norm().item().hex(), model.wav2vec2.feature_extractor.conv_layers[0].conv.weight.grad)
