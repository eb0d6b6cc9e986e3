"""The causes of what goes into the towers and the ranks."""

from parity.diagnose.catalogue.info import GENERAL, CauseInfo, Proof, Trait, Wording

_PIECES = "cut the batch into contiguous pieces as tf.split does: torch_ddp.shard"
_READ = "scale and shift the inputs once, as the graph does"
_SEQUENCES = "check the order in which the port reads its sequences"
_OWN_SHARD = (
    "give rank k the k-th contiguous piece of the batch: torch_ddp.shard, or DistributedSampler over ordered examples"
)
_USED = "use {input} where the graph does"
_ROWS_FIRST = "permute images as the graph has them: rows, then columns"
_NOT_FLIPPED = "check flips and the order of the channels (RGB, BGR)"

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        # tf.split and slices give contiguous pieces, DistributedSampler deals out in turn, and so does tf/models'
        # cifar10_estimator. Without batch norm the mean over all ranks is the same: it shows in losses and gradients of
        # towers.
        "order_of_examples",
        "the examples of the batch come in another order",
        {
            "dealt": Wording("the examples are dealt out in turn (rank, rank + world size, ...)", _PIECES),
            "in the ranks": Wording("the examples of the batch come in another order", _PIECES),
            "to other ranks": Wording("the examples of the batch come in another order and to other ranks", _PIECES),
        },
        proof=Proof.NUMBERS | Proof.RERUN,
        specificity=GENERAL,
        traits=Trait.FIRST_LAYERS | Trait.OTHER_EXAMPLES,
    ),
    CauseInfo(
        "repeated_examples",
        "some examples of the batch are not read, others twice",
        {
            "": Wording(
                "{missing} of {examples} examples of the batch are not read, and others twice",
                "read every example once: check sampling with replacement, padding of the last batch, and drop_last",
            ),
        },
        proof=Proof.NUMBERS,
        specificity=GENERAL,
        traits=Trait.FIRST_LAYERS | Trait.OTHER_EXAMPLES,
    ),
    CauseInfo(
        # As where every rank's sampler is that of rank 0.
        "other_shard",
        "a rank reads the shard of another tower",
        {
            "one": Wording("every rank reads the shard of tower {tower}", _OWN_SHARD),
            "exchanged": Wording("the ranks read each other's shards", _OWN_SHARD),
        },
        proof=Proof.NUMBERS,
        traits=Trait.FIRST_LAYERS | Trait.OTHER_EXAMPLES | Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        # A run with the batch before has to show it: none of its examples are among this step's.
        "stale_batch",
        "the port works on the batch of the step before",
        {
            "": Wording(
                "the port works on the batch of the step before",
                "use the batch of this step: check prefetching and where next() is called",
            ),
        },
        proof=Proof.RERUN,
        traits=Trait.FIRST_LAYERS,
    ),
    CauseInfo(
        "input_ignored",
        "the port does not use one of its inputs",
        {
            "whole": Wording("the port does not use {input}", _USED),
            "read": Wording(
                "the port does not use {input}, it takes {value:g} for all its numbers in front of {layer}{where}",
                _USED,
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED | Proof.RERUN,
    ),
    CauseInfo(
        "input_scale",
        "an input is multiplied by another factor",
        {
            "power": Wording("the port multiplies {input} by {inverse}", "scale the inputs once, where the graph does"),
            "read": Wording("the port multiplies {input} by {factor:.9g} in front of {layer}{where}", _READ),
            "read, and shift": Wording(
                "the port multiplies {input} by {factor:.9g} and adds {shift:.9g} to it in front of {layer}{where}",
                _READ,
            ),
            "factor": Wording("the port multiplies {input} by {factor:.6g}", _READ),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
        traits=Trait.FIRST_LAYERS,
    ),
    CauseInfo(
        "input_shift",
        "a constant is added to an input",
        {
            "read": Wording("the port adds {shift:.9g} to {input} in front of {layer}{where}", _READ),
            "mean": Wording(
                "the port adds {shift:.6g} to {input}", "centre the inputs as the graph does, on the same mean"
            ),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
        traits=Trait.FIRST_LAYERS,
    ),
    CauseInfo(
        "transposed_input",
        "the axes of an input are exchanged",
        {
            "layer": Wording("rows and columns of what goes into {layer} are exchanged in the candidate", _ROWS_FIRST),
            "read": Wording("the port exchanges rows and columns of {input} in front of {layer}{where}", _ROWS_FIRST),
            "image": Wording(
                "the port exchanges height and width of {input}",
                "check the order of the axes where the port reads its images",
            ),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
        traits=Trait.FIRST_LAYERS | Trait.INPUT_LAYOUT,
    ),
    CauseInfo(
        "reversed_input",
        "an input is reversed along an axis",
        {
            "axis": Wording("the port reverses axis {axis} of {input}", _NOT_FLIPPED),
            "read": Wording("the port reverses {axis} of {input} in front of {layer}{where}", _NOT_FLIPPED),
            "product": Wording("{layer} takes what goes in backwards in the candidate", "leave out the flip"),
            "steps": Wording(
                "{layer}: what goes in is read backwards in the candidate, from its last step to its first",
                "leave out the flip",
            ),
            "sequence": Wording("the port reads {input} backwards", _SEQUENCES),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
        traits=Trait.FIRST_LAYERS | Trait.INPUT_LAYOUT,
    ),
    CauseInfo(
        "rolled_input",
        "an input is shifted along an axis",
        {
            "": Wording("the port reads {input} {late} by one, what falls off coming back in", _SEQUENCES),
        },
        proof=Proof.RERUN,
        traits=Trait.FIRST_LAYERS | Trait.INPUT_LAYOUT,
    ),
    CauseInfo(
        # Measured: torch's padding=(k - 1) // 2 is SAME in 50 of 72 cases of size, kernel and stride. With stride 2 and
        # an even size SAME pads at the end alone.
        "shifted_image",
        "a convolution sees its image shifted: padding on the wrong side",
        {
            "": Wording(
                "the port's convolution sees the image shifted by {down:+d}, {right:+d}: padding on the wrong side",
                "pad as SAME does: evenly, the odd one at the end (torch_ddp.like_tf.Conv2d, or pad_same before it)",
            ),
        },
        proof=Proof.RERUN,
        traits=Trait.FIRST_LAYERS,
    ),
    CauseInfo(
        # No layer reads labels: with these wrong all outputs are right.
        "labels_shifted",
        "the labels are shifted against the reference's",
        {
            "classes": Wording("the port shifts {input} by {by:+d}", "count the classes from where the graph does"),
            "form": Wording("the loss is {what}", "take the labels from where the graph takes them"),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED | Proof.RERUN,
        traits=Trait.BEHIND_LAYERS,
    ),
)
