"""Twin delayed deep deterministic policy gradients, after the kind of TensorFlow 1 code that teaching collections of
agents have: an actor and two critics under `main`, their slow copies under `target`, two losses for two optimizers.
The noise of the target policy is fed, and so is whether the policy is updated. The copies do not train: the loop
around this refreshes them."""
import tensorflow.compat.v1 as tf

ACT_LIMIT = 1.5
GAMMA = 0.97
NOISE_CLIP = 0.5
HIDDEN_SIZES = (32, 28)


def mlp(x, hidden_sizes, activation=tf.nn.relu, output_activation=None, trainable=True):
    for h in hidden_sizes[:-1]:
        x = tf.layers.dense(x, units=h, activation=activation, trainable=trainable)
    return tf.layers.dense(x, units=hidden_sizes[-1], activation=output_activation, trainable=trainable)


def policy(x, act_dim, trainable=True):
    with tf.variable_scope("pi"):
        return ACT_LIMIT * mlp(x, HIDDEN_SIZES + (act_dim,), output_activation=tf.tanh, trainable=trainable)


def critic(name, x, a, trainable=True, reuse=None):
    with tf.variable_scope(name, reuse=reuse):
        return tf.squeeze(mlp(tf.concat([x, a], axis=-1), HIDDEN_SIZES + (1,), trainable=trainable), axis=1)


def tower(obs, act, rew, obs2, done, target_noise, policy_mask):
    act_dim = act.shape.as_list()[-1]
    with tf.variable_scope("main"):
        pi = policy(obs, act_dim)
        q1 = critic("q1", obs, act)
        q2 = critic("q2", obs, act)
        q1_pi = critic("q1", obs, pi, reuse=True)
    with tf.variable_scope("target"):
        pi_targ = policy(obs2, act_dim, trainable=False)
        epsilon = tf.clip_by_value(target_noise, -NOISE_CLIP, NOISE_CLIP)
        a2 = tf.clip_by_value(pi_targ + epsilon, -ACT_LIMIT, ACT_LIMIT)
        q1_targ = critic("q1", obs2, a2, trainable=False)
        q2_targ = critic("q2", obs2, a2, trainable=False)

    min_q_targ = tf.minimum(q1_targ, q2_targ)
    backup = tf.stop_gradient(rew + GAMMA * (1 - done) * min_q_targ)

    pi_loss = -tf.reduce_mean(policy_mask * q1_pi)
    q1_loss = tf.reduce_mean((q1 - backup) ** 2)
    q2_loss = tf.reduce_mean((q2 - backup) ** 2)
    q_loss = q1_loss + q2_loss
    return q_loss, {"pi": pi, "q1": q1, "q2": q2, "q1_pi": q1_pi, "backup": backup, "pi_loss": pi_loss}
