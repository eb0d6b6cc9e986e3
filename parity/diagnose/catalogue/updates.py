"""The causes of the optimizer's update."""

from parity.diagnose.catalogue.info import GENERAL, CauseInfo, Wording

_EVERY_UPDATE = "step the schedule after every update, as the graph's global step counts, not once per epoch"
_SCHEDULE = "give the port the learning rate of the graph, and check the schedule's unit, boundaries and ends"

ROWS = (
    CauseInfo(
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
            "ftrl": Wording("Ftrl's {text}", "give the port's optimizer what the graph's has: torch_ddp.like_tf.Ftrl"),
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
        specificity=GENERAL,
    ),
    CauseInfo(
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
        implies=("learning_rate",),
    ),
    CauseInfo(
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
        implies=("learning_rate",),
    ),
    CauseInfo(
        "momentum",
        "another momentum, or a dampened one",
        {
            "dampened": Wording(
                "the momentum is dampened: the gradient enters the slot {factor:.6g} times",
                "TensorFlow's momentum takes the whole gradient: dampening=0, or torch_ddp.like_tf.Momentum",
            ),
            "other": Wording(
                "the momentum is {got:.6g} where the reference has {wanted:.6g}",
                "give the port's optimizer {wanted:.6g}",
            ),
        },
    ),
    CauseInfo("nesterov", "Nesterov momentum on one side only", {}),
    CauseInfo(
        "adam_beta",
        "another decay rate of Adam's moments",
        {},
        implies=(
            "learning_rate",
            "bias_correction",
            "adam_epsilon",
        ),
    ),
    CauseInfo("adam_epsilon", "Adam's epsilon has another value", {}),
    CauseInfo(
        "adam_epsilon_placement",
        "Adam's epsilon is inside the bias correction (torch) or outside (TensorFlow)",
        {
            "": Wording(
                "Adam's epsilon inside the bias correction", "use torch_ddp.like_tf.Adam, whose epsilon is TensorFlow's"
            ),
        },
    ),
    CauseInfo(
        "bias_correction",
        "Adam without bias correction",
        {
            "missing": Wording(
                "Adam without bias correction",
                "use torch_ddp.like_tf.Adam, or restore its step count (beta powers) with its moments",
            ),
            "count": Wording(
                "Adam's bias correction is that of step {counted} where the reference is at step {wanted}",
                "count the first update as step 1: torch_ddp.like_tf.Adam, with its step count restored",
            ),
        },
    ),
    CauseInfo("rmsprop_epsilon", "RMSProp's epsilon outside the root", {}),
    CauseInfo(
        "slot_reset",
        "a slot of the optimizer is forgotten in every step",
        {
            "": Wording(
                "the slot {slot} is forgotten in every step{where}",
                "make the optimizer once, before the loop, and load its state with the weights",
            ),
        },
    ),
    CauseInfo("step_count", "the optimizer begins to count its steps elsewhere", {}),
    CauseInfo("decay_rate", "RMSProp's decay or Adadelta's rho", {}),
    CauseInfo(
        "optimizer_epsilon",
        "the epsilon of an optimizer other than Adam and RMSProp",
        {
            "": Wording(
                "Adadelta's epsilon is {got:.6g} where the reference has {wanted:.6g}",
                "give the port's optimizer {wanted:.6g}",
            ),
        },
    ),
    CauseInfo(
        "optimizer_rule",
        "the update has another formula",
        {
            "formula": Wording(
                "the update is {candidate} where the reference's is {reference}",
                "use the optimizer of the graph: torch_ddp.like_tf has TensorFlow's",
            ),
            "slot before the step": Wording(
                "the update of the {who} uses {slot} from before the step, the {other}'s from after it",
                "move the slots first, and then the weights by them, as the graph does",
            ),
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
            "slot": Wording(
                "the slot {slot} {here}, where the reference's {there}",
                "use the optimizer of the graph: torch_ddp.like_tf has TensorFlow's",
            ),
        },
        implies=(
            "learning_rate",
            "bias_correction",
            "adam_epsilon",
            "momentum",
            "nesterov",
        ),
    ),
    CauseInfo(
        "optimizer_setting",
        "another setting of the optimizer, such as Ftrl's penalties",
        {
            "": Wording("Ftrl's {text}", "give the port's optimizer what the graph's has: torch_ddp.like_tf.Ftrl"),
        },
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
    ),
)
