"""What a right port is varied in beside its net and its numbers: all of it must not matter."""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nets import NETS

from parity.case import Case

VARIANTS = Path(__file__).parent / "variants"
WITHOUT = "-"  # of what a net has nothing of


class Variation(NamedTuple):
    """One choice of everything.

    Fields:
      tensorflow: "this" interpreter's, or the "other" one's.
      tf_onednn: "on" or "off": TF_ENABLE_ONEDNN_OPTS.
      tf_threads, torch_threads: of the ops on either side, "1" or "2".
      torch_mkldnn: "on" or "off": torch.backends.mkldnn.enabled.
      memory_format: "contiguous" or "channels_last", of the torch model and what its convolutions are given.
      batch_norm: "fused" or "unfused", on both sides.
      buckets: DDP's bucket_cap_mb, or "default".
      ties: "few"; "inputs" that are rounded, so that patches and frames repeat; or "weights" too: unperturbed initial values
        in multiples of an eighth, so that other patches tie, and products are zero.
    """

    tensorflow: str
    tf_onednn: str
    tf_threads: str
    torch_threads: str
    torch_mkldnn: str
    memory_format: str
    batch_norm: str
    buckets: str
    ties: str

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items() if value != WITHOUT)


def drawn_variation(net: str, chance: random.Random, tensorflows: Mapping[str, str]) -> Variation:
    """Draws how a right port of a net is run.

    Args:
      net: its name.
      chance: what is drawn from.
      tensorflows: the version of each TensorFlow there is, by "this" and "other".
    """
    has = NETS[net].split()
    tensorflow, onednn = chance.choice(list(tensorflows)), chance.choice(["off", "on"])
    drawn = Variation(
        tensorflow,
        onednn,
        chance.choice(["1", "2"]),
        chance.choice(["1", "2"]),
        chance.choice(["on", "off"]),
        chance.choice(["contiguous", "channels_last"]),
        chance.choice(["fused", "unfused"]),
        chance.choice(["default", "0.01", "0.0005"]),
        chance.choice(["few", "inputs", "weights"]),
    )
    # Everything is drawn for every net, so that what follows does not depend on what a net has.
    return drawn._replace(
        tf_onednn=WITHOUT if tensorflows[tensorflow].startswith("1.") else onednn,
        memory_format=drawn.memory_format if "conv" in has else WITHOUT,
        batch_norm=drawn.batch_norm if "batch_norm" in has else WITHOUT,
        ties=drawn.ties if "pixels" in has else WITHOUT,
    )


def varied(case: Case, variation: Variation, into: Path) -> Case:
    """Copies a case's folder to `into`, a folder to make, and returns the case as it is varied."""
    into.parent.mkdir(parents=True, exist_ok=True)
    for shared in case.directory.parent.glob("*.py"):
        shutil.copy(shared, into.parent)
    shutil.copytree(case.directory, into, ignore=shutil.ignore_patterns("golden", "__pycache__"))
    for module in VARIANTS.glob("*.py"):
        shutil.copy(module, into)
    ties = "" if variation.ties in (WITHOUT, "few") else variation.ties
    described = {
        "tower": case.tf.tower,
        "model": case.torch.model,
        "loss": case.torch.loss,
        "batches": case.batches,
        "mkldnn": variation.torch_mkldnn == "on",
        "memory_format": variation.memory_format,
        "batch_norm": variation.batch_norm,
        "ties": ties,
    }
    (into / "variant.json").write_text(json.dumps(described))
    cap = None if variation.buckets == "default" else float(variation.buckets)
    port = {"model": "varied_torch:Model", "loss": "varied_torch:loss", "bucket_cap_mb": cap}
    port["threads"] = int(variation.torch_threads)
    tower = {"tower": "varied_tf:tower", "threads": int(variation.tf_threads)}
    changed = {
        "directory": into,
        "batches": "varied_batches:batches",
        "init": "model" if ties == "weights" else case.init,
        "tf": case.tf.model_copy(update=tower),
        "torch": case.torch.model_copy(update=port),
    }
    return case.model_copy(update=changed)
