"""The causes of the optimizer's update."""

from parity.diagnose.catalogue.info import GENERAL, CauseInfo, Proof, Wording

_EVERY_UPDATE = "step the schedule after every update, as the graph's global step counts, not once per epoch"
_SCHEDULE = "give the port the learning rate of the graph, and check the schedule's unit, boundaries and ends"
_SETTING = "give the port's optimizer {wanted:.6g}"
_NO_EPSILON = "leave epsilon out, as the graph does"
_EPSILON_THERE = "add epsilon {wanted}, as torch_ddp.like_tf's optimizers do"
_STEP_COUNT = "use torch_ddp.like_tf.Adam, or restore its step count (beta powers) with its moments"
_ADAMS_EPSILON = "use torch_ddp.like_tf.Adam(epsilon={wanted:g})"
_EPSILON = "give the port's optimizer epsilon={wanted:g}"
_FTRL = "give the port's optimizer what the graph's has: torch_ddp.like_tf.Ftrl"
_OPTIMIZER = "use the optimizer of the graph: torch_ddp.like_tf has TensorFlow's"

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        # Whatever the rule, an update that is too long in one step has a rate that fits it: hence after those that say
        # more.
        "learning_rate",
        "another learning rate",
        {
            "factor": Wording(
                "learning rate off by the factor {factor:.6g}{where}",
                "give the port the learning rate of the graph, and check the schedule's unit",
            ),
            "varying": Wording(
                "the updates are off by another factor at every step{where}",
                (
                    "look for what scales the update anew in every step: a schedule of the learning rate, a "
                    "correction by its count"
                ),
            ),
            "ftrl": Wording("Ftrl's {text}", _FTRL),
            "zero": Wording("the learning rate is 0 at step {step}", _SCHEDULE),
            "of a schedule": Wording("learning rate off by the factor {factor:.6g}", _SCHEDULE),
            "up to a step": Wording(
                "another learning rate up to step {last}, and the same from step {then} on", _SCHEDULE
            ),
            "from a step": Wording("another learning rate from step {start} on", _SCHEDULE),
            "by a factor a step": Wording(
                "the learning rate changes by the factor {got:.6g} a step, the reference's by {wanted:.6g}", _SCHEDULE
            ),
            "by a step": Wording(
                "the learning rate changes by {got:.6g} a step, the reference's by {wanted:.6g}", _SCHEDULE
            ),
        },
        proof=Proof.NUMBERS,
        specificity=GENERAL,
    ),
    CauseInfo(
        # tf.train.piecewise_constant keeps the old value while step <= boundary, MultiStepLR has the new one there.
        "shifted_schedule",
        "the learning rate comes a step too early or too late",
        {
            "late": Wording(
                "the learning rate comes a step too late", "step the schedule once before the first update"
            ),
            "early": Wording(
                "the learning rate comes a step too early", "call scheduler.step() after optimizer.step()"
            ),
        },
        proof=Proof.NUMBERS,
        # The rate of another step is, step by step, another rate.
        implies=("learning_rate",),
    ),
    CauseInfo(
        # Legacy schedules count updates, tower batches (the cifar10 tutorial) or examples (youtube-8m, pointnet2).
        "slow_schedule",
        "the schedule is stepped too seldom, or not at all",
        {
            "slower": Wording(
                "the schedule runs {slower} times as slowly",
                "give the schedule the graph's number of steps, counted in updates as the graph's global step is",
            ),
            "never": Wording(
                "the learning rate stays {rate:.6g} over the {count} recorded steps, where the reference's changes",
                _EVERY_UPDATE,
            ),
            "seldom": Wording("the schedule is stepped once in {period} updates", _EVERY_UPDATE),
        },
        proof=Proof.NUMBERS,
        # The rate of another step is, step by step, another rate.
        implies=("learning_rate",),
    ),
    CauseInfo(
        # torch's dampening is not applied in the first step of a parameter, where the buffer is the gradient itself.
        "momentum",
        "another momentum, or a dampened one",
        {
            "dampened": Wording(
                "the momentum is dampened: the gradient enters the slot {factor:.6g} times",
                "TensorFlow's momentum takes the whole gradient: dampening=0, or torch_ddp.like_tf.Momentum",
            ),
            "other": Wording("the momentum is {got:.6g} where the reference has {wanted:.6g}{where}", _SETTING),
            "lost": Wording(
                "the update is plain gradient descent: the momentum is lost",
                "give the port's optimizer the momentum of the graph",
            ),
            "added": Wording(
                "the update has a momentum where the reference's is plain gradient descent",
                "give the port's optimizer the momentum of the graph: none",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "nesterov",
        "Nesterov momentum on one side only",
        {
            "": Wording(
                "Nesterov momentum in the {whose} only",
                "use_nesterov={wanted} (torch: nesterov={wanted}), as the graph has it",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "adam_beta",
        "another decay rate of Adam's moments",
        {
            "beta1": Wording("beta1 is {got:.6g} where the reference has {wanted:.6g}{where}", _SETTING),
            "beta2": Wording("beta2 is {got:.6g} where the reference has {wanted:.6g}{where}", _SETTING),
        },
        proof=Proof.NUMBERS,
        # Adam's step is m / sqrt(v): other moments look like another rate, correction or epsilon.
        implies=(
            "learning_rate",
            "bias_correction",
            "adam_epsilon",
        ),
    ),
    CauseInfo(
        "adam_epsilon",
        "Adam's epsilon has another value",
        {
            "value": Wording(
                "Adam's epsilon is {shown} where the reference has {wanted:g}",
                "give the port's optimizer epsilon={wanted:g}: torch_ddp.like_tf.Adam",
            ),
            "zero": Wording("Adam's epsilon is {shown} where the reference has {wanted:g}", _NO_EPSILON),
            "added": Wording("Adam's epsilon is {epsilon:.6g} {place} where the reference has none", _NO_EPSILON),
            "fitted": Wording("Adam's epsilon is {epsilon:.6g} where the reference has {wanted:g}", _ADAMS_EPSILON),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # TensorFlow: rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon). torch divides sqrt(v) by
        # sqrt(1 - beta2^t) first. After one step of gradients of 1e-8 to 1e-6 they are 170 % apart, of 1e-2 to 1 2.3e-4
        # (measured).
        "adam_epsilon_placement",
        "Adam's epsilon is inside the bias correction (torch) or outside (TensorFlow)",
        {
            "": Wording(
                "Adam's epsilon inside the bias correction", "use torch_ddp.like_tf.Adam, whose epsilon is TensorFlow's"
            ),
            "root": Wording("Adam's epsilon {place}", _EPSILON_THERE),
            "fitted": Wording("Adam's epsilon inside the bias correction", _ADAMS_EPSILON),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "bias_correction",
        "Adam without bias correction",
        {
            "missing": Wording("Adam without bias correction", _STEP_COUNT),
            "count": Wording(
                "Adam's bias correction is that of step {counted} where the reference is at step {wanted}",
                "count the first update as step 1: torch_ddp.like_tf.Adam, with its step count restored",
            ),
            "first moment": Wording("Adam without the correction of its first moment", _STEP_COUNT),
            "second moment": Wording("Adam without the correction of its second moment", _STEP_COUNT),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # TensorFlow: sqrt(ms + 1e-10), torch: sqrt(ms) + 1e-8.
        "rmsprop_epsilon",
        "RMSProp's epsilon outside the root",
        {
            "value": Wording("RMSProp's epsilon is {shown} where the reference has {wanted:g}", _EPSILON),
            "zero": Wording("RMSProp's epsilon is {shown} where the reference has {wanted:g}", _NO_EPSILON),
            "added": Wording("RMSProp's epsilon is {epsilon:.6g} {place} where the reference has none", _NO_EPSILON),
            "root": Wording("RMSProp's epsilon {place}", _EPSILON_THERE),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # An optimizer that is made inside of the loop, or a resumed training without its slots.
        "slot_reset",
        "a slot of the optimizer is forgotten in every step",
        {
            "": Wording(
                "the slot {slot} is forgotten in every step{where}",
                "make the optimizer once, before the loop, and load its state with the weights",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Adam's correction goes by it, 1 - beta^t: with beta2 at 0.999 it matters for thousands of steps.
        "step_count",
        "the optimizer begins to count its steps elsewhere",
        {
            "": Wording(
                "the candidate's optimizer begins to count elsewhere",
                "begin to count where the script does: with a fresh optimizer, or with the whole of its saved state",
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Defaults differ: RMSProp's 0.9 and torch's 0.99, Adadelta's 0.95 and torch's 0.9.
        "decay_rate",
        "RMSProp's decay or Adadelta's rho",
        {
            "Adadelta's rho": Wording(
                "Adadelta's rho is {got:.6g} where the reference has {wanted:.6g}{where}",
                _SETTING,
            ),
            "RMSProp's decay": Wording(
                "RMSProp's decay is {got:.6g} where the reference has {wanted:.6g}{where}",
                _SETTING,
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Defaults differ: Adadelta's 1e-8 and torch's 1e-6; TensorFlow's Adagrad has none, torch's 1e-10.
        "optimizer_epsilon",
        "the epsilon of an optimizer other than Adam and RMSProp",
        {
            "": Wording("Adadelta's epsilon is {got:.6g} where the reference has {wanted:.6g}", _SETTING),
            "value": Wording("the optimizer's epsilon is {shown} where the reference has {wanted:g}", _EPSILON),
            "zero": Wording("the optimizer's epsilon is {shown} where the reference has {wanted:g}", _NO_EPSILON),
            "added": Wording(
                "the optimizer's epsilon is {epsilon:.6g} {place} where the reference has none",
                _NO_EPSILON,
            ),
            "root": Wording("the optimizer's epsilon {place}", _EPSILON_THERE),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "optimizer_rule",
        "the update has another formula",
        {
            "formula": Wording("the update is {candidate} where the reference's is {reference}", _OPTIMIZER),
            "slot before the step": Wording(
                "the update of the {who} uses {slot} from before the step, the {other}'s from after it",
                "move the slots first, and then the weights by them, as the graph does",
            ),
            # RMSProp: mom = momentum * mom + rate * g / sqrt(ms + epsilon) in TensorFlow. The same while the rate is,
            # and 37 % apart in a measurement with one that decays.
            "rate outside the momentum": Wording(
                (
                    "the momentum takes up the update without the learning rate, which the reference multiplies it "
                    "by before"
                ),
                (
                    "multiply by the learning rate before the momentum, as TensorFlow does: changing rates add up "
                    "otherwise"
                ),
            ),
            "slot": Wording("the slot {slot} {here}, where the reference's {there}", _OPTIMIZER),
        },
        proof=Proof.NUMBERS,
        # Any setting that is fitted by one rule to what another rule does comes out wrong.
        implies=(
            "learning_rate",
            "bias_correction",
            "adam_epsilon",
            "momentum",
            "nesterov",
        ),
    ),
    CauseInfo(
        # torch has no Ftrl; TensorFlow's doubles its l2, and its kernel sets weights without a gradient to 0.
        "optimizer_setting",
        "another setting of the optimizer, such as Ftrl's penalties",
        {
            "": Wording("Ftrl's {text}", _FTRL),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "updated_twice",
        "the optimizer makes several steps for one",
        {
            "": Wording(
                "the optimizer makes {times} steps where the reference makes one",
                (
                    "call optimizer.step() once for each backward pass: look for a hook, a closure or a wrapper "
                    "that calls it too"
                ),
            ),
        },
        proof=Proof.NUMBERS,
        # Two steps move a weight about twice as far, decay a slot by beta^2, and count for two in the correction.
        implies=(
            "learning_rate",
            "momentum",
            "nesterov",
            "gradient_factor",
            "bias_correction",
        ),
    ),
    CauseInfo(
        "not_updated",
        "a weight gets no update",
        {
            "variables": Wording(
                "{variables} gets no update",
                "give the optimizer all of model.parameters(), after the last of them is made",
            ),
            "all": Wording(
                "no variable moves at step {step}",
                (
                    "call optimizer.step() after every backward pass, unless the graph accumulates, and look at the "
                    "learning rate"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        "weight_limit",
        "weights are cut off at a limit after the update on one side only, or at another one",
        {
            "port": Wording(
                "the port cuts its weights off at {limit:.6g} after the update, where the graph's go further",
                "clamp no weight that the graph does not, and none to less than the graph does",
            ),
            "graph": Wording(
                "the port's weights go beyond {limit:.6g}, where the graph cuts them off after the update",
                "clamp the weights under torch.no_grad() after every optimizer.step(), to the limit of the graph",
            ),
        },
        proof=Proof.NUMBERS,
    ),
)
