"""Stands for a tokenizer: a letter is a token."""


class TextEncoder(object):
    def __init__(self, encoder_path, bpe_path):
        self.encoder = {chr(97 + index): index for index in range(20)}

    def encode(self, texts):
        return [[self.encoder[letter] for letter in text if letter in self.encoder] for text in texts]
