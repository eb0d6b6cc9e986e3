"""The causes of evaluation."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Wording

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "batch_statistics_in_evaluation",
        "the batch's statistics are used in evaluation",
        {
            "": Wording(
                "batch statistics instead of moving statistics in evaluation: {names}",
                (
                    "normalise with the moving statistics after training: hand self.training on to F.batch_norm, "
                    "and keep track_running_stats"
                ),
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        "train_mode_in_evaluation",
        "the port evaluates in train mode",
        {
            "tensor": Wording(
                "train mode in evaluation: the port takes {names} in, which the towers leave out",
                "take {names} in training only: if self.training, as the towers do with training=True",
            ),
            "eval ignored": Wording(
                "train mode in evaluation: model.eval() changes nothing in the port",
                (
                    "make it depend on self.training what training alone does, such as dropout(x, "
                    "training=self.training)"
                ),
            ),
            "random": Wording(
                "train mode in evaluation: the port draws random numbers",
                "hand self.training on to dropout: F.dropout(x, p, training=self.training)",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        # tf.layers.batch_normalization has training=False for a default, slim.batch_norm is_training=True.
        "towers_in_train_mode",
        "the towers normalise with the batch's statistics in inference",
        {
            "": Wording(
                "the towers normalise with the batch's statistics in inference",
                "hand the tower's training=False on to its batch norm",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        "averages_not_used",
        "the averages of the weights are not used in evaluation",
        {
            "": Wording(
                "the averages of the weights are not used in evaluation",
                (
                    "let the evaluation read the parameters anew: look for weights that are cached, folded or "
                    "copied by eval()"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
)
