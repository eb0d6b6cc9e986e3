"""Learner of an importance weighted actor-learner: a recurrent agent over unrolls, and the V-trace actor-critic loss.

Entry t of an unroll holds the action taken before observation t and what it was paid; `done` says that a new episode begins at t.
"""
import tensorflow.compat.v1 as tf

NUM_ACTIONS = 5
HIDDEN = 32
DISCOUNTING = 0.99
BASELINE_COST = 0.5
ENTROPY_COST = 0.01


def torso(observation, last_action, reward):
    one_hot = tf.one_hot(last_action, NUM_ACTIONS, dtype=reward.dtype)
    clipped_reward = tf.expand_dims(tf.clip_by_value(reward, -1, 1), -1)
    x = tf.layers.dense(observation, 32, activation=tf.nn.relu, name="conv_replacement")
    x = tf.layers.dense(x, 24, activation=tf.nn.relu, name="fc")
    return tf.concat([x, clipped_reward, one_hot], axis=-1)


def unroll(torso_outputs, done):
    """Runs the core over time; its state is emptied where an episode has ended."""
    dtype = torso_outputs.dtype
    with tf.variable_scope("core"):
        n = torso_outputs.shape.as_list()[-1]
        kernel = tf.get_variable("kernel", [n + HIDDEN, 4 * HIDDEN], dtype)
        bias = tf.get_variable("bias", [4 * HIDDEN], dtype, tf.zeros_initializer())
    batch = tf.shape(torso_outputs)[1]
    initial = tf.zeros([batch, HIDDEN], dtype)
    c, h = initial, initial
    outputs = []
    for x, d in zip(tf.unstack(torso_outputs), tf.unstack(done)):
        ended = d > 0.5
        c, h = tf.where(ended, initial, c), tf.where(ended, initial, h)
        i, j, f, o = tf.split(tf.matmul(tf.concat([x, h], 1), kernel) + bias, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs)


def log_probs_from_logits_and_actions(logits, actions):
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=actions)


def vtrace(log_rhos, discounts, rewards, values, bootstrap_value, clip_rho=1.0, clip_pg_rho=1.0):
    rhos = tf.exp(log_rhos)
    clipped_rhos = tf.minimum(tf.constant(clip_rho, rhos.dtype), rhos)
    cs = tf.minimum(tf.constant(1.0, rhos.dtype), rhos)
    values_t_plus_1 = tf.concat([values[1:], tf.expand_dims(bootstrap_value, 0)], axis=0)
    deltas = clipped_rhos * (rewards + discounts * values_t_plus_1 - values)
    acc = tf.zeros_like(bootstrap_value)
    vs_minus_v_xs = []
    for t in reversed(range(values.shape.as_list()[0])):
        acc = deltas[t] + discounts[t] * cs[t] * acc
        vs_minus_v_xs.insert(0, acc)
    vs = tf.add(tf.stack(vs_minus_v_xs), values)
    vs_t_plus_1 = tf.concat([vs[1:], tf.expand_dims(bootstrap_value, 0)], axis=0)
    clipped_pg_rhos = tf.minimum(tf.constant(clip_pg_rho, rhos.dtype), rhos)
    pg_advantages = clipped_pg_rhos * (rewards + discounts * vs_t_plus_1 - values)
    return tf.stop_gradient(vs), tf.stop_gradient(pg_advantages)


def tower(observation, action, reward, done, behaviour_logits):
    # unrolls come batch-major, and are worked on time-major
    observation, behaviour_logits = [tf.transpose(x, [1, 0, 2]) for x in (observation, behaviour_logits)]
    action, reward, done = [tf.transpose(x) for x in (action, reward, done)]
    with tf.variable_scope("agent"):
        core_output = unroll(torso(observation, action, reward), done)
        policy_logits = tf.layers.dense(core_output, NUM_ACTIONS, name="policy_logits")
        baseline = tf.squeeze(tf.layers.dense(core_output, 1, name="baseline"), axis=-1)

    # what the agent says at t is compared with what was done there, which entry t + 1 holds
    bootstrap_value = baseline[-1]
    actions, rewards, dones, behaviour = action[1:], reward[1:], done[1:], behaviour_logits[1:]
    logits, values = policy_logits[:-1], baseline[:-1]
    clipped_rewards = tf.clip_by_value(rewards, -1, 1)
    discounts = (1.0 - dones) * DISCOUNTING
    target_log_probs = log_probs_from_logits_and_actions(logits, actions)
    log_rhos = target_log_probs - log_probs_from_logits_and_actions(behaviour, actions)
    vs, pg_advantages = vtrace(log_rhos, discounts, clipped_rewards, values, bootstrap_value)

    pg_loss = tf.reduce_sum(-target_log_probs * pg_advantages)
    baseline_loss = 0.5 * tf.reduce_sum(tf.square(vs - values))
    policy, log_policy = tf.nn.softmax(logits), tf.nn.log_softmax(logits)
    entropy_loss = tf.reduce_sum(policy * log_policy)
    total_loss = pg_loss + BASELINE_COST * baseline_loss + ENTROPY_COST * entropy_loss
    return total_loss, {"policy_logits": policy_logits, "baseline": baseline, "vs": vs, "pg_advantages": pg_advantages,
                        "pg_loss": pg_loss, "baseline_loss": baseline_loss, "entropy_loss": entropy_loss}
