"""The causes of moving statistics and averages of weights."""

from parity.diagnose.catalogue.info import GENERAL, CauseInfo, Proof, Wording

_AVERAGES = (
    "give ExponentialMovingAverage the graph's decay, with num_updates where the graph passes it, and update it once "
    "after every step"
)

ROWS = (
    CauseInfo(
        "batch_norm_momentum",
        "another momentum of batch norm's moving statistics",
        {
            "": Wording(
                "batch norm's momentum: the candidate's statistics move {of_new:.6g} times as far",
                (
                    "torch's momentum is the weight of the new value: 1 - TensorFlow's; or use "
                    "torch_ddp.like_tf.BatchNorm2d"
                ),
            ),
        },
        proof=Proof.NUMBERS,
        specificity=GENERAL,
    ),
    CauseInfo(
        "batch_norm_variance",
        "the moving variance takes the unbiased variance of the batch, or the biased one",
        {
            "": Wording(
                "batch norm's moving variance takes the {whose}",
                (
                    "fused batch norm moves by the unbiased variance, unfused by the biased: "
                    "torch_ddp.like_tf.BatchNorm2d(fused=…)"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "statistics_frozen",
        "the moving statistics never move",
        {
            "": Wording(
                "the moving statistics never move",
                "train in training mode, with a momentum; in the towers: run UPDATE_OPS",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "statistics_of_another_tower",
        "the statistics that survive are those of another tower",
        {
            "": Wording(
                "the statistics that survive are {survivor}, not {wanted}",
                "keep the statistics of the rank that stands for the surviving tower: rank 0 under DDP's broadcast",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        "average_decay",
        "the averages of the weights decay at another rate",
        {
            "still": Wording("the averages of the weights stay as they were", _AVERAGES),
            "other": Wording(
                "the averages of the weights decay by {got:.6g} where the reference's decay by {wanted:.6g}", _AVERAGES
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "stale_average",
        "the averages move towards the weights of the step before",
        {
            "": Wording(
                "the averages move towards the weights of the step before",
                "move the averages after the optimizer's step",
            ),
        },
        proof=Proof.NUMBERS,
    ),
)
