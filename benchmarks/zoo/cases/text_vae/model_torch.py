import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 23
ANNEAL_BIAS = 30.0
ANNEAL_WIDTH = 12.0
CLIP = 1.0


class GRUCell(nn.Module):
    """TensorFlow's GRU: the reset gate acts on the state before the product, where nn.GRU has it after."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=-1)))
        return update * h + (1 - update) * new


class GRU(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = GRUCell(input_size, hidden_size)

    def forward(self, x, h=None, lengths=None):
        """All outputs, and the state behind the last valid step."""
        if h is None:
            h = x.new_zeros(x.size(0), self.hidden_size)
        outputs = []
        for t in range(x.size(1)):
            new = self.cell(x[:, t], h)
            h = new if lengths is None else torch.where((t < lengths)[:, None], new, h)
            outputs.append(h)
        return torch.stack(outputs, dim=1), h


def reverse_sequence(x, lengths):
    """Turns round the valid part of every sequence and leaves the padding where it is."""
    t = torch.arange(x.size(1), device=x.device).expand(x.size(0), -1)
    index = torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t)
    return x.gather(1, index[..., None].expand_as(x))


class Encoder(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.fw = GRU(input_size, hidden_size)
        self.bw = GRU(input_size, hidden_size)

    def forward(self, x, lengths):
        _, h_fw = self.fw(x, lengths=lengths)
        _, h_bw = self.bw(reverse_sequence(x, lengths), lengths=lengths)
        return torch.cat([h_fw, h_bw], dim=-1)


class Decoder(nn.Module):
    def __init__(self, input_size, hidden_size, latent):
        super().__init__()
        self.init_state = nn.Linear(latent, hidden_size)
        self.rnn = GRU(input_size + latent, hidden_size)
        self.out = nn.Linear(hidden_size, VOCAB)

    def forward(self, x, z):
        code = z[:, None].expand(-1, x.size(1), -1)
        outputs, _ = self.rnn(torch.cat([x, code], dim=-1), h=torch.tanh(self.init_state(z)))
        return self.out(outputs)


class Model(nn.Module):
    def __init__(self, embed=8, enc_units=9, dec_units=11, latent=5):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, embed)
        self.encoder = Encoder(embed, enc_units)
        self.mu = nn.Linear(2 * enc_units, latent)
        self.logvar = nn.Linear(2 * enc_units, latent)
        self.decoder = Decoder(embed, dec_units, latent)

    def forward(self, enc_inputs, dec_inputs, lengths, noise):
        h = self.encoder(self.embedding(enc_inputs), lengths)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * noise
        return mu, logvar, self.decoder(self.embedding(dec_inputs), z)


def kl_weight(train_step):
    return 0.5 * (torch.tanh((train_step - ANNEAL_BIAS) / ANNEAL_WIDTH) + 1)


def loss(model, enc_inputs, dec_inputs, targets, lengths, noise, train_step):
    lengths = lengths.long()
    mu, logvar, logits = model(enc_inputs.long(), dec_inputs.long(), lengths, noise)
    mask = torch.arange(targets.size(1), device=lengths.device) < lengths[:, None]
    nll = F.cross_entropy(logits.transpose(1, 2), targets.long(), reduction="none") * mask
    nll_loss = nll.sum(dim=1).mean()
    kl = 0.5 * (logvar.exp() + mu.square() - 1 - logvar).sum(dim=1)
    value = nll_loss + (kl_weight(train_step) * kl).mean()
    return value, {"mu": mu, "logvar": logvar, "logits": logits, "nll_loss": nll_loss, "kl_loss": kl.mean()}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)


@torch.no_grad()
def clip_by_global_norm_(parameters, limit):
    """clip_grad_norm_ without its 1e-6, as tf.clip_by_global_norm has it."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    clip_by_global_norm_(model.parameters(), CLIP)
    optimizer.step()
    scheduler.step()
    return value, outputs
