import torch
from torch import nn
from torch.nn import functional as F

MAX_GRAD_NORM = 0.5


class Model(nn.Module):
    def __init__(self, ntoken=50, ninp=12, nhid=20, nproj=12, nlayers=2):
        super().__init__()
        self.nhid, self.nproj, self.nlayers = nhid, nproj, nlayers
        self.encoder = nn.Embedding(ntoken, ninp)
        self.lstm = nn.LSTM(ninp, nhid, nlayers, batch_first=True, proj_size=nproj)
        self.decoder = nn.Linear(nproj, ntoken)
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.7, 0.7)
        nn.init.zeros_(self.decoder.bias)
        for layer in range(self.nlayers):
            nn.init.zeros_(getattr(self.lstm, f"bias_ih_l{layer}"))
            # no weight of the original's: its forget gate opens by 1
            constant = getattr(self.lstm, f"bias_hh_l{layer}").requires_grad_(False)
            constant.zero_()[self.nhid:2 * self.nhid] = 1.0

    def unpack_state(self, state):
        state = state.view(-1, self.nlayers, self.nhid + self.nproj).transpose(0, 1)
        c, h = state.split([self.nhid, self.nproj], dim=-1)
        return h.contiguous(), c.contiguous()

    def forward(self, words, state):
        output, _ = self.lstm(self.encoder(words), self.unpack_state(state))
        return output, self.decoder(output)


def loss(model, x, y, w, state):
    output, logits = model(x.long(), state)
    flat = logits.flatten(0, 1)
    nll = F.cross_entropy(flat, y.long().flatten(), reduction="none")
    per_word = (nll * w.flatten()).mean()
    return per_word * x.size(1), {"output": output, "logits": flat, "perplexity": per_word.exp()}


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(trained, lr=0.2, initial_accumulator_value=1.0, eps=0.0)


def clip_gradients(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.sqrt(sum(g.square().sum() for g in grads))
    for g in grads:
        g.mul_(limit / total.clamp(min=limit))


def step(model, optimizer, scheduler, x, y, w, state):
    optimizer.zero_grad()
    value, outputs = loss(model, x, y, w, state)
    value.backward()
    clip_gradients(model.parameters(), MAX_GRAD_NORM)
    optimizer.step()
    return value, outputs
