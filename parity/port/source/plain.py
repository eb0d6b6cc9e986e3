"""A port in plain torch: what stands in the place of like_tf's layers and optimizers, and how that differs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

OF_LIKE_TF = re.compile(r"\blike_tf\.(\w+)")
GRADIENT_DESCENT = re.compile(r"like_tf\.GradientDescent\(")
MOMENTUM = re.compile(r"like_tf\.Momentum\((.*), momentum=([\d.e-]+), nesterov=(True|False)\)")
ADAM = re.compile(r"like_tf\.Adam\((.*), beta1=([\d.e-]+), beta2=([\d.e-]+), eps=([\d.e-]+)\)")

SAME = "SAME padding is a number of pixels, that of the recorded sizes: for images of others write it anew."
ROUNDED_DECAY = "nn.BatchNorm moves its statistics by a momentum that is not rounded to float32: up to 1e-5 of them."
UNBIASED = (
    "nn.BatchNorm averages the unbiased variance of n values where the script averages the biased one: n / (n - 1)."
)
UNDEBIASED = (
    "nn.BatchNorm does not make up for the start of its averages at zero: statistics of the first steps differ."
)
LABELS = "F.cross_entropy is differentiated as labels that do not sum to 1 are; TensorFlow takes them to do so."
EPSILON = "torch.optim.Adam adds epsilon after the correction of its averages, TensorFlow before."


@dataclass
class Plain:
    """What is written in plain torch.

    Attributes:
      differences: sentences on how it differs from the script, in the order in which they were met.
    """

    differences: dict[str, None] = field(default_factory=dict)

    def differs(self, sentence: str) -> None:
        """Notes a difference."""
        self.differences[sentence] = None

    def optimizers(self, blocks: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns the statements of optimizers with torch's own in the place of those that it has like them."""
        return [[self._optimizer(line) for line in block] for block in blocks]

    def _optimizer(self, line: str) -> str:
        line = GRADIENT_DESCENT.sub("torch.optim.SGD(", line)
        found = MOMENTUM.search(line)
        if found is not None:
            nesterov = ", nesterov=True" if found[3] == "True" else ""
            line = line.replace(found[0], f"torch.optim.SGD({found[1]}, momentum={found[2]}{nesterov})")
        found = ADAM.search(line)
        if found is not None:
            self.differs(EPSILON)
            betas = f"betas=({found[2]}, {found[3]}), eps={found[4]}"
            line = line.replace(found[0], f"torch.optim.Adam({found[1]}, {betas})")
        return line

    def sentences(self, source: str) -> list[str]:
        """Returns how a source differs from the script, and what it still has of like_tf."""
        kept = sorted(set(OF_LIKE_TF.findall(source)))
        left = [f"Still of like_tf, for torch has none like it: {', '.join(kept)}."] if kept else []
        return ["In plain torch.", *self.differences, *left]
