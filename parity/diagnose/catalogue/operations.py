"""The causes of single operations, of recurrent layers, and of chance; and what one change of any op proves."""

from parity.diagnose.catalogue.info import GENERAL, OF_A_WEIGHT, OTHER_RULE, PLACE, CauseInfo, Proof, Trait, Wording

_SWITCHED_OFF = "switch it off on both sides, or record the masks and replay them"
_CELL = "compute the cell as the graph does"
_LENGTHS = "give the layer the lengths: pack the sequence, or freeze the state and zero the outputs behind the end"
_OF_A_SEQUENCE = "of {sequence} the candidate takes {other}, the reference {own}"
_MULTIPLIED_BY = "multiply the weight by what the graph multiplies it by"
_FACTOR_OF_A_WEIGHT = "the port multiplies what is made of {weight} by {factor:.9g}: {lines}"

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
    "computes otherwise": Wording(
        "both sides compute {own}, and the port with other settings or operands: {port} / {graph}{where}", _AS_THE_GRAPH
    ),
    "broadcast": Wording(
        "the port broadcasts {told} to {got}, where the reference has {wanted}: {lines}",
        "take the axis of size 1 away before: squeeze(-1), or keep it on both",
    ),
    "only in the port": Wording("the port has {dropped} where the reference has none: {port} / {graph}", _AS_THE_GRAPH),
}

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "reduction",
        "another reduction, or over other axes",
        {
            "rule": Wording(OTHER_RULE, "reduce over the graph's axes, by the graph's rule"),
            "steps": Wording(_OF_A_SEQUENCE, "reduce the steps as the graph does"),
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
            "weight": Wording(OF_A_WEIGHT, _MULTIPLIED_BY),
            "factor of a weight": Wording(_FACTOR_OF_A_WEIGHT, _MULTIPLIED_BY),
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
            "factor of a weight": Wording(_FACTOR_OF_A_WEIGHT, _MULTIPLIED_BY),
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
            "places": Wording(
                "the port masks other places than the reference, {count} of them: {lines}",
                "make the mask of the data as the graph makes it",
            ),
            "weight": Wording(OF_A_WEIGHT, "mask the numbers of the weight that the graph masks"),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
    ),
    CauseInfo(
        "softmax_axis",
        "a softmax goes over another axis",
        {
            "": Wording(
                "the softmax of {layer} goes over axis {other} in the candidate, over axis {axis} in the reference",
                "name the axis of the graph: dim=-1 where tf.nn.softmax has none",
            ),
            "weight": Wording(
                OF_A_WEIGHT,
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
        # BasicLSTMCell adds 1 at run time and has it in no variable: a port that carries the bias over as it is is 24 %
        # off (measured).
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
        # TensorFlow's GRUCell resets the state before its product, nn.GRU after it: 2.7 % off (measured), and no map of
        # the weights makes one of the other.
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
        # Behind an example's end TensorFlow's dynamic_rnn puts out 0 and keeps the state.
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
            "step": Wording(_OF_A_SEQUENCE, "take the step that the graph takes, by the lengths"),
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
            "weight": Wording(OF_A_WEIGHT, _AS_THE_GRAPH),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED,
        specificity=PLACE,
        traits=Trait.OF_AN_OP,
    ),
    CauseInfo(
        # tf.layers.dropout drops nothing unless training=True, slim.dropout drops unless is_training=False.
        "dropout_active",
        "dropout is active on one side only",
        {
            "output": Wording("dropout is active in the {whose} only, keeping {kept:.3g}", _SWITCHED_OFF),
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
        # No seed makes the frameworks' generators agree: what is to be compared has to be recorded and put back.
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
        # That the port draws is proven by seeds; what it draws for, the numbers of the output may tell.
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
