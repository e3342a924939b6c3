"""The arithmetic of layers: attention, LSTM, normalizations, softmax, CTC."""
