import torch
from torch import nn
from torch.nn import functional as F


class NormLinear(nn.Sequential):
    """A product without bias, layer-normalised."""

    def __init__(self, n_in, n_out):
        super().__init__(nn.Linear(n_in, n_out, bias=False), nn.LayerNorm(n_out, eps=1e-12))


class LayerNormGRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates_x = NormLinear(input_size, 2 * hidden_size)
        self.gates_h = NormLinear(hidden_size, 2 * hidden_size)
        self.new_x = NormLinear(input_size, hidden_size)
        self.new_h = NormLinear(hidden_size, hidden_size)

    def forward(self, x, h):
        z, r = torch.sigmoid(self.gates_x(x) + self.gates_h(h)).chunk(2, dim=1)
        candidate = torch.tanh(self.new_x(x) + self.new_h(r * h))
        return (1 - z) * h + z * candidate


def unroll(cell, inputs, mask, h, backwards=False):
    """Runs a cell over [batch, time, dim]; behind the end of a sentence the state stands still and the output is zero."""
    outputs = []
    steps = range(inputs.size(1))
    for t in reversed(steps) if backwards else steps:
        inside = mask[:, t, None]
        h = torch.where(inside > 0, cell(inputs[:, t], h), h)
        outputs.append(h * inside)
    return torch.stack(outputs, dim=1), h


class Encoder(nn.Module):
    def __init__(self, word_size, thought_size):
        super().__init__()
        self.cells = nn.ModuleDict({
            "fw": LayerNormGRUCell(word_size, thought_size // 2),
            "bw": LayerNormGRUCell(word_size, thought_size // 2),
        })

    def forward(self, words, mask):
        thoughts = []
        for direction, cell in self.cells.items():
            h = words.new_zeros(len(words), cell.hidden_size)
            thoughts.append(unroll(cell, words, mask, h, direction == "bw")[1])
        return torch.cat(thoughts, dim=1)


class DuoDecoder(nn.Module):
    def __init__(self, vocab, word_size, thought_size):
        super().__init__()
        self.prev_gru = LayerNormGRUCell(word_size, thought_size)
        self.next_gru = LayerNormGRUCell(word_size, thought_size)
        self.worder = nn.Linear(thought_size, vocab)

    def forward(self, thoughts, words, masks):
        states, logits = [], []
        for cell, sentence, mask in zip((self.prev_gru, self.next_gru), words, masks):
            delayed = torch.cat([torch.zeros_like(sentence[:, :1]), sentence[:, :-1]], dim=1)
            out, _ = unroll(cell, delayed, mask, thoughts)
            states.append(out)
            logits.append(self.worder(out))
        return states, logits


class Model(nn.Module):
    def __init__(self, vocab=45, word_size=14, thought_size=20):
        super().__init__()
        self.word2embd = nn.Embedding(vocab, word_size)
        self.encoder = Encoder(word_size, thought_size)
        self.decoders = DuoDecoder(vocab, word_size, thought_size)
        nn.init.uniform_(self.word2embd.weight, -0.1, 0.1)

    def forward(self, sentence, mask, neighbours, neighbour_masks):
        thoughts = self.encoder(self.word2embd(sentence), mask)
        words = [self.word2embd(neighbour) for neighbour in neighbours]
        states, logits = self.decoders(thoughts, words, neighbour_masks)
        return thoughts, states, logits


def loss(model, encode_ids, encode_mask, decode_pre_ids, decode_pre_mask, decode_post_ids, decode_post_mask):
    neighbours = [decode_pre_ids.long(), decode_post_ids.long()]
    masks = [decode_pre_mask, decode_post_mask]
    thoughts, states, logits = model(encode_ids.long(), encode_mask, neighbours, masks)
    pre, post = [
        (F.cross_entropy(scores.transpose(1, 2), ids, reduction="none") * mask).sum()
        for scores, ids, mask in zip(logits, neighbours, masks)
    ]
    return pre + post, {
        "thought_vectors": thoughts,
        "decode_pre": states[0],
        "decode_post": states[1],
        "loss_decode_pre": pre,
        "loss_decode_post": post,
    }
