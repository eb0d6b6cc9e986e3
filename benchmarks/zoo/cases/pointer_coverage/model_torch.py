"""Pointer-generator network with coverage."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def single_bias(rnn, forget_bias=1.0):
    """torch adds two biases; the second one is kept for the constant of the forget gate and is not trained."""
    hidden = rnn.hidden_size
    for name, parameter in rnn.named_parameters():
        if name.startswith("bias_hh"):
            nn.init.zeros_(parameter)
            parameter.data[hidden : 2 * hidden] = forget_bias
            parameter.requires_grad_(False)
    return rnn


class Encoder(nn.Module):
    def __init__(self, emb_dim, hidden_dim):
        super().__init__()
        self.lstm = single_bias(nn.LSTM(emb_dim, hidden_dim, batch_first=True, bidirectional=True))

    def forward(self, embedded, lengths):
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, (h, c) = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return output, torch.cat([h[0], h[1]], dim=1), torch.cat([c[0], c[1]], dim=1)


class ReduceState(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.reduce_h = nn.Linear(2 * hidden_dim, hidden_dim)
        self.reduce_c = nn.Linear(2 * hidden_dim, hidden_dim)

    def forward(self, h, c):
        return F.relu(self.reduce_h(h)), F.relu(self.reduce_c(c))


class Attention(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        size = 2 * hidden_dim
        self.encode_proj = nn.Linear(size, size, bias=False)
        self.decode_proj = nn.Linear(size, size)
        self.coverage_proj = nn.Linear(1, size, bias=False)
        self.v = nn.Linear(size, 1, bias=False)

    def forward(self, state, encoder_outputs, encoder_features, mask, coverage):
        h, c = state
        features = encoder_features + self.decode_proj(torch.cat([c, h], dim=1)).unsqueeze(1)
        features = features + self.coverage_proj(coverage.unsqueeze(2))
        scores = self.v(torch.tanh(features)).squeeze(2)
        attn = F.softmax(scores, dim=1) * mask
        attn = attn / attn.sum(dim=1, keepdim=True)
        context = torch.bmm(attn.unsqueeze(1), encoder_outputs).squeeze(1)
        return context, attn, coverage + attn


class Decoder(nn.Module):
    def __init__(self, vocab_size, emb_dim, hidden_dim, max_oovs):
        super().__init__()
        self.max_oovs = max_oovs
        self.x_context = nn.Linear(emb_dim + 2 * hidden_dim, emb_dim)
        self.lstm = single_bias(nn.LSTMCell(emb_dim, hidden_dim))
        self.attention = Attention(hidden_dim)
        self.p_gen = nn.Linear(4 * hidden_dim + emb_dim, 1)
        self.out1 = nn.Linear(3 * hidden_dim, hidden_dim)
        self.out2 = nn.Linear(hidden_dim, vocab_size)

    def forward(self, embedded, state, encoder_outputs, mask, extended_ids):
        features = self.attention.encode_proj(encoder_outputs)
        context = torch.zeros_like(encoder_outputs[:, 0])
        coverage = torch.zeros_like(mask)
        attn_dists, final_dists = [], []
        for y in embedded.unbind(1):
            x = self.x_context(torch.cat([y, context], dim=1))
            h, c = state = self.lstm(x, state)
            context, attn, coverage = self.attention(state, encoder_outputs, features, mask, coverage)
            p_gen = torch.sigmoid(self.p_gen(torch.cat([context, c, h, x], dim=1)))
            vocab_dist = F.softmax(self.out2(self.out1(torch.cat([h, context], dim=1))), dim=1)
            vocab_dist = F.pad(p_gen * vocab_dist, (0, self.max_oovs))
            final_dists.append(vocab_dist.scatter_add(1, extended_ids, (1 - p_gen) * attn))
            attn_dists.append(attn)
        return torch.stack(attn_dists, dim=1), torch.stack(final_dists, dim=1)


class Model(nn.Module):
    def __init__(self, vocab_size=48, emb_dim=14, hidden_dim=12, max_oovs=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim)
        self.encoder = Encoder(emb_dim, hidden_dim)
        self.reduce_state = ReduceState(hidden_dim)
        self.decoder = Decoder(vocab_size, emb_dim, hidden_dim, max_oovs)

    def forward(self, article, extended_ids, mask, summary):
        encoder_outputs, h, c = self.encoder(self.embedding(article), mask.sum(dim=1).long())
        state = self.reduce_state(h, c)
        attn, final = self.decoder(self.embedding(summary), state, encoder_outputs, mask, extended_ids)
        return encoder_outputs, attn, final


def masked_average(values, mask):
    """Averages over the words of each summary, then over summaries."""
    return ((values * mask).sum(dim=1) / mask.sum(dim=1)).mean()


def loss(model, enc_batch, enc_batch_extend_vocab, enc_padding_mask, dec_batch, target_batch, dec_padding_mask):
    enc_outputs, attn_dists, final_dists = model(
        enc_batch.long(), enc_batch_extend_vocab.long(), enc_padding_mask, dec_batch.long()
    )
    gold_probs = final_dists.gather(2, target_batch.long().unsqueeze(2)).squeeze(2)
    nll = masked_average(-torch.log(gold_probs), dec_padding_mask)
    coverage = attn_dists.cumsum(dim=1) - attn_dists
    coverage_loss = masked_average(torch.min(attn_dists, coverage).sum(dim=2), dec_padding_mask)
    total = nll + 1.0 * coverage_loss
    return total, {"enc_outputs": enc_outputs, "attn_dists": attn_dists, "final_dists": final_dists}


def optimizer(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(parameters, lr=0.15, initial_accumulator_value=0.1, eps=0)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, outputs = loss(model, **inputs)
    total.backward()
    clip_by_global_norm(model.parameters(), 2.0)
    optimizer.step()
    return total, outputs
