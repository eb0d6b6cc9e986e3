"""The causes of the loss."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Trait, Wording

_REDUCTION = "reduce the loss as the graph does: over which numbers, and divided by how many"
_COUNTS = "weigh the terms of the loss as the graph does"

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "cross_entropy",
        "another cross entropy: smoothing, classes, weights, softmax taken twice",
        {
            "": Wording("the candidate's loss has {what}", "give the port the loss of the graph"),
            "form": Wording("the loss is {what}", "give the port the graph's loss"),
        },
        proof=Proof.NUMBERS | Proof.RECOMPUTED,
        traits=Trait.BEHIND_LAYERS | Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        # tf.losses divide by the number of weights that are not 0, torch's cross entropy with weights by their sum: 40
        # % apart in one measurement, a plain mean 47 to 62 %.
        "loss_reduction",
        "the loss is reduced otherwise: sum or mean, over what, with which mask or weights",
        {
            "count": Wording(
                (
                    "the loss is off by the number of {what}, as {kind} over examples is where the reference takes "
                    "{other}"
                ),
                'give the loss the reduction of the graph: reduction="mean", or "sum"',
            ),
            "form": Wording(
                "the loss is {what}", "reduce the loss as the graph does, over what it counts, with its weights"
            ),
            "all": Wording("the loss is {share} times the reference's: {name} counts {theirs}, not {mine}", _REDUCTION),
            "several": Wording("terms of the loss are reduced otherwise in the candidate: {told}", _REDUCTION),
            "weights": Wording(
                "the candidate's loss takes {theirs} of {name}, the reference's {mine}",
                "weigh, or leave out, what the graph does",
            ),
            "one": Wording("the candidate's loss takes {theirs} of {name}, the reference's {mine}", _REDUCTION),
            "scalar": Wording("{name} counts {theirs} in the candidate's loss, {mine} in the reference's", _REDUCTION),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        # TensorFlow's CTC takes the last class for its blank, torch's the first unless told.
        "loss_function",
        "another form of loss: margin, norm, beta, CTC's blank or lengths",
        {
            "form": Wording("the loss is {what}", "give the port the graph's loss"),
            "labels": Wording(
                (
                    "the candidate's loss has other labels than the reference's: {one} counts where the reference has "
                    "{other}, or the other way round"
                ),
                "give the loss the labels that the graph compares with",
            ),
            "inverted": Wording(
                "the labels are inverted in the candidate's loss: {names} count where they do not count in the reference's",
                "compare with the labels as the graph does: what is 0 there is 1 here",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "loss_term",
        "a term of the loss is left out, added, or counts another number of times",
        {
            "added": Wording(
                "the candidate's loss has a term that the reference's has not: {names}",
                "leave that term out of the port's loss",
            ),
            "left out": Wording(
                "the candidate's loss lacks a term that the reference's has: {names}",
                "add that term to the port's loss",
            ),
            "constant": Wording(
                "the candidate adds the constant {other:.6g} to the loss, the reference {own:.6g}", _COUNTS
            ),
            "several": Wording("terms of the loss are weighed otherwise in the candidate: {told}", _COUNTS),
            "one": Wording(
                "the term {name} of the loss counts {theirs} in the candidate, {mine} in the reference", _COUNTS
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        # tf.nn.l2_loss and the regularisers of contrib and slim have the factor 1/2, tf.keras.regularizers.l2 has not.
        # All of them are in the loss and in the norm that is clipped; torch's weight_decay is in neither, and on every
        # weight of its group.
        "weight_decay",
        "weight decay or an l2 term of another size, or on other weights",
        {
            "amounts": Wording(
                "weight decay off by {amounts}", "decay what the graph decays, each variable by its coefficient, once"
            ),
            "rows": Wording(
                "the rows of {variables} decay otherwise, each by an amount of its own",
                (
                    "decay the rows that the graph decays: those that are looked up, each as often as the graph "
                    "counts it, or all"
                ),
            ),
            "norms": Wording(
                "the penalty takes the norms of the weights where the reference takes half their squares",
                "tf.nn.l2_loss is sum(w ** 2) / 2, without a root",
            ),
            "sizes": Wording(
                "the penalty takes the sizes of the weights where the reference takes none or their squares",
                "penalise what the graph penalises: l1 by sum(|w|), l2 by sum(w ** 2) / 2",
            ),
            "squares": Wording(
                "the penalty takes the squares of the weights, or none, where the reference takes their sizes",
                "penalise what the graph penalises: l1 by sum(|w|), l2 by sum(w ** 2) / 2",
            ),
            "candidate": Wording(
                "weight decay of {amount:.4g} in the {who} that the {other} does not have",
                "decay what the graph decays, once: {variables} by {amount:.4g} less in the port",
            ),
            "reference": Wording(
                "weight decay of {amount:.4g} in the {who} that the {other} does not have",
                "decay what the graph decays, once: {variables} by {amount:.4g}",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "loss_scale",
        "the loss scale is not taken out",
        {
            "": Wording(
                "the loss scale of {scale:g} is not taken out",
                "unscale before the update: scaler.unscale_, or leave amp.scale_loss before step()",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.BEHIND_LAYERS | Trait.FACTOR_OF_LOSSES,
    ),
)
