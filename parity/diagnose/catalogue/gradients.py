"""The causes of the gradients of a tower."""

from parity.diagnose.catalogue.info import GENERAL, PLACE, CauseInfo, Proof, Trait, Wording

# Loss scales are powers of two, which multiply without rounding.
_OF_TWO = (
    "look for what multiplies the loss by a power of two: a loss scale that is not taken out, or a sum over that many"
)

_PADDING = "leave out padding_idx, which freezes its row; TensorFlow's embedding_lookup trains all rows"

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "rows_without_gradient",
        "no gradient reaches some rows of an embedding",
        {
            "": Wording("no gradient reaches row {rows} of {name}", _PADDING),
            "padding_idx": Wording("no gradient reaches the row of padding_idx at {lines}", _PADDING),
        },
        proof=Proof.NUMBERS | Proof.RERUN,
        traits=Trait.BESIDE_A_LOSS | Trait.NO_GRADIENT,
    ),
    CauseInfo(
        "zero_gradient",
        "no gradient reaches a weight",
        {
            "": Wording(
                "no gradient reaches {where}",
                "look for detach(), no_grad(), requires_grad = False or .data between this variable and the loss",
            ),
            "in towers": Wording(
                "no gradient reaches {where} in tower {towers}",
                (
                    "look for a condition on the rank, or on what it reads, around detach(), no_grad(), requires_grad or a "
                    "layer: each rank has to train what the reference's tower trains"
                ),
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.NO_GRADIENT,
    ),
    CauseInfo(
        "detached",
        "the port keeps gradients from passing where they pass in the reference: detach, no_grad, .data, autograd.grad",
        {
            "": Wording(
                "{kinds} keeps gradients from passing at {lines}", "leave it out: in the graph the gradient passes here"
            ),
            "gradient": Wording(
                "gradients that are made without a graph of their own keep gradients from passing at {lines}",
                "call torch.autograd.grad with create_graph=True: in the graph the gradient passes here",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        "not_detached",
        "gradients pass in the port where the reference stops them",
        {
            "": Wording(
                "gradients pass in the port that the reference stops, behind {layer}",
                "detach() there, as the graph's stop_gradient does",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        # Sums in place of means, scales that are left in, other reductions: most of what is named before it is a factor
        # too.
        "gradient_factor",
        "gradients are off by a factor",
        {
            "update": Wording("the update's gradient is off by the factor {factor:.6g}", "take it out"),
            "power of two": Wording("gradients off by the factor {factor:.6g}", _OF_TWO),
            "towers": Wording(
                "gradients off by the factor {factor:.6g}", "divide by the number of towers once: DDP does it already"
            ),
            "gradients": Wording(
                "gradients off by the factor {factor:.6g}",
                "look for what multiplies the loss, or this variable's gradient, by that factor",
            ),
            "loss, power of two": Wording("the loss is off by the factor {factor:.6g}", _OF_TWO),
            "loss": Wording(
                "the loss is off by the factor {factor:.6g}",
                "look for what multiplies or divides the loss by that factor",
            ),
            "in place of clipping": Wording("gradients off by the factor {factor:.6g}", "take it out"),
            "data": Wording(
                "what data bring to the loss is off by the factor {factor:.6g}",
                "look for what multiplies or divides the loss by that factor",
            ),
        },
        proof=Proof.NUMBERS | Proof.RECOMPUTED,
        specificity=GENERAL,
        traits=Trait.BEHIND_LAYERS | Trait.FACTOR_OF_LOSSES,
    ),
    CauseInfo(
        "sign",
        "the gradient or the update has the wrong sign",
        {
            "gradient": Wording("the gradient has the wrong sign", "minimise the loss, not its negative"),
            "update": Wording("the update goes uphill", "minimise: check maximize=True and the loss's sign"),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # torch adds to .grad until it is cleared; tf.gradients computes anew in every run.
        "stale_gradient",
        "the gradient of an earlier step is still in it",
        {
            "": Wording(
                "the gradient of an earlier step is still in it",
                "call optimizer.zero_grad() before every backward pass, unless the graph accumulates too",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.BESIDE_A_LOSS,
    ),
    CauseInfo(
        "not_finite",
        "one side gives NaN or infinity",
        {
            "": Wording(
                "{told} at step {step}", "look for log, sqrt, exp or a division of what can be 0, negative or large"
            ),
            "loss": Wording(
                "{told} at step {step}",
                "look for log, sqrt, exp or a division of what can be 0, negative or large, and for a mean over nothing",
            ),
            # With a gradient of 0 coming in, that of sqrt at 0 is 0 in TensorFlow and NaN in torch (measured on 1.15,
            # 2.21 and 2.13): where(x > 0, sqrt(x), 0) trains there and not here.
            "tower_grad": Wording(
                "{told} at step {step}",
                "look for sqrt, norm, log or a division at exactly 0, and for where() around them, which does "
                "not stop a gradient",
            ),
        },
        proof=Proof.NUMBERS,
        specificity=PLACE,
    ),
    CauseInfo(
        # float16 ends at 65504: TensorFlow's mean of 70 000 ones is NaN in it (measured), torch's is 1.
        "overflow",
        "a value overflows in half precision",
        {
            "tensor": Wording(
                "{key} overflows in {dtype}",
                (
                    "compute that sum or product in float32 (amp.float_function), or scale it before, or use "
                    'half_dtype = "bfloat16"'
                ),
            ),
            "gradients": Wording(
                "the gradients overflow at every loss scale",
                (
                    "look for an op whose gradient is infinite (sqrt at 0, log, norm), or record more steps: the "
                    "scale halves at each"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
)
