"""Relation network in torch, trained with a step of its own."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance is that of the batch, not the unbiased estimate."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class ConvInput(nn.Sequential):
    def __init__(self, widths=(8, 8, 12)):
        layers, inplanes = [], 3
        for planes in widths:
            # right and bottom only, as SAME pads an even size at stride 2
            layers += [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(inplanes, planes, 3, stride=2, bias=False),
                       BatchNorm2d(planes, eps=1e-3, momentum=0.1), nn.ReLU()]
            inplanes = planes
        super().__init__(*layers)


class QuestionEncoder(nn.Module):
    """An LSTM with one bias: the second of torch's is frozen, and holds the original's forget bias of 1."""

    def __init__(self, vocabulary=20, embedding=8, hidden=16):
        super().__init__()
        self.words = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.lstm.bias_hh_l0.requires_grad_(False)
        with torch.no_grad():
            self.lstm.bias_hh_l0.zero_()
            self.lstm.bias_hh_l0[hidden:2 * hidden] = 1.0

    def forward(self, questions, lengths):
        packed = pack_padded_sequence(self.words(questions), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return h[-1]


class RelationNetwork(nn.Module):
    def __init__(self, answers=10):
        super().__init__()
        self.vision = ConvInput()
        self.encoder = QuestionEncoder()
        self.relate = nn.Sequential(nn.Linear(2 * 14 + 16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                                    nn.Linear(32, 32), nn.ReLU())
        self.hidden1 = nn.Linear(32, 32)
        self.hidden2 = nn.Linear(32, 32)
        self.answer = nn.Linear(32, answers)

    def forward(self, images, questions, lengths, kept):
        features = self.vision(images)
        question = self.encoder(questions, lengths)

        b, _, h, w = features.shape
        ys = torch.linspace(-1, 1, h, dtype=images.dtype, device=images.device)
        xs = torch.linspace(-1, 1, w, dtype=images.dtype, device=images.device)
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij"))
        cells = torch.cat([features, grid.expand(b, -1, -1, -1)], dim=1).flatten(2).transpose(1, 2)

        n = cells.size(1)
        first = cells.unsqueeze(2).expand(-1, -1, n, -1)
        second = cells.unsqueeze(1).expand(-1, n, -1, -1)
        asked = question[:, None, None, :].expand(-1, n, n, -1)
        relations = self.relate(torch.cat([first, second, asked], dim=-1)).mean(dim=(1, 2))

        x = F.relu(self.hidden1(relations))
        x = F.relu(self.hidden2(x)) * kept
        return features, question, relations, self.answer(x)


def loss(model, images, questions, lengths, answers, kept):
    features, question, relations, logits = model(images.permute(0, 3, 1, 2), questions.long(), lengths.long(), kept)
    return F.cross_entropy(logits, answers.long()), {
        "features": features, "question": question, "relations": relations, "logits": logits}


class Adam(torch.optim.Optimizer):
    """Adam whose epsilon stands beside the uncorrected second moment (the paper's epsilon hat)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def clip(parameters, limit):
    """tf.clip_by_global_norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, images, questions, lengths, answers, kept):
    optimizer.zero_grad()
    total, outputs = loss(model, images, questions, lengths, answers, kept)
    total.backward()
    clip(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    return total, outputs
