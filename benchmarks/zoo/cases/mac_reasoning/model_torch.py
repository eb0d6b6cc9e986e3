"""Memory, Attention and Composition network."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class QuestionEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_size, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embedding_size)
        self.lstm = nn.LSTM(embedding_size, dim // 2, batch_first=True, bidirectional=True)
        # one trained bias per gate; the other one only holds the forget gate's constant
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            nn.init.zeros_(bias.requires_grad_(False))
            bias[dim // 2:dim] = 1.0

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        words, (h, _) = self.lstm(packed)
        words, _ = pad_packed_sequence(words, batch_first=True, total_length=tokens.size(1))
        return words, torch.cat([h[0], h[1]], dim=1)


class ControlUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.control_question = nn.Linear(2 * dim, dim)
        self.attn = nn.Linear(dim, 1, bias=False)

    def forward(self, position, words, padding, control):
        cq = self.control_question(torch.cat([control, position], dim=1))
        scores = self.attn(cq.unsqueeze(1) * words).squeeze(2)
        attention = F.softmax(scores.masked_fill(padding, float("-inf")), dim=1)
        return torch.bmm(attention.unsqueeze(1), words).squeeze(1), attention


class ReadUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mem = nn.Linear(dim, dim)
        self.know = nn.Linear(dim, dim)
        self.concat = nn.Linear(2 * dim, dim)
        self.attn = nn.Linear(dim, 1, bias=False)

    def forward(self, memory, knowledge, control):
        know = self.know(knowledge)
        interaction = self.mem(memory).unsqueeze(1) * know
        x = F.elu(self.concat(torch.cat([interaction, know], dim=2)))
        x = F.elu(x * control.unsqueeze(1))
        attention = F.softmax(self.attn(x), dim=1)
        return (attention * knowledge).sum(dim=1)


class WriteUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.merge = nn.Linear(2 * dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, memory, retrieved, control):
        candidate = self.merge(torch.cat([memory, retrieved], dim=1))
        gate = torch.sigmoid(self.gate(control) + 1.0)
        return gate * candidate + (1 - gate) * memory


class MACNetwork(nn.Module):
    def __init__(self, vocab_size=18, embedding_size=10, dim=12, max_step=3, image_channels=8, num_answers=5):
        super().__init__()
        self.encoder = QuestionEncoder(vocab_size, embedding_size, dim)
        self.stem = nn.Sequential(
            nn.Conv2d(image_channels, dim, 3, padding=1), nn.ELU(),
            nn.Conv2d(dim, dim, 3, padding=1), nn.ELU(),
        )
        self.question_proj = nn.Linear(dim, dim)
        self.position_aware = nn.ModuleList(nn.Linear(dim, dim) for _ in range(max_step))
        self.control = ControlUnit(dim)
        self.read = ReadUnit(dim)
        self.write = WriteUnit(dim)
        self.mem_0 = nn.Parameter(torch.randn(1, dim))
        self.output_question = nn.Linear(dim, dim)
        self.classifier = nn.Sequential(nn.Linear(2 * dim, dim), nn.ELU(), nn.Linear(dim, num_answers))

    def forward(self, tokens, lengths, images, memory_mask):
        words, question = self.encoder(tokens, lengths)
        padding = torch.arange(tokens.size(1), device=tokens.device) >= lengths.unsqueeze(1)
        knowledge = self.stem(images.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        control = question
        memory = self.mem_0.expand(tokens.size(0), -1)
        q = torch.tanh(self.question_proj(question))
        attentions = []
        for position_aware in self.position_aware:
            control, attention = self.control(position_aware(q), words, padding, control)
            retrieved = self.read(memory * memory_mask, knowledge, control)
            memory = self.write(memory, retrieved, control)
            attentions.append(attention)
        logits = self.classifier(torch.cat([memory, self.output_question(question)], dim=1))
        return {"question": question, "attention": torch.stack(attentions, dim=1), "control": control, "memory": memory,
                "logits": logits}


def loss(model, questions, lengths, images, answers, memory_mask):
    out = model(questions.long(), lengths.long(), images, memory_mask)
    return F.cross_entropy(out["logits"], answers.long()), out
