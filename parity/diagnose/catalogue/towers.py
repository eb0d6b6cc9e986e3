"""The causes of combining the towers."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Trait, Wording

# Which towers count, and how.
_ONCE = "let the gradient of every rank take part once: no condition on the rank around loss and backward pass"
_CLIP_ALIKE = (
    "clip as the graph does: by the same norm, to the same limit, before or after the towers are combined as it does"
)

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        # DDP shares only what a forward pass through its own wrapper began, outside of no_sync.
        "not_shared",
        "gradients are not shared between the ranks",
        {
            "gradients": Wording(
                "gradients are not shared between the ranks",
                (
                    "call the DistributedDataParallel module itself, not its .module, and leave no_sync() before "
                    "the last backward pass"
                ),
            ),
            "updates": Wording(
                "the ranks make different updates of the same gradients",
                (
                    "look for what depends on the rank behind the backward pass: settings or state of the "
                    "optimizer, a limit of clipping, a condition on the rank around optimizer.step()"
                ),
            ),
            "other ranks": Wording(
                "gradients or updates are not shared with every rank: the first one's are right",
                (
                    "look for a condition on the rank around the sharing of gradients or around optimizer.step(): each "
                    "rank has to make the same update of the same gradients"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # Measured with 4 towers: under clip_by_global_norm the weights are the same all the same, under Adam 3.7e-5 off
        # after 50 steps. It is in the combined gradients that it shows, whatever the optimizer.
        "sum_instead_of_mean",
        "gradients are summed where the reference takes the mean, or the other way round",
        {
            "candidate": Wording("sum instead of mean, ratio {towers}", "divide by the world size, or let DDP average"),
            "reference": Wording(
                "sum instead of mean, ratio {towers}",
                'sum in the port too ([torch] combine = "sum"), or average in the towers and scale the learning rate',
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # BEHIND_LOSSES: which towers count is decided after their losses, so that it explains no loss that differs.
        "some_towers",
        "not all towers count, or not all the same",
        {
            "one": Wording("only the gradient of tower {tower} is used", _ONCE),
            "left out": Wording("the gradient of tower {towers} is left out", _ONCE),
            "unequal": Wording("the gradients of the towers do not count alike", _ONCE),
            "by elements": Wording(
                "{which} of the towers' gradients is taken, element by element",
                "combine them as the reference does: the mean is ReduceOp.SUM, divided by the world size",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.BEHIND_LOSSES | Trait.BESIDE_A_LOSS,
    ),
    CauseInfo(
        # Gradients of a small convolutional net: 16 to 22 % apart (measured). Two kinds of statistics are no formula of
        # one another, so the step is run again with the other ones.
        "sync_batch_norm",
        "batch norm goes over the whole batch on one side, over each shard on the other",
        {
            "port": Wording(
                "the port normalises over the whole batch, the other side over each of the {towers} shards",
                "leave SyncBatchNorm out, as towers do",
            ),
            "graph": Wording(
                "the graph normalises over the whole batch, the other side over each of the {towers} shards",
                "[torch] sync_batch_norm = true, or torch_ddp.parallel.convert_syncbn_model in the port",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        "clipping",
        "gradients are clipped by another rule, to another norm, before they are combined, or not at all",
        {
            # Measured: 2e-8 of the gradients at a norm of 49, 2.1e-4 at one of 5e-3.
            "epsilon": Wording(
                "torch's clip_grad_norm_ divides by the norm + 1e-6, TensorFlow's clip_by_global_norm by the norm",
                "use torch_ddp.like_tf.clip_grads_by_global_norm_",
            ),
            "largest in every rank": Wording(
                "the candidate clips before the ranks are combined: it cuts off the largest elements in every rank",
                "clip as the graph does: to the same limit, before or after the towers are combined as it does",
            ),
            "to one norm": Wording(
                "the gradients are brought to the global norm {norm:.6g} before the update",
                (
                    "clip as the graph does: by this norm on both sides, or on neither; clipping leaves smaller "
                    "gradients as they are"
                ),
            ),
            # tf.clip_by_norm and slim.learning.clip_gradient_norms clip each by itself.
            "by variable": Wording(
                "each variable's gradient is clipped to norm {norm:.6g}",
                "clip where the graph clips: per variable or by global norm, before or after combining",
            ),
            "by value": Wording("the candidate {rule}", "clip as the graph does: by value, by norm or not at all"),
            "before the update": Wording(
                "the gradients are scaled to {factor:.4g} of what they are before the update, {rule}",
                "clip as the graph does: by this norm on both sides, or on neither",
            ),
            "rule": Wording("the candidate {candidate} where the reference {reference}", _CLIP_ALIKE),
            "place": Wording(
                "of the gradients the candidate clips {candidate}, the reference {reference}", _CLIP_ALIKE
            ),
            "in every rank": Wording(
                "the candidate clips before the ranks are combined: it {rule} in every rank", _CLIP_ALIKE
            ),
            "never": Wording("the candidate does not clip where the reference does", _CLIP_ALIKE),
            "fitted by value": Wording(
                "gradients are clipped by value to {limit:.4g}{more}",
                "clip as the graph does: by this norm or value on both sides, or on neither",
            ),
            "fitted by global norm": Wording(
                "the gradients are scaled to {factor:.4g} of what they are, as clipping by global norm does",
                "clip as the graph does: by this norm or value on both sides, or on neither",
            ),
        },
        proof=Proof.NUMBERS,
        traits=Trait.BESIDE_A_LOSS,
    ),
)
