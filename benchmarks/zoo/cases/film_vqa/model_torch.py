"""FiLM for visual question answering. The GRU resets its state in front of the product, as the original's cell does."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """running_var keeps the biased variance."""

    def __init__(self, num_features, affine=True):
        super().__init__(num_features, eps=1e-5, momentum=0.1, affine=affine)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        r, u = torch.sigmoid(self.gates(torch.cat([x, h], dim=1))).chunk(2, dim=1)
        c = torch.tanh(self.candidate(torch.cat([x, r * h], dim=1)))
        return u * h + (1 - u) * c


class QuestionEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embed = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = GRUCell(embedding_dim, hidden_size)

    def forward(self, questions, lengths):
        words = self.embed(questions)
        h = words.new_zeros(words.size(0), self.hidden_size)
        for t in range(words.size(1)):
            running = (t < lengths).unsqueeze(1)
            h = torch.where(running, self.rnn(words[:, t], h), h)
        return h


def append_coords(x):
    """Adds x and y coordinates in [-1, 1] as two more channels."""
    n, _, height, width = x.shape
    ys = torch.linspace(-1, 1, height, dtype=x.dtype, device=x.device).view(1, 1, height, 1)
    xs = torch.linspace(-1, 1, width, dtype=x.dtype, device=x.device).view(1, 1, 1, width)
    return torch.cat([x, xs.expand(n, 1, height, width), ys.expand(n, 1, height, width)], dim=1)


class FiLM(nn.Module):
    def forward(self, x, gammas, betas):
        return (1 + gammas[:, :, None, None]) * x + betas[:, :, None, None]


class FiLMedResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.input_proj = nn.Conv2d(dim + 2, dim, 1)
        self.conv1 = nn.Conv2d(dim, dim, 3, padding=1, bias=False)
        self.bn1 = BatchNorm2d(dim, affine=False)
        self.film = FiLM()

    def forward(self, x, gammas, betas):
        x = F.relu(self.input_proj(append_coords(x)))
        out = self.bn1(self.conv1(x))
        out = F.relu(self.film(out, gammas, betas))
        return x + out


class FiLMNet(nn.Module):
    def __init__(self, vocab_size=20, num_answers=8, dim=16, num_blocks=2):
        super().__init__()
        self.num_blocks = num_blocks
        self.question_encoder = QuestionEncoder(vocab_size, 12, 24)
        self.film_generator = nn.Linear(24, 2 * num_blocks * dim)
        self.stem_conv = nn.Conv2d(3, dim, 3, stride=2, bias=False)
        self.stem_bn = BatchNorm2d(dim)
        self.res_blocks = nn.ModuleList(FiLMedResBlock(dim) for _ in range(num_blocks))
        self.classifier_proj = nn.Conv2d(dim + 2, 24, 1, bias=False)
        self.classifier_bn = BatchNorm2d(24)
        self.fc1 = nn.Linear(24, 32)
        self.fc2 = nn.Linear(32, num_answers)

    def forward(self, images, questions, lengths):
        state = self.question_encoder(questions, lengths)
        films = self.film_generator(state).chunk(self.num_blocks, dim=1)
        # even sizes: stride 2 pads below and on the right only
        x = self.stem_conv(F.pad(images, (0, 1, 0, 1)))
        x = F.relu(self.stem_bn(x))
        out = {"state": state, "stem": x}
        for i, (block, parameters) in enumerate(zip(self.res_blocks, films)):
            gammas, betas = parameters.chunk(2, dim=1)
            x = block(x, gammas, betas)
            out["block%d" % (i + 1)] = x
        x = F.relu(self.classifier_bn(self.classifier_proj(append_coords(x))))
        x = x.amax(dim=(2, 3))
        out["logits"] = self.fc2(F.relu(self.fc1(x)))
        return out


def loss(model, images, questions, lengths, answers):
    out = model(images.permute(0, 3, 1, 2).contiguous(), questions.long(), lengths.long())
    return F.cross_entropy(out["logits"], answers.long()), out


class Adam(torch.optim.Optimizer):
    """Adam with epsilon added to the root of the uncorrected second moment ("epsilon hat" of the paper)."""

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
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                exp_avg.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step_size = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-step_size)


def optimizer(model):
    return Adam(model.parameters(), lr=3e-3)


@torch.no_grad()
def clip_by_global_norm(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(max_norm / torch.clamp(total, min=max_norm))


def step(model, optimizer, scheduler, images, questions, lengths, answers):
    optimizer.zero_grad()
    total, out = loss(model, images, questions, lengths, answers)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.5)
    optimizer.step()
    return total, out
