import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

ALPHABET = 8
BLANK = ALPHABET
RELU_CLIP = 1.5


class ContextWindows(nn.Module):
    """Every frame with its neighbours, oldest first."""

    def __init__(self, context):
        super().__init__()
        self.context = context

    def forward(self, x):
        padded = F.pad(x, (0, 0, self.context, self.context))
        windows = padded.unfold(1, 2 * self.context + 1, 1)
        return windows.transpose(2, 3).flatten(2)


class ClippedDense(nn.Linear):
    def forward(self, x):
        return F.hardtanh(super().forward(x), 0.0, RELU_CLIP)


class Model(nn.Module):
    def __init__(self, features=8, context=2, hidden=20, cell=12):
        super().__init__()
        self.context = ContextWindows(context)
        self.dense1 = ClippedDense(features * (2 * context + 1), hidden)
        self.dense2 = ClippedDense(hidden, hidden)
        self.dense3 = ClippedDense(hidden, 2 * cell)
        self.rnn = nn.LSTM(2 * cell, cell, bidirectional=True)
        self.dense5 = ClippedDense(2 * cell, hidden)
        self.out = nn.Linear(hidden, ALPHABET + 1)
        # one bias is trained, the other one holds the forget gate's constant
        for name, p in self.rnn.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(p)
                p.data[cell:2 * cell] = 1.0
                p.requires_grad_(False)

    def forward(self, features, frames):
        x = self.context(features).transpose(0, 1)
        first = self.dense1(x)
        x = self.dense3(self.dense2(first))
        packed = pack_padded_sequence(x, frames.cpu(), enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], total_length=x.size(0))
        return first, out, self.out(self.dense5(out))


def loss(model, features, seq_length, labels, label_length):
    frames = seq_length.long()
    first, out, logits = model(features, frames)
    log_probs = logits.log_softmax(dim=-1)
    nll = F.ctc_loss(log_probs, labels.long(), frames, label_length.long(), blank=BLANK, reduction="none")
    return nll.mean(), {"layer_1": first, "rnn_output": out, "raw_logits": logits}
