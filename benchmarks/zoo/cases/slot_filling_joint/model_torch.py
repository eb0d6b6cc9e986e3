"""Joint intent classification and slot tagging: BiLSTM, additive attention, slot gate."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, vocab_size, embed_dim, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.lstm = nn.LSTM(embed_dim, hidden_size, batch_first=True, bidirectional=True)
        # one bias is trained; the other holds the original's constant forget bias
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            bias.requires_grad_(False)
            bias.zero_()
            bias[hidden_size : 2 * hidden_size] = 1.0

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, (h_n, c_n) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=words.size(1))
        return outputs, torch.cat([c_n[0], h_n[0], c_n[1], h_n[1]], dim=-1)


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, memory_dim, attn_dim):
        super().__init__()
        self.query = nn.Linear(query_dim, attn_dim)
        self.key = nn.Linear(memory_dim, attn_dim, bias=False)
        self.score = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, query, memory, mask):
        energy = torch.tanh(self.query(query).unsqueeze(2) + self.key(memory).unsqueeze(1))
        scores = self.score(energy).squeeze(-1).masked_fill(~mask.unsqueeze(1), -1e9)
        return torch.bmm(F.softmax(scores, dim=-1), memory)


class SlotGate(nn.Module):
    def __init__(self, intent_dim, hidden_dim):
        super().__init__()
        self.intent = nn.Linear(intent_dim, hidden_dim)
        self.v = nn.Parameter(torch.randn(hidden_dim) * 0.2)

    def forward(self, slot_context, intent_features):
        gate = torch.tanh(slot_context + self.intent(intent_features).unsqueeze(1))
        return (self.v * gate).sum(dim=-1, keepdim=True) * slot_context


class Model(nn.Module):
    def __init__(self, vocab_size=50, embed_dim=20, hidden_size=14, attn_dim=18, n_slots=11, n_intents=5):
        super().__init__()
        width, state = 2 * hidden_size, 4 * hidden_size
        self.encoder = Encoder(vocab_size, embed_dim, hidden_size)
        self.slot_attention = AdditiveAttention(width, width, attn_dim)
        self.intent_attention = AdditiveAttention(state, width, attn_dim)
        self.slot_gate = SlotGate(width + state, width)
        self.intent_classifier = nn.Linear(width + state, n_intents)
        self.slot_classifier = nn.Linear(2 * width, n_slots)

    def forward(self, words, lengths):
        outputs, final_state = self.encoder(words, lengths)
        mask = torch.arange(words.size(1), device=words.device)[None, :] < lengths[:, None]
        slot_context = self.slot_attention(outputs, outputs, mask)
        intent_context = self.intent_attention(final_state.unsqueeze(1), outputs, mask).squeeze(1)
        intent_features = torch.cat([intent_context, final_state], dim=-1)
        gated = self.slot_gate(slot_context, intent_features)
        slot_logits = self.slot_classifier(torch.cat([gated, outputs], dim=-1))
        intent_logits = self.intent_classifier(intent_features)
        return outputs, slot_context, slot_logits, intent_logits


def loss(model, words, lengths, slots, slot_weights, intents):
    encoded, slot_context, slot_logits, intent_logits = model(words.long(), lengths.long())
    token_loss = F.cross_entropy(slot_logits.transpose(1, 2), slots.long(), reduction="none")
    slot_loss = ((token_loss * slot_weights).sum(dim=1) / (slot_weights.sum(dim=1) + 1e-12)).mean()
    intent_loss = F.cross_entropy(intent_logits, intents.long())
    return slot_loss + intent_loss, {
        "encoded": encoded,
        "slot_context": slot_context,
        "slot_logits": slot_logits,
        "intent_logits": intent_logits,
        "slot_loss": slot_loss,
        "intent_loss": intent_loss,
    }


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: averages start at one, epsilon inside the root, the rate inside the momentum."""

    def __init__(self, params, lr=1e-2, alpha=0.9, eps=1e-10, momentum=0.0):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.square() - square_avg, alpha=1 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return RMSpropTF(parameters, lr=3e-3, alpha=0.9, eps=0.01, momentum=0.9)


def rate(step):
    return 3e-3 * 0.8 ** (step // 2)
