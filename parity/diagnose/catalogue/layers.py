"""The causes of layers and ops."""

from parity.diagnose.catalogue.info import GENERAL, PLACE, CauseInfo, Proof, Trait, Wording

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
    "computes": Wording(
        "the port computes {other} where the reference computes {own}: {port} / {graph}{where}", _AS_THE_GRAPH
    ),
    "broadcast": Wording(
        "the port broadcasts {told} to {got}, where the reference has {wanted}: {lines}",
        "take the axis of size 1 away before: squeeze(-1), or keep it on both",
    ),
    "added": Wording("the port has {dropped} where the reference has none: {port} / {graph}", _AS_THE_GRAPH),
}

_SWITCHED_OFF = "switch it off on both sides, or record the masks and replay them"
_ACTIVATION = "use the activation of the graph on both sides"
_CELL = "compute the cell as the graph does"

_NORM = "epsilon and statistics as in the graph: tf.layers.batch_normalization has 1e-3, torch 1e-5"

_LENGTHS = "give the layer the lengths: pack the sequence, or freeze the state and zero the outputs behind the end"

ROWS = (
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
            "weight": Wording(
                "of {weight} the port {there}, where the reference {here}: {lines}",
                "make of the weight what the graph makes of it",
            ),
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "use the activation of the graph on both sides, with its slope",
            ),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
        proof=Proof.NUMBERS,
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
        proof=Proof.NUMBERS,
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
            "weight": Wording(
                "of {weight} the port {there}, where the reference {here}: {lines}",
                "normalise the weight where the graph does, and nowhere else",
            ),
            "divisor": Wording(
                "the {what} {name} divides by {rule} and the epsilon {epsilon:.6g} in the candidate, by "
                "{own_rule} and {own_epsilon:.6g} in the reference",
                _NORM,
            ),
        },
        proof=Proof.NUMBERS | Proof.RECOMPUTED,
        specificity=GENERAL,
    ),
    CauseInfo(
        "epsilon",
        "the epsilon of a norm",
        {
            "": Wording(
                "the {what} {name} divides by {rule} and the epsilon {epsilon:.6g} in the candidate, by "
                "{own_rule} and {own_epsilon:.6g} in the reference",
                _NORM,
            ),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "border",
        "an output differs at the border of the image only",
        {
            "": Wording(
                "{tensor} differs at the border of the image",
                ("pad as SAME does: with zeros, the odd one at the end (torch_ddp.like_tf.Conv2d, MaxPool2d)"),
            ),
        },
        proof=Proof.NUMBERS,
        specificity=PLACE,
    ),
    CauseInfo(
        "padding",
        "an image is padded by other amounts or on other sides",
        {
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
            "average": Wording(
                "the {averaging} averages where the {largest} takes the largest of each window",
                "pool as the graph does: max_pool or avg_pool on both sides",
            ),
            "kind": Wording(
                "{layer} takes the {other} of each window in the candidate, the {own} in the reference",
                "pool as the graph does: max_pool or avg_pool on both sides",
            ),
            "padding counted": Wording("{layer} is computed {words} in the candidate", "count_include_pad=False"),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
            "windows": Wording(
                "{layer} is computed {words} in the candidate",
                "carry the kernel over with its rows and columns as they are",
            ),
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
        "resizing",
        "an image is resized by another rule: aligned corners, half pixels, nearest",
        {
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "resize as the graph does: align_corners and the mode of torch's interpolate",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "channel_order",
        "channels are taken or joined in another order",
        {
            "": Wording(
                "{name} takes channels in another order: the candidate's are the reference's {order}",
                "join and split channels in the order of the graph: the arguments of torch.cat",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        specificity=PLACE,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "gate_halves",
        "the halves of a gated unit are exchanged",
        {
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "take the halves in the graph's order: torch's glu gates with the second",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "transposed_product",
        "a matrix goes into a product transposed",
        {
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "multiply as the graph does, with its transpose_a and transpose_b",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "normalised_axis",
        "a norm goes over other axes",
        {
            "": Wording(
                "{layer} normalises {other} in the candidate, {own} in the reference",
                "take the norm of the graph: BatchNorm, InstanceNorm and LayerNorm go over other axes",
            ),
            "weight": Wording(
                "of {weight} the port {there}, where the reference {here}: {lines}",
                "normalise over the axes of the weight that the graph does: torch's weights lie in another order",
            ),
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "normalise over the graph's axis: dim of torch.nn.functional.normalize",
            ),
        },
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "reduction",
        "another reduction, or over other axes",
        {
            "rule": Wording(
                "{layer}: the candidate takes {other}, the reference {own}",
                "reduce over the graph's axes, by the graph's rule",
            ),
            "steps": Wording(
                "of {sequence} the candidate takes {other}, the reference {own}", "reduce the steps as the graph does"
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "other_rows",
        "other rows of a table are looked up",
        {
            "": Wording(
                "the candidate looks up other rows of {name}: {how}",
                "compute the indices as the graph does: its offsets, hash and modulus",
            ),
        },
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "scale",
        "what goes into a layer is multiplied by another number",
        {
            "": Wording(
                "{layer} multiplies by {other} in the candidate, by {own} in the reference",
                "scale as the graph does: attention by the square root of the size of one head",
            ),
            "weight": Wording(
                "of {weight} the port {there}, where the reference {here}: {lines}",
                "multiply the weight by what the graph multiplies it by",
            ),
            "factor of a weight": Wording(
                "the port multiplies what is made of {weight} by {factor:.9g}: {lines}",
                "multiply the weight by what the graph multiplies it by",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "extra_scale",
        "what goes into a layer is multiplied where the reference takes it as it is",
        {
            "": Wording(
                "what goes into {layer} passes {calls} in the candidate, and goes in as it is in the reference: "
                "multiplied by {factor:.6g}",
                "scale what goes into it as the graph does",
            ),
            "factor of a weight": Wording(
                "the port multiplies what is made of {weight} by {factor:.9g}: {lines}",
                "multiply the weight by what the graph multiplies it by",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
            "op": Wording(
                "the port leaves out {kind}: {line}; it goes on with {onward}", "do what the graph does there"
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "softmax_axis",
        "a softmax goes over another axis",
        {
            "": Wording(
                ("the softmax of {layer} goes over axis {other} in the candidate, over axis {axis} in the reference"),
                "name the axis of the graph: dim=-1 where tf.nn.softmax has none",
            ),
            "weight": Wording(
                "of {weight} the port {there}, where the reference {here}: {lines}",
                "take the softmax over the axis that the graph takes: torch's weights lie in another order",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
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
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "forget_bias",
        "another forget bias of an LSTM, or one that is added to another gate",
        {
            "amount": Wording(
                "{layer}: the candidate adds {other:g} to the forget gate, the reference {own:g}",
                "add the graph's forget bias at run time",
            ),
            "gate": Wording(
                "{layer}: the forget bias of {own:g} is added to the {gate} gate in the candidate",
                "add it to the forget gate: gates lie in another order",
            ),
            "off": Wording(
                "the forget gate's bias is off by {amount:.6g}",
                "add the cell's forget_bias once: keep it in the frozen bias_hh and map the bias with "
                "lstm_bias(forget_bias)",
            ),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
    ),
    CauseInfo(
        "recurrent_rule",
        "a recurrent cell by another rule: reset before or after the product, update gate, activation",
        {
            "direction": Wording(
                "{layer}: the candidate goes {other}, the reference {own}", "go over the steps in the graph's direction"
            ),
            "reset": Wording(
                "{layer}: the candidate resets {other} the product with the state, the reference {own} it", _CELL
            ),
            "update gate": Wording(
                "{layer}: the update gate multiplies the {other} state in the candidate, the {own} one in the reference",
                _CELL,
            ),
            "activation": Wording(
                "{layer}: the new state goes through {other} in the candidate, through {own} in the reference", _CELL
            ),
        },
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "sequence_lengths",
        "lengths of sequences are ignored, or another step is taken for the last",
        {
            "behind the end": Wording(
                "{layer}: the candidate runs behind the end of the examples, the reference stops at {own}", _LENGTHS
            ),
            "reversed": Wording(
                "{layer}: the candidate reverses whole sequences, padding first, the reference each one within its length",
                _LENGTHS,
            ),
            "stops": Wording("{layer}: the candidate stops at {other}, the reference {own}", _LENGTHS),
            "step": Wording(
                "of {sequence} the candidate takes {other}, the reference {own}",
                "take the step that the graph takes, by the lengths",
            ),
        },
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "initial_state",
        "a recurrent layer begins with another state, or does not begin anew",
        {
            "": Wording(
                "{layer}: the candidate begins with {other} as its state, the reference with {own}",
                "begin with the graph's state",
            ),
            "emptied": Wording(
                "{layer}: the candidate's state is {other}, the reference's {own}",
                "empty the state where the graph does",
            ),
        },
        proof=Proof.RECOMPUTED,
    ),
    CauseInfo(
        "other_operation",
        "what goes into the port's line is right, and what comes out is not: it computes another thing",
        {
            "weight": Wording("of {weight} the port {there}, where the reference {here}: {lines}", _AS_THE_GRAPH),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        specificity=PLACE,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        "dropout_active",
        "dropout is active on one side only",
        {
            "output": Wording(
                "dropout is active in the {whose} only, keeping {kept:.3g}",
                _SWITCHED_OFF,
            ),
            "before pooling": Wording(
                "dropout is active in the {whose} only, keeping {kept:.3g}, before a pooling layer",
                _SWITCHED_OFF,
            ),
            "evaluation": Wording(
                "the port drops units by {names} in evaluation, where the towers keep all",
                "apply the mask in training only: if self.training, as the towers do with training=True",
            ),
            "before a layer": Wording("dropout is active in the candidate only, in front of {layer}", _SWITCHED_OFF),
        },
        proof=Proof.NUMBERS | Proof.RECOMPUTED | Proof.RERUN,
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
        proof=Proof.RERUN,
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
        proof=Proof.RERUN,
    ),
)
