"""The causes of layers: their functions, norms, kernels, windows and images."""

from parity.diagnose.catalogue.info import GENERAL, OF_A_WEIGHT, OTHER_RULE, PLACE, CauseInfo, Proof, Trait, Wording

_ACTIVATION = "use the activation of the graph on both sides"
_NORM = "epsilon and statistics as in the graph: tf.layers.batch_normalization has 1e-3, torch 1e-5"
_POOL = "pool as the graph does: max_pool or avg_pool on both sides"
_COMPUTED_SO = "{layer} is computed {words} in the candidate"
_DIVIDES = (
    "the {what} {name} divides by {rule} and the epsilon {epsilon:.6g} in the candidate, by {own_rule} and "
    "{own_epsilon:.6g} in the reference"
)


ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "activation_function",
        "another activation function, one more, or one that is missing",
        {
            "output": Wording(
                "{tensor} goes through {function} in the {who}, through {name} on the other side",
                _ACTIVATION,
            ),
            "extra": Wording(
                "what goes into {layer} passes {calls} in the candidate, and goes in as it is in the reference: "
                "a {function}",
                _ACTIVATION,
            ),
            "layer": Wording(
                "{layer} goes through {other} in the candidate, through {function} in the reference",
                _ACTIVATION,
            ),
            "weight": Wording(OF_A_WEIGHT, "make of the weight what the graph makes of it"),
            "rule": Wording(OTHER_RULE, "use the activation of the graph on both sides, with its slope"),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
        specificity=GENERAL,
        traits=Trait.OF_AN_OP,
        implies=("rectifier",),  # it names the function that lets negative values through
    ),
    CauseInfo(
        "activation_factor",
        "an output is off by a factor",
        {
            "": Wording(
                "{tensor} is off by the factor {factor:.6g}",
                "look for a scale of the input (1/255, standardisation) or of this layer",
            ),
        },
        proof=Proof.NUMBERS,
        specificity=PLACE,
        traits=Trait.ONLY_ALONE,
    ),
    CauseInfo(
        # tf.nn.leaky_relu has a slope of 0.2, torch's 0.01.
        "rectifier",
        "negative values pass where the other side has a ReLU",
        {
            "": Wording(
                "the {leaking} lets negative values through where the {whose} has a ReLU",
                "use the activation of the graph: a plain ReLU on both sides, or the same negative slope",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        "bias_missing",
        "a bias is not added, or is added where the reference has none",
        {
            "layer": Wording("the bias {name} {what} in the candidate", "give the layer its bias once"),
            # The norm takes it out with the mean again: all that it moves is the moving mean.
            "before a norm": Wording(
                "the bias {name} in front of a batch norm does not count as in the reference",
                "give the layer in front of the norm its bias once, or leave it out on both sides",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        "gamma_missing",
        "batch norm does not multiply by gamma",
        {
            "": Wording(
                "the candidate's batch norm does not multiply by {gamma}",
                "normalise with affine=True, or scale=True, as the graph does",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "normalisation",
        "a norm divides by something else: epsilon, variance, axes",
        {
            "": Wording(
                "batch norm normalises {tensor} by {hint}",
                (
                    "epsilon as in the graph (tf.layers 1e-3, torch 1e-5; below 1.001e-5 TensorFlow 1.15 raises a "
                    "fused one, not 2: fused_epsilon_floor=0 of torch_ddp.like_tf's); training mode on both sides; "
                    "the statistics of one shard"
                ),
            ),
            "weight": Wording(OF_A_WEIGHT, "normalise the weight where the graph does, and nowhere else"),
            "divisor": Wording(_DIVIDES, _NORM),
            "rule": Wording(OTHER_RULE, "divide by the number of values, as tf.nn.moments does: unbiased=False"),
        },
        proof=Proof.NUMBERS | Proof.RECOMPUTED,
        specificity=GENERAL,
    ),
    CauseInfo(
        "epsilon",
        "the epsilon of a norm",
        {
            "": Wording(_DIVIDES, _NORM),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "border",
        "an output differs at the border of the image only",
        {
            "": Wording(
                "{tensor} differs at the border of the image",
                "pad as SAME does: with zeros, the odd one at the end (torch_ddp.like_tf.Conv2d, MaxPool2d)",
            ),
        },
        proof=Proof.NUMBERS,
        specificity=PLACE,
    ),
    CauseInfo(
        "padding",
        "an image is padded by other amounts or on other sides",
        {
            # Measured: where kernel minus stride is odd, ConvTranspose2d's own padding gives the shape of SAME and
            # values 150 % off.
            "transposed": Wording(
                "{layer} cuts off {there} of what its windows spread in the candidate, {here} in the reference",
                "cut as SAME does: torch_ddp.like_tf.ConvTranspose2d",
            ),
            "": Wording(
                "{layer} pads {there} of the image in the candidate, {here} in the reference",
                "pad as SAME does: evenly, the odd one at the end (torch_ddp.like_tf.Conv2d and MaxPool2d, or "
                "pad_same before them)",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "pooling",
        "another kind of pooling, another window, or another position of a sequence",
        {
            "average": Wording("the {averaging} averages where the {largest} takes the largest of each window", _POOL),
            "kind": Wording(
                "{layer} takes the {other} of each window in the candidate, the {own} in the reference",
                _POOL,
            ),
            "position": Wording(
                "the candidate takes other positions of the sequences in {name}: {how}",
                "take the position that the graph takes: of each sequence's end, of a token, or the last",
            ),
            # tf.nn.avg_pool divides by what is inside of the image, torch by the whole window unless told: 89 % off
            # (measured).
            "padding counted": Wording(_COMPUTED_SO, "count_include_pad=False"),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        # With TensorFlow's alpha as it is torch's is 8e-4 off (measured).
        "response_normalisation",
        "local response normalisation by other numbers",
        {
            "": Wording(
                "local response normalisation by other numbers: {what}",
                (
                    "torch divides alpha by the number of channels: use "
                    "torch_ddp.like_tf.local_response_normalization with the graph's depth_radius, bias, alpha and "
                    "beta"
                ),
            ),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE,
    ),
    CauseInfo(
        "transposed_kernel",
        "a kernel is read with its axes exchanged",
        {
            "square": Wording(
                "the square kernel {variable} is used transposed",
                (
                    'map it the other way round: [mapping] … = {{ to = "{variable}", transform = … }} (identity '
                    "or transpose)"
                ),
            ),
            "product": Wording(
                "{layer} has its matrix transposed in the candidate", "carry it over transposed, as Linear has it"
            ),
            "windows": Wording(_COMPUTED_SO, "carry the kernel over with its rows and columns as they are"),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
    ),
    CauseInfo(
        "dilation",
        "a convolution is dilated otherwise",
        {
            "": Wording(
                "{layer} has its kernel dilated by {other} in the candidate, by {own} in the reference",
                "give the layer the graph's dilation_rate",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        # TensorFlow's default reads at target * scale, a mode that torch does not have: 98 % off without aligned
        # corners (measured).
        "resizing",
        "an image is resized by another rule: aligned corners, half pixels, nearest",
        {
            "rule": Wording(OTHER_RULE, "resize as the graph does: align_corners and the mode of torch's interpolate"),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "channel_order",
        "channels are taken or concatenated in another order",
        {
            "": Wording(
                "{name} takes channels in another order: the candidate's are the reference's {order}",
                "join and split channels in the order of the graph: the arguments of torch.cat",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        traits=Trait.SAME_NUMBERS,
    ),
    CauseInfo(
        "moved_values",
        "the numbers that go into an op stand in other places: a reshape, transpose or split before it",
        {
            "op": Wording(
                "the numbers that go into {kind} stand in other places in the port: {lines}",
                "reshape, transpose, split and join as the graph does, axis for axis",
            ),
            "steps": Wording(
                "{layer}: what goes in is cut into sequences as if its steps lay one behind the other: they are "
                "of other examples",
                "reshape to examples first, then steps",
            ),
            "of a sequence": Wording(
                "{layer} takes the numbers of {sequence} in other places in the port, as {other} has them",
                "reshape, transpose, split, pad and concatenate as the graph does, axis for axis",
            ),
            "form": Wording(
                "the labels and what they are compared with are flattened in different orders: the loss is {what}",
                "flatten both in one order, time first or examples first",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        specificity=PLACE,
        traits=Trait.OF_AN_OP | Trait.SAME_NUMBERS,
    ),
    CauseInfo(
        "gate_halves",
        "the halves of a gated unit are exchanged",
        {
            "rule": Wording(OTHER_RULE, "take the halves in the graph's order: torch's glu gates with the second"),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "transposed_product",
        "a matrix goes into a product transposed",
        {
            "rule": Wording(OTHER_RULE, "multiply as the graph does, with its transpose_a and transpose_b"),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        # The layer_norm of contrib and slim goes over all axes but the batch's, nn.LayerNorm(channels) over one: 37 %
        # off (measured).
        "normalised_axis",
        "a norm goes over other axes",
        {
            "": Wording(
                "{layer} normalises {other} in the candidate, {own} in the reference",
                "take the norm of the graph: BatchNorm, InstanceNorm and LayerNorm go over other axes",
            ),
            "weight": Wording(
                OF_A_WEIGHT,
                "normalise over the axes of the weight that the graph does: torch's weights lie in another order",
            ),
            "rule": Wording(OTHER_RULE, "normalise over the graph's axis: dim of torch.nn.functional.normalize"),
        },
        proof=Proof.RECOMPUTED,
    ),
)
