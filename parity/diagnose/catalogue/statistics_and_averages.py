"""The causes of moving statistics and averages of weights."""

from parity.diagnose.catalogue.info import GENERAL, CauseInfo, Proof, Wording

_AVERAGES = (
    "give ExponentialMovingAverage the graph's decay, with num_updates where the graph passes it, and update it once "
    "after every step"
)

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        # TensorFlow's is the weight of the old value (0.99, slim 0.999), torch's that of the new one (0.1).
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
        # tf.layers takes the fused kernel for images, which moves by the variance over N - 1, and plain ops for [batch,
        # channels], by that over N: 4.4e-4 apart at N = 200, 3e-3 at 32 (measured).
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
        # Of 25 legacy codebases 9 run the first tower's updates, 2 the last one's, and 11 all of them in no order.
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
        # With num_updates n TensorFlow's decay is min(decay, (1 + n) / (10 + n)).
        "average_decay",
        "the averages of the weights decay at another rate",
        {
            "still": Wording("the averages of the weights stay as they were", _AVERAGES),
            "other": Wording(
                "the averages of the weights decay by {got:.6g} where the reference's decay by {wanted:.6g}", _AVERAGES
            ),
            "copy": Wording(
                "the copy that follows the weights moves {of_new:.6g} times as far as the reference's",
                "have it keep as much of itself as the graph's does: a decay is the weight of the old value",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Where a script groups averages and update in no order either may come first: on 1.15 the average took the old
        # weight in all of 40 runs.
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
