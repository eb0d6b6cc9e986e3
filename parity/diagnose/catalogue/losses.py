"""The causes of the loss."""

from parity.diagnose.catalogue.info import CauseInfo, Trait, Wording

ROWS = (
    CauseInfo(
        "cross_entropy",
        "another cross entropy: smoothing, classes, weights, softmax taken twice",
        {
            "": Wording("the candidate's loss has {what}", "give the port the loss of the graph"),
        },
        traits=Trait.BEHIND_LAYERS | Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
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
        },
    ),
    CauseInfo("loss_function", "another form of loss: margin, norm, beta, CTC's blank or lengths", {}),
    CauseInfo("loss_term", "a term of the loss is left out, added, or counts another number of times", {}),
    CauseInfo(
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
        },
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
        traits=Trait.BEHIND_LAYERS | Trait.FACTOR_OF_LOSSES,
    ),
)
