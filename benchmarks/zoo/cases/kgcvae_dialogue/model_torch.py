import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB, TOPICS, ACTS, LATENT = 40, 5, 6, 6
KL_WEIGHT = 0.4


class LSTM(nn.LSTM):
    """An LSTM with one trained bias; the other is constant and keeps the forget gate open by one."""

    def __init__(self, input_size, hidden_size, bidirectional=False):
        super().__init__(input_size, hidden_size, batch_first=True, bidirectional=bidirectional)
        for name, p in self.named_parameters():
            if name.startswith("bias_hh"):
                p.requires_grad_(False).zero_()[hidden_size:2 * hidden_size] = 1.0
            elif name.startswith("bias_ih"):
                nn.init.zeros_(p)
            else:
                nn.init.xavier_uniform_(p)

    def forward(self, x, lengths, state=None):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, _) = super().forward(packed, state)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return out, h


class SentenceEncoder(nn.Module):
    def __init__(self, embed, hidden):
        super().__init__()
        self.rnn = LSTM(embed, hidden, bidirectional=True)

    def forward(self, x, lengths):
        _, h = self.rnn(x, lengths)
        return torch.cat([h[0], h[1]], dim=-1)


class Gaussian(nn.Module):
    """The mean and the logarithm of the variance by one linear layer, behind a hidden one if there is one."""

    def __init__(self, in_features, latent, hidden=None):
        super().__init__()
        self.fc1 = nn.Sequential(nn.Linear(in_features, hidden), nn.Tanh()) if hidden else nn.Identity()
        self.muvar = nn.Linear(hidden or in_features, 2 * latent)

    def forward(self, x):
        return torch.chunk(self.muvar(self.fc1(x)), 2, dim=1)


class Decoder(nn.Module):
    def __init__(self, condition, embed, attribute, hidden):
        super().__init__()
        self.init_state = nn.ModuleDict({"h": nn.Linear(condition, hidden), "c": nn.Linear(condition, hidden)})
        self.rnn = LSTM(embed + attribute, hidden)
        self.project = nn.Linear(hidden, VOCAB)

    def forward(self, condition, x, attribute, lengths):
        h0 = self.init_state["h"](condition).unsqueeze(0)
        c0 = self.init_state["c"](condition).unsqueeze(0)
        x = torch.cat([x, attribute.unsqueeze(1).expand(-1, x.size(1), -1)], dim=-1)
        out, _ = self.rnn(x, lengths, (h0, c0))
        return self.project(out)


class DialogueCVAE(nn.Module):
    def __init__(self, embed=8, topic=4, act=5, sentence=6, context=9, decoder=10, profile=3):
        super().__init__()
        self.topic_embedding = nn.Embedding(TOPICS, topic)
        self.act_embedding = nn.Embedding(ACTS, act)
        self.word_embedding = nn.Embedding(VOCAB, embed)
        self.sentence = SentenceEncoder(embed, sentence)
        self.context = LSTM(2 * sentence + 2, context)
        self.attribute_fc1 = nn.Sequential(nn.Linear(act, 7), nn.Tanh())
        condition = topic + 2 * profile + context
        self.recognition = Gaussian(condition + 2 * sentence + 7, LATENT)
        self.prior = Gaussian(condition, LATENT, hidden=14)
        self.bow = nn.Sequential(nn.Linear(condition + LATENT, 16), nn.Tanh(), nn.Linear(16, VOCAB))
        self.act_head = nn.Sequential(nn.Linear(condition + LATENT, 12), nn.Tanh(), nn.Linear(12, ACTS), nn.ReLU())
        self.decoder = Decoder(condition + LATENT + act, embed, act, decoder)

    def embed_words(self, tokens):
        return self.word_embedding(tokens) * tokens.ne(0).unsqueeze(-1)

    def forward(self, contexts, floors, context_lens, topics, acts, my_profile, ot_profile, output, epsilon):
        n, turns, words = contexts.shape
        flat = contexts.view(n * turns, words)
        utterances = self.sentence(self.embed_words(flat), flat.ne(0).sum(1).clamp(min=1)).view(n, turns, -1)
        response_words = self.embed_words(output)
        lengths = output.ne(0).sum(1)
        response = self.sentence(response_words, lengths)
        joint = torch.cat([utterances, F.one_hot(floors, 2).to(utterances.dtype)], dim=-1)
        _, last = self.context(joint, context_lens)
        summary = last[-1]

        act = self.act_embedding(acts)
        condition = torch.cat([self.topic_embedding(topics), my_profile, ot_profile, summary], dim=1)
        recog = self.recognition(torch.cat([condition, response, self.attribute_fc1(act)], dim=1))
        prior = self.prior(condition)
        mu, logvar = recog
        latent = mu + torch.exp(0.5 * logvar) * epsilon
        generated = torch.cat([condition, latent], dim=1)
        bow_logits = self.bow(generated)
        act_logits = self.act_head(generated)
        logits = self.decoder(torch.cat([generated, act], dim=1), response_words[:, :-1], act, lengths - 1)
        return summary, latent, bow_logits, act_logits, logits, recog, prior


def gaussian_kld(recog_mu, recog_logvar, prior_mu, prior_logvar):
    ratio = (recog_logvar - prior_logvar).exp()
    distance = (prior_mu - recog_mu).pow(2) / prior_logvar.exp()
    return 0.5 * (ratio + distance - 1 - (recog_logvar - prior_logvar)).sum(1)


def loss(model, contexts, floors, context_lens, topics, acts, my_profile, ot_profile, output, epsilon):
    output, acts = output.long(), acts.long()
    context, latent, bow_logits, da_logits, dec_logits, recog, prior = model(
        contexts.long(), floors.long(), context_lens.long(), topics.long(), acts, my_profile, ot_profile, output, epsilon)
    labels = output[:, 1:]
    mask = labels.ne(0).to(dec_logits.dtype)
    rc = F.cross_entropy(dec_logits.transpose(1, 2), labels, reduction="none")
    rc_loss = (rc * mask).sum(1).mean()
    bow = -F.log_softmax(bow_logits, dim=1).gather(1, labels)
    bow_loss = (bow * mask).sum(1).mean()
    da_loss = F.cross_entropy(da_logits, acts)
    kld = gaussian_kld(*recog, *prior).mean()
    elbo = rc_loss + KL_WEIGHT * kld
    return elbo + bow_loss + da_loss, {"context": context, "latent": latent, "bow_logits": bow_logits, "da_logits": da_logits,
                                       "dec_logits": dec_logits, "rc_loss": rc_loss, "bow_loss": bow_loss, "da_loss": da_loss,
                                       "kld": kld}


class Adam(torch.optim.Optimizer):
    """Adam whose epsilon is added to the root of the raw second moment; the corrections go into the rate."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam([p for p in model.parameters() if p.requires_grad], lr=0.003)


def clip_gradients(model, limit):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    scale = limit / torch.clamp(norm, min=limit)
    for g in grads:
        g.mul_(scale)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_gradients(model, 2.0)
    optimizer.step()
    return total, outputs
