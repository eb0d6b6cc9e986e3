"""The pointer-generator with coverage in torch."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

COVERAGE = 0.7
MAX_GRAD_NORM = 0.15


def freeze_forget_bias(lstm, hidden):
    """TensorFlow has one bias, and adds 1 to the forget gate: torch's second bias becomes that constant."""
    for name, p in lstm.named_parameters():
        if "bias_hh" in name:
            p.requires_grad_(False).zero_()
            p[hidden:2 * hidden] = 1.0


class Encoder(nn.Module):
    def __init__(self, emb, hidden):
        super().__init__()
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        with torch.no_grad():
            freeze_forget_bias(self.lstm, hidden)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, (h, c) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))
        return outputs, torch.cat([h[0], h[1]], 1), torch.cat([c[0], c[1]], 1)


class ReduceState(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.reduce_h = nn.Linear(2 * hidden, hidden)
        self.reduce_c = nn.Linear(2 * hidden, hidden)

    def forward(self, h, c):
        h, c = self.reduce_h(h), self.reduce_c(c)
        return F.relu(h), F.relu(c)


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w_h = nn.Linear(size, size, bias=False)
        self.w_s = nn.Linear(size, size)
        self.w_c = nn.Linear(1, size, bias=False)
        self.v = nn.Linear(size, 1, bias=False)

    def forward(self, h, c, states, features, mask, coverage):
        energy = features + self.w_s(torch.cat([c, h], 1))[:, None] + self.w_c(coverage[:, :, None])
        scores = self.v(torch.tanh(energy)).squeeze(2)
        attn = scores.masked_fill(mask == 0, float("-inf")).softmax(1)
        return torch.bmm(attn[:, None], states).squeeze(1), attn


class Decoder(nn.Module):
    def __init__(self, emb, hidden):
        super().__init__()
        self.x_context = nn.Linear(emb + 2 * hidden, emb)
        self.cell = nn.LSTMCell(emb, hidden)
        self.attention = Attention(2 * hidden)
        self.p_gen = nn.Linear(4 * hidden + emb, 1)
        self.out = nn.Linear(3 * hidden, hidden)
        with torch.no_grad():
            freeze_forget_bias(self.cell, hidden)

    def forward(self, embedded, h, c, states, mask):
        features = self.attention.w_h(states)
        context, coverage = torch.zeros_like(states[:, 0]), torch.zeros_like(mask)
        outputs, attns, p_gens = [], [], []
        for inp in embedded.unbind(1):
            x = self.x_context(torch.cat([inp, context], 1))
            h, c = self.cell(x, (h, c))
            context, attn = self.attention(h, c, states, features, mask, coverage)
            coverage = coverage + attn
            outputs.append(self.out(torch.cat([h, context], 1)))
            p_gens.append(torch.sigmoid(self.p_gen(torch.cat([context, c, h, x], 1))))
            attns.append(attn)
        return torch.stack(outputs, 1), torch.stack(attns, 1), torch.stack(p_gens, 1)


class Model(nn.Module):
    def __init__(self, vocab=41, max_oovs=4, emb=9, hidden=7):
        super().__init__()
        self.max_oovs = max_oovs
        self.embedding = nn.Embedding(vocab, emb)
        self.encoder = Encoder(emb, hidden)
        self.reduce_state = ReduceState(hidden)
        self.decoder = Decoder(emb, hidden)
        self.generator = nn.Linear(hidden, vocab)

    def forward(self, enc_batch, enc_lens, enc_extend_vocab, enc_padding_mask, dec_batch):
        states, h, c = self.encoder(self.embedding(enc_batch.long()), enc_lens)
        h, c = self.reduce_state(h, c)
        outputs, attn, p_gen = self.decoder(self.embedding(dec_batch.long()), h, c, states, enc_padding_mask)
        vocab_dist = p_gen * self.generator(outputs).softmax(-1)
        index = enc_extend_vocab.long()[:, None].expand_as(attn)
        final = F.pad(vocab_dist, (0, self.max_oovs)).scatter_add(2, index, (1 - p_gen) * attn)
        return states, outputs, attn, p_gen.squeeze(2), final


def masked_average(values, mask):
    return ((values * mask).sum(1) / mask.sum(1)).mean()


def loss(model, enc_batch, enc_lens, enc_extend_vocab, enc_padding_mask, dec_batch, target_batch, dec_padding_mask):
    states, outputs, attn, p_gen, final = model(enc_batch, enc_lens, enc_extend_vocab, enc_padding_mask, dec_batch)
    gold = final.gather(2, target_batch.long()[:, :, None]).squeeze(2)
    nll = masked_average(-torch.log(gold + 1e-9), dec_padding_mask)
    coverage = attn.cumsum(1) - attn
    cov_loss = masked_average(torch.minimum(attn, coverage).sum(2), dec_padding_mask)
    return nll + COVERAGE * cov_loss, {
        "encoder": states, "decoder": outputs, "attention": attn, "p_gen": p_gen, "final": final}


def optimizer(model):
    params = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(params, lr=0.15, initial_accumulator_value=0.1, eps=0.0)


def clip_by_global_norm(params, limit):
    norm = torch.stack([p.grad.norm() for p in params]).norm()
    for p in params:
        p.grad.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    params = [p for p in model.parameters() if p.requires_grad]
    clip_by_global_norm(params, MAX_GRAD_NORM)
    optimizer.step()
    return value, outputs
