"""The causes of precision, mixed precision among it."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Trait, Wording

_FULL_PRECISION = (
    "look for half(), bfloat16(), autocast or a cast before communication; levels 1 and 2 need full precision"
)

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "reduced_precision",
        "something goes through a narrower float",
        {
            "tensor": Wording("{tensor} goes through {name} in the {whose}", _FULL_PRECISION),
            "gradients": Wording("the gradients go through {narrow} in the candidate", _FULL_PRECISION),
            "part": Wording(
                "part of what leads to {key} goes through a narrower float, {name} by the size of it",
                (
                    "look for half(), bfloat16(), float(), autocast or a cast of the inputs; levels 1 and 2 need "
                    "full precision"
                ),
            ),
        },
        proof=Proof.NUMBERS | Proof.RERUN,
        traits=Trait.BESIDE_A_LOSS,
        # What is rounded hides smaller differences of any other cause.
        complete=False,
    ),
    CauseInfo(
        # Apex's O2 leaves in float32 only batch norms with weights: convert_network asks for affine.
        "batch_norm_in_half",
        "batch norm runs in half precision",
        {
            "": Wording(
                "batch norm runs in {dtype}: {tensor} is kept in it",
                "keep batch norm in float32 (keep_batchnorm_fp32): give it weights (affine), or use opt_level O1",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "half_optimizer",
        "the optimizer's arithmetic is in half precision",
        {
            "": Wording(
                "the optimizer's own arithmetic is in {dtype}", "use O2, which keeps float32 masters and float32 slots"
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Half precision keeps 11 bits: an update below 2^-12 of a weight is rounded away.
        "master_weights",
        "half-precision weights are updated, not float32 masters",
        {
            "": Wording(
                "the update is made to {dtype} weights, not to float32 masters",
                (
                    "let the optimizer step what is in its param_groups (amp.master_params), not parameters it kept "
                    "from before"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "loss_scale_left",
        "the gradients still hold the loss scale",
        {
            "": Wording(
                "the gradients still hold a loss scale of {scale:g}",
                "unscale before the update: leave amp.scale_loss first, or scaler.unscale_(optimizer)",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "loss_scale_in_clipping",
        "the gradients are clipped before the loss scale is taken out",
        {
            "": Wording(
                "the gradients are clipped before the loss scale is taken out",
                "clip after leaving amp.scale_loss, amp.master_params(optimizer)",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Apex: from 2^16, halved at every overflow, doubled after 2000 steps without one, up to 2^24.
        "loss_scale_rule",
        "the loss scale does not follow Apex's rule",
        {
            "": Wording(
                "the loss scale does not follow Apex's rule",
                "let amp.scale_loss alone move the scale, once per update, and restore it only when resuming",
            ),
        },
        proof=Proof.NUMBERS,
    ),
)
