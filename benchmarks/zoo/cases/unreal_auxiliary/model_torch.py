import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

ACTIONS = 4
PIXEL_CHANGE_LAMBDA, ENTROPY_BETA = 0.05, 0.01


class BasicLSTM(nn.Module):
    """One kernel for input and state, gates in the order i, j, f, o, and one more on the forget gate."""

    def __init__(self, input_size, hidden_size, forget_bias=1.0):
        super().__init__()
        self.hidden_size, self.forget_bias = hidden_size, forget_bias
        self.linear = nn.Linear(input_size + hidden_size, 4 * hidden_size)

    def forward(self, x, state=None):
        if state is None:
            state = (x.new_zeros(len(x), self.hidden_size), x.new_zeros(len(x), self.hidden_size))
        c, h = state
        outputs = []
        for step in x.unbind(dim=1):
            i, j, f, o = self.linear(torch.cat([step, h], dim=1)).chunk(4, dim=1)
            c = c * torch.sigmoid(f + self.forget_bias) + torch.sigmoid(i) * torch.tanh(j)
            h = torch.tanh(c) * torch.sigmoid(o)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=4, stride=2)
        self.conv2 = nn.Conv2d(8, 12, kernel_size=3, stride=2)

    def forward(self, frames):
        """[B, T, H, W, C] to [B, T, features], the features with their channels last."""
        x = frames.flatten(0, 1).permute(0, 3, 1, 2)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return x.permute(0, 2, 3, 1).reshape(*frames.shape[:2], -1)


class Recurrent(nn.Module):
    def __init__(self, features, state):
        super().__init__()
        self.fc1 = nn.Linear(features, state)
        self.lstm = BasicLSTM(state + ACTIONS + 1, state)

    def forward(self, features, last_action_reward, state=None):
        x = torch.cat([F.relu(self.fc1(features)), last_action_reward], dim=-1)
        return self.lstm(x, state).flatten(0, 1)


class PixelControl(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.fc1 = nn.Linear(state, 4 * 4 * 12)
        self.deconv_v = nn.ConvTranspose2d(12, 1, kernel_size=4, stride=2)
        self.deconv_a = nn.ConvTranspose2d(12, ACTIONS, kernel_size=4, stride=2)

    def forward(self, x):
        x = F.relu(self.fc1(x)).view(-1, 4, 4, 12).permute(0, 3, 1, 2)
        value, advantage = F.relu(self.deconv_v(x)), F.relu(self.deconv_a(x))
        return value + advantage - advantage.mean(dim=1, keepdim=True)


class Model(nn.Module):
    def __init__(self, features=4 * 4 * 12, state=32):
        super().__init__()
        self.trunk = Trunk()
        self.recurrent = Recurrent(features, state)
        self.actor = nn.Linear(state, ACTIONS)
        self.critic = nn.Linear(state, 1)
        self.pixel_control = PixelControl(state)
        self.reward_prediction = nn.Linear(3 * features, 3)

    def forward(self, base, base_last, state, replay, replay_last, rp_frames):
        played = self.recurrent(self.trunk(base), base_last, state)
        replayed = self.recurrent(self.trunk(replay), replay_last)
        rp_logits = self.reward_prediction(self.trunk(rp_frames).flatten(1))
        return {
            "lstm": played,
            "logits": self.actor(played),
            "v": self.critic(played).squeeze(-1),
            "pc_q": self.pixel_control(replayed),
            "vr_v": self.critic(replayed).squeeze(-1),
            "rp_logits": rp_logits,
        }


def l2_loss(x):
    return 0.5 * x.pow(2).sum()


def loss(model, base_input, base_last_action_reward, base_state_c, base_state_h, base_a, base_adv, base_r, replay_input,
         replay_last_action_reward, pc_a, pc_r, vr_r, rp_input, rp_c_target):
    out = model(base_input, base_last_action_reward, (base_state_c, base_state_h), replay_input, replay_last_action_reward, rp_input)
    policy = torch.distributions.Categorical(logits=out["logits"])
    log_prob = policy.log_prob(base_a.flatten(0, 1).argmax(dim=1))
    policy_loss = -(log_prob * base_adv.flatten() + ENTROPY_BETA * policy.entropy()).sum()
    value_loss = 0.5 * l2_loss(base_r.flatten() - out["v"])
    chosen = torch.einsum("nahw,na->nhw", out["pc_q"], pc_a.flatten(0, 1))
    pc_loss = PIXEL_CHANGE_LAMBDA * l2_loss(pc_r.flatten(0, 1) - chosen)
    vr_loss = l2_loss(vr_r.flatten() - out["vr_v"])
    rp_loss = F.cross_entropy(out["rp_logits"], rp_c_target, reduction="sum")
    total = policy_loss + value_loss + pc_loss + vr_loss + rp_loss
    return total, {
        "base_lstm": out["lstm"], "pi": policy.probs, "v": out["v"], "pc_q": out["pc_q"], "vr_v": out["vr_v"],
        "rp_c": out["rp_logits"].softmax(dim=-1), "policy_loss": policy_loss, "value_loss": value_loss, "pc_loss": pc_loss,
        "vr_loss": vr_loss, "rp_loss": rp_loss}


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp whose epsilon is under the root and whose mean square begins at one."""

    def __init__(self, params, lr, alpha=0.99, eps=0.1):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                square_avg = state["square_avg"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                p.addcdiv_(p.grad, square_avg.add(group["eps"]).sqrt_(), value=-group["lr"])


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.008, alpha=0.95, eps=0.1)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - min(step, 8) / 8)


@torch.no_grad()
def clip_by_global_norm_(grads, limit):
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **rollout):
    optimizer.zero_grad()
    with model.no_sync():
        total, outputs = loss(model, **rollout)
        total.backward()
    grads = [p.grad for p in model.parameters()]
    for grad in grads:
        dist.all_reduce(grad)
    clip_by_global_norm_(grads, 10.0)
    optimizer.step()
    scheduler.step()
    return total, outputs
