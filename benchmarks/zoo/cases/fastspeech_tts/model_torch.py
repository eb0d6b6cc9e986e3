"""FastSpeech with given durations: feed-forward transformer blocks, duration predictor, length regulator, postnet."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class PositionalEncoding(nn.Module):
    """Sines in the first half of the channels, cosines in the second."""

    def forward(self, x):
        length, half = x.size(1), x.size(2) // 2
        position = torch.arange(length, dtype=x.dtype, device=x.device)
        steps = torch.arange(half, dtype=x.dtype, device=x.device)
        angle = position[:, None] * torch.exp(-math.log(10000.0) / (half - 1) * steps)
        return x + torch.cat([angle.sin(), angle.cos()], dim=1)


class FFTBlock(nn.Module):
    def __init__(self, d_model, n_head, d_filter, kernel_size=3):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-6)
        self.conv1 = nn.Conv1d(d_model, d_filter, kernel_size, padding=kernel_size // 2)
        self.conv2 = nn.Conv1d(d_filter, d_model, kernel_size, padding=kernel_size // 2)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, x, mask):
        attended, _ = self.self_attn(x, x, x, key_padding_mask=~mask, need_weights=False)
        x = self.norm1(x + attended).masked_fill(~mask.unsqueeze(-1), 0.0)
        y = self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm2(x + y).masked_fill(~mask.unsqueeze(-1), 0.0)


class DurationPredictor(nn.Module):
    """Predicts log(1 + duration); it does not train the encoder."""

    def __init__(self, d_model, d_filter, kernel_size=3):
        super().__init__()
        self.conv1 = nn.Conv1d(d_model, d_filter, kernel_size, padding=kernel_size // 2)
        self.norm1 = nn.LayerNorm(d_filter, eps=1e-6)
        self.conv2 = nn.Conv1d(d_filter, d_filter, kernel_size, padding=kernel_size // 2)
        self.norm2 = nn.LayerNorm(d_filter, eps=1e-6)
        self.linear = nn.Linear(d_filter, 1)

    def forward(self, x, mask):
        x = x.detach()
        x = self.norm1(F.relu(self.conv1(x.transpose(1, 2)).transpose(1, 2)))
        x = self.norm2(F.relu(self.conv2(x.transpose(1, 2)).transpose(1, 2)))
        return self.linear(x).squeeze(-1).masked_fill(~mask, 0.0)


class LengthRegulator(nn.Module):
    """Repeats each phoneme's state as many times as it has frames, and fills up to `max_frames` with zeros."""

    def forward(self, x, durations, max_frames):
        repeated = [states.repeat_interleave(counts, dim=0) for states, counts in zip(x, durations)]
        return torch.stack([F.pad(r, (0, 0, 0, max_frames - r.size(0))) for r in repeated])


class Model(nn.Module):
    def __init__(self, n_phonemes=40, d_model=24, n_head=2, d_filter=36, n_mels=10):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(n_phonemes, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model ** -0.5)
        self.encoder_position = PositionalEncoding()
        self.encoder = nn.ModuleList(FFTBlock(d_model, n_head, d_filter) for _ in range(2))
        self.duration_predictor = DurationPredictor(d_model, 20)
        self.length_regulator = LengthRegulator()
        self.decoder_position = PositionalEncoding()
        self.decoder = nn.ModuleList([FFTBlock(d_model, n_head, d_filter)])
        self.mel_linear = nn.Linear(d_model, n_mels)
        self.postnet = nn.Sequential(
            nn.Conv1d(n_mels, 18, 5, padding=2),
            nn.Tanh(),
            nn.Conv1d(18, n_mels, 5, padding=2),
        )

    def forward(self, phonemes, durations, max_frames):
        mask = phonemes != 0
        frame_numbers = torch.arange(max_frames, device=durations.device)
        mel_mask = frame_numbers[None, :] < durations.sum(dim=1, keepdim=True)

        x = self.encoder_position(self.embedding(phonemes) * math.sqrt(self.d_model))
        x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        for block in self.encoder:
            x = block(x, mask)
        encoded = x
        log_durations = self.duration_predictor(encoded, mask)
        expanded = self.length_regulator(encoded, durations, max_frames)

        x = self.decoder_position(expanded).masked_fill(~mel_mask.unsqueeze(-1), 0.0)
        for block in self.decoder:
            x = block(x, mel_mask)
        mel_before = self.mel_linear(x)
        mel_after = mel_before + self.postnet(mel_before.transpose(1, 2)).transpose(1, 2)
        return {
            "encoded": encoded,
            "log_durations": log_durations,
            "expanded": expanded,
            "mel_before": mel_before,
            "mel_after": mel_after,
            "mask": mask,
            "mel_mask": mel_mask,
        }


def masked_mean(values, mask):
    mask = mask.to(values.dtype).expand_as(values)
    return (values * mask).sum() / mask.sum()


def loss(model, phonemes, durations, mels):
    out = model(phonemes.long(), durations.long(), mels.size(1))
    mask, mel_mask = out.pop("mask"), out.pop("mel_mask").unsqueeze(-1)
    before = masked_mean(F.l1_loss(out["mel_before"], mels, reduction="none"), mel_mask)
    after = masked_mean(F.l1_loss(out["mel_after"], mels, reduction="none"), mel_mask)
    target = torch.log(durations.to(mels.dtype) + 1.0)
    duration_loss = masked_mean(F.mse_loss(out["log_durations"], target, reduction="none"), mask)
    out["mel_loss"] = before + after
    out["duration_loss"] = duration_loss
    return before + after + duration_loss, out


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9 ** (step / 2))


def clip_gradients(parameters, max_norm):
    """Like clip_grad_norm_, without its 1e-6 in the denominator."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    total_norm = torch.stack([g.norm() for g in gradients]).norm()
    for g in gradients:
        g.mul_(max_norm / total_norm.clamp(min=max_norm))


def step(model, optimizer, scheduler, phonemes, durations, mels):
    optimizer.zero_grad()
    total, outputs = loss(model, phonemes, durations, mels)
    total.backward()
    clip_gradients(model.parameters(), max_norm=0.5)
    optimizer.step()
    scheduler.step()
    return total, outputs
