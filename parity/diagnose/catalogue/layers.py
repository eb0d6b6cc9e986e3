"""The causes of layers and ops."""

from parity.diagnose.catalogue.info import GENERAL, PLACE, CauseInfo, Trait, Wording

# What one change of an op proves, whatever that op belongs to.
_AS_THE_GRAPH = "have the port compute what the graph computes there"
OF_ANY = {
    "one change": Wording("the port {there}, where the reference {here}: {port} / {graph}", _AS_THE_GRAPH),
    "choice": Wording(
        "the port's choice changes what the reference's leaves as it is: {port} / {graph}", _AS_THE_GRAPH
    ),
    "sooner": Wording(
        "the port does {dropped} sooner than the reference, in front of other ops: {port} / {graph}", _AS_THE_GRAPH
    ),
    "later": Wording(
        "the port does {dropped} later than the reference, behind other ops: {port} / {graph}", _AS_THE_GRAPH
    ),
    "added": Wording("the port has {dropped} where the reference has none: {port} / {graph}", _AS_THE_GRAPH),
}

ROWS = (
    CauseInfo(
        "activation_function",
        "another activation function, one more, or one that is missing",
        {
            "output": Wording(
                "{tensor} goes through {function} in the {who}, through {name} on the other side",
                "use the activation of the graph on both sides",
            ),
            "extra": Wording("{what}: a {function}", "use the activation of the graph on both sides"),
            "layer": Wording(
                "{layer} goes through {other} in the candidate, through {function} in the reference",
                "use the activation of the graph on both sides",
            ),
        },
        specificity=GENERAL,
        traits=Trait.OF_AN_OP,
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
        specificity=PLACE,
        traits=Trait.ONLY_ALONE,
    ),
    CauseInfo(
        "rectifier",
        "negative values pass where the other side has a ReLU",
        {
            "": Wording(
                "the {leaking} lets negative values through where the {whose} has a ReLU",
                "use the activation of the graph: a plain ReLU on both sides, or the same negative slope",
            ),
        },
        traits=Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        "bias_missing",
        "a bias is not added, or is added where the reference has none",
        {
            "layer": Wording("the bias {name} {what} in the candidate", "give the layer its bias once"),
            "before a norm": Wording(
                "the bias {name} in front of a batch norm does not count as in the reference",
                "give the layer in front of the norm its bias once, or leave it out on both sides",
            ),
        },
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
        },
        specificity=GENERAL,
    ),
    CauseInfo("epsilon", "the epsilon of a norm", {}),
    CauseInfo(
        "border",
        "an output differs at the border of the image only",
        {
            "": Wording(
                "{tensor} differs at the border of the image",
                ("pad as SAME does: with zeros, the odd one at the end (torch_ddp.like_tf.Conv2dSame, MaxPool2dSame)"),
            ),
        },
        specificity=PLACE,
    ),
    CauseInfo("padding", "an image is padded by other amounts or on other sides", {}),
    CauseInfo(
        "pooling",
        "another kind of pooling, another window, or another position of a sequence",
        {
            "average": Wording(
                "the {averaging} averages where the {largest} takes the largest of each window",
                "pool as the graph does: max_pool or avg_pool on both sides",
            ),
            "kind": Wording("{what} reference", "pool as the graph does: max_pool or avg_pool on both sides"),
        },
    ),
    CauseInfo(
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
        },
    ),
    CauseInfo("dilation", "a convolution is dilated otherwise", {}),
    CauseInfo("resizing", "an image is resized by another rule: aligned corners, half pixels, nearest", {}),
    CauseInfo(
        "channel_order",
        "channels are taken or joined in another order",
        {
            "": Wording(
                "{name} takes channels in another order: the candidate's are the reference's {order}",
                "join and split channels in the order of the graph: the arguments of torch.cat",
            ),
        },
    ),
    CauseInfo(
        "moved_values",
        "the numbers that go into an op stand in other places: a reshape, transpose or split before it",
        {},
        specificity=PLACE,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo("gate_halves", "the halves of a gated unit are exchanged", {}),
    CauseInfo("transposed_product", "a matrix goes into a product transposed", {}),
    CauseInfo(
        "normalised_axis",
        "a norm goes over other axes",
        {
            "": Wording(
                "{layer} normalises {other} in the candidate, {own} in the reference",
                "take the norm of the graph: BatchNorm, InstanceNorm and LayerNorm go over other axes",
            ),
        },
    ),
    CauseInfo("reduction", "another reduction, or over other axes", {}, traits=Trait.OF_AN_OP),
    CauseInfo(
        "other_rows",
        "other rows of a table are looked up",
        {
            "": Wording(
                "the candidate looks up other rows of {name}: {how}",
                "compute the indices as the graph does: its offsets, hash and modulus",
            ),
        },
    ),
    CauseInfo(
        "scale",
        "what goes into a layer is multiplied by another number",
        {
            "": Wording(
                "{layer} multiplies by {other} in the candidate, by {own} in the reference",
                "scale as the graph does: attention by the square root of the size of one head",
            ),
        },
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "extra_scale",
        "what goes into a layer is multiplied where the reference takes it as it is",
        {
            "": Wording("{what}: multiplied by {factor:.6g}", "scale what goes into it as the graph does"),
        },
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "op_left_out",
        "the port leaves out an operation: a mask, a bias, a residual",
        {
            "": Wording(
                "the candidate leaves out {left_out} ({kind})",
                "do what the graph does there: add the mask, the bias, the residual",
            ),
        },
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "mask",
        "another mask is added: inverted, along another axis",
        {
            "": Wording(
                "the candidate adds the mask of {masked} {words}",
                "mask what the graph masks: keys, with [:, None, None, :]",
            ),
        },
    ),
    CauseInfo(
        "softmax_axis",
        "a softmax goes over another axis",
        {
            "": Wording(
                ("the softmax of {layer} goes over axis {other} in the candidate, over axis {axis} in the reference"),
                "name the axis of the graph: dim=-1 where tf.nn.softmax has none",
            ),
        },
    ),
    CauseInfo(
        "softmax_scale",
        "what goes into a softmax is scaled otherwise",
        {
            "": Wording(
                "what goes into the softmax of {layer} is {factor} times as large in the candidate",
                "divide the scores once, by the square root of the size of a head where the graph does",
            ),
        },
    ),
    CauseInfo("forget_bias", "another forget bias of an LSTM, or one that is added to another gate", {}),
    CauseInfo(
        "recurrent_rule",
        "a recurrent cell by another rule: reset before or after the product, update gate, activation",
        {},
    ),
    CauseInfo("sequence_lengths", "lengths of sequences are ignored, or another step is taken for the last", {}),
    CauseInfo("initial_state", "a recurrent layer begins with another state, or does not begin anew", {}),
    CauseInfo(
        "other_operation",
        "what goes into the port's line is right, and what comes out is not: it computes another thing",
        {},
        specificity=PLACE,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "dropout_active",
        "dropout is active on one side only",
        {
            "output": Wording(
                "dropout is active in the {whose} only, keeping {kept:.3g}",
                "switch it off on both sides, or record the masks and replay them",
            ),
            "before pooling": Wording(
                "dropout is active in the {whose} only, keeping {kept:.3g}, before a pooling layer",
                "switch it off on both sides, or record the masks and replay them",
            ),
            "evaluation": Wording(
                "the port drops units by {names} in evaluation, where the towers keep all",
                "apply the mask in training only: if self.training, as the towers do with training=True",
            ),
        },
        specificity=GENERAL,
        traits=Trait.FITS_WHAT_IS_LEFT,
    ),
    CauseInfo(
        "random_draw",
        "the port draws random numbers of which the reference knows nothing",
        {
            "": Wording(
                "the port draws random numbers on the way to {key}, of which the reference knows nothing",
                (
                    "take the draw out, or have the reference make it: dropout, noise, augmentation, values made "
                    "anew in forward"
                ),
            ),
        },
        refined_by=("dropout_active",),
    ),
    CauseInfo(
        "not_repeatable",
        "the port gives something else when the same step is run again",
        {
            "": Wording(
                "the port does not repeat itself: the same step once more gives another {key}",
                (
                    "look for what the port keeps between its calls beside weights and optimizer: counters, caches, "
                    "plain attributes"
                ),
            ),
        },
    ),
)
