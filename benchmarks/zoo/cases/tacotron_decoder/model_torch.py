"""A small Tacotron 2 with location-sensitive attention."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def conv_norm(in_channels, out_channels, kernel_size=5):
    return nn.Sequential(
        nn.Conv1d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False),
        BatchNorm1d(out_channels, eps=1e-3, momentum=0.01),
    )


def lstm_cell(input_size, hidden_size):
    """One trained bias; the other stands for the forget gate's constant of the original."""
    cell = nn.LSTMCell(input_size, hidden_size)
    nn.init.zeros_(cell.bias_hh)
    nn.init.ones_(cell.bias_hh.data[hidden_size:2 * hidden_size])
    cell.bias_hh.requires_grad_(False)
    return cell


def sequence_mask(lengths, max_length):
    return torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self, num_chars, dim):
        super().__init__()
        self.embedding = nn.Embedding(num_chars, dim)
        self.convolutions = nn.ModuleList([conv_norm(dim, dim), conv_norm(dim, dim)])

    def forward(self, text, mask):
        x = self.embedding(text).transpose(1, 2)
        for conv in self.convolutions:
            x = F.relu(conv(x))
        return x.transpose(1, 2) * mask.unsqueeze(2)


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel_size, attention_dim):
        super().__init__()
        self.location_conv = nn.Conv1d(1, n_filters, kernel_size, padding=kernel_size // 2)
        self.location_dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, weights_cum):
        return self.location_dense(self.location_conv(weights_cum.unsqueeze(1)).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, rnn_dim, memory_dim, attention_dim):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, attention_dim, bias=False)
        self.location_layer = LocationLayer(4, 5, attention_dim)
        self.bias = nn.Parameter(torch.zeros(attention_dim))
        self.v = nn.Linear(attention_dim, 1, bias=False)

    def forward(self, query, memory, processed_memory, weights_cum, mask):
        processed_query = self.query_layer(query).unsqueeze(1)
        processed = processed_query + self.location_layer(weights_cum) + processed_memory + self.bias
        energies = self.v(torch.tanh(processed)).squeeze(-1)
        energies = energies.masked_fill(~mask, float("-inf"))
        weights = F.softmax(energies, dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Prenet(nn.Module):
    def __init__(self, in_dim, dim):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(in_dim, dim), nn.Linear(dim, dim)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Decoder(nn.Module):
    def __init__(self, n_mels, r, memory_dim, prenet_dim=12, rnn_dim=16, attention_dim=10):
        super().__init__()
        self.n_mels, self.r, self.rnn_dim = n_mels, r, rnn_dim
        self.prenet = Prenet(n_mels, prenet_dim)
        self.attention_rnn = lstm_cell(prenet_dim + memory_dim, rnn_dim)
        self.attention = Attention(rnn_dim, memory_dim, attention_dim)
        self.decoder_rnn = lstm_cell(rnn_dim + memory_dim, rnn_dim)
        self.linear_projection = nn.Linear(rnn_dim + memory_dim, n_mels * r)
        self.gate_layer = nn.Linear(rnn_dim + memory_dim, r)

    def forward(self, memory, mask, mels):
        batch = memory.size(0)
        last_frames = mels[:, self.r - 1::self.r]
        go_frame = mels.new_zeros(batch, 1, self.n_mels)
        decoder_inputs = self.prenet(torch.cat([go_frame, last_frames[:, :-1]], dim=1))
        processed_memory = self.attention.memory_layer(memory)
        attention_hidden = attention_cell = memory.new_zeros(batch, self.rnn_dim)
        decoder_hidden = decoder_cell = memory.new_zeros(batch, self.rnn_dim)
        context = memory.new_zeros(batch, memory.size(2))
        weights_cum = memory.new_zeros(batch, memory.size(1))
        outputs, gates, alignments = [], [], []
        for decoder_input in decoder_inputs.unbind(1):
            cell_input = torch.cat([decoder_input, context], dim=-1)
            attention_hidden, attention_cell = self.attention_rnn(cell_input, (attention_hidden, attention_cell))
            context, weights = self.attention(attention_hidden, memory, processed_memory, weights_cum, mask)
            weights_cum = weights_cum + weights
            rnn_input = torch.cat([attention_hidden, context], dim=-1)
            decoder_hidden, decoder_cell = self.decoder_rnn(rnn_input, (decoder_hidden, decoder_cell))
            hidden_context = torch.cat([decoder_hidden, context], dim=-1)
            outputs.append(self.linear_projection(hidden_context))
            gates.append(self.gate_layer(hidden_context))
            alignments.append(weights)
        mel_outputs = torch.stack(outputs, dim=1).view(batch, -1, self.n_mels)
        return mel_outputs, torch.stack(gates, dim=1).flatten(1), torch.stack(alignments, dim=1)


class Postnet(nn.Module):
    def __init__(self, n_mels, dim=12):
        super().__init__()
        self.convolution = conv_norm(n_mels, dim)
        self.projection = nn.Linear(dim, n_mels)

    def forward(self, mel_outputs):
        return self.projection(torch.tanh(self.convolution(mel_outputs.transpose(1, 2))).transpose(1, 2))


class Model(nn.Module):
    def __init__(self, num_chars=24, n_mels=6, r=2, dim=16):
        super().__init__()
        self.encoder = Encoder(num_chars, dim)
        self.decoder = Decoder(n_mels, r, dim)
        self.postnet = Postnet(n_mels)

    def forward(self, text, text_lengths, mels):
        mask = sequence_mask(text_lengths, text.size(1))
        memory = self.encoder(text, mask)
        before, gates, alignments = self.decoder(memory, mask, mels)
        after = before + self.postnet(before)
        return {"memory": memory, "alignments": alignments, "before": before, "stop_logits": gates, "after": after}


def masked_mse(prediction, target, mask):
    return ((prediction - target).pow(2) * mask).sum() / (mask.sum() * target.size(-1))


def l2_of_kernels(model):
    """Half the sum of squares of all weights but biases, the embedding and batch norm's."""
    kept = [p for name, p in model.named_parameters() if p.ndim > 1 and "embedding" not in name]
    return 0.5 * sum(p.pow(2).sum() for p in kept)


def loss(model, text, text_lengths, mels, mel_lengths):
    out = model(text.long(), text_lengths, mels)
    mask = sequence_mask(mel_lengths, mels.size(1)).to(mels.dtype)
    out["before_loss"] = masked_mse(out["before"], mels, mask.unsqueeze(2))
    out["after_loss"] = masked_mse(out["after"], mels, mask.unsqueeze(2))
    l1 = (out["after"] - mels).abs() * mask.unsqueeze(2)
    out["linear_loss"] = 0.5 * l1.mean() + 0.5 * l1[:, :, :2].mean()
    stop_targets = (~sequence_mask(mel_lengths - 1, mels.size(1))).to(mels.dtype)
    stop = F.binary_cross_entropy_with_logits(
        out["stop_logits"], stop_targets, reduction="none", pos_weight=mels.new_tensor(5.0))
    out["stop_loss"] = (stop * mask).sum() / mask.sum()
    total = out["before_loss"] + out["after_loss"] + out["linear_loss"] + out["stop_loss"]
    return total + 1e-3 * l2_of_kernels(model), out
