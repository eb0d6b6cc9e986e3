"""DRAW with selective attention: a glimpse is read, encoded, a latent drawn, decoded, and a patch written onto the canvas."""
import tensorflow.compat.v1 as tf

A, B = 14, 10  # width, height
enc_size = 26
dec_size = 22
read_n = 3
write_n = 4
z_size = 6
T = 4
eps = 1e-8


def linear(x, output_dim):
    w = tf.get_variable("w", [x.get_shape()[1], output_dim], dtype=x.dtype)
    b = tf.get_variable("b", [output_dim], dtype=x.dtype, initializer=tf.constant_initializer(0.0))
    return tf.matmul(x, w) + b


def filterbank(gx, gy, sigma2, delta, N):
    dtype = gx.dtype
    grid_i = tf.reshape(tf.cast(tf.range(N), dtype), [1, -1])
    mu_x = gx + (grid_i - N / 2 - 0.5) * delta
    mu_y = gy + (grid_i - N / 2 - 0.5) * delta
    a = tf.reshape(tf.cast(tf.range(A), dtype), [1, 1, -1])
    b = tf.reshape(tf.cast(tf.range(B), dtype), [1, 1, -1])
    mu_x = tf.reshape(mu_x, [-1, N, 1])
    mu_y = tf.reshape(mu_y, [-1, N, 1])
    sigma2 = tf.reshape(sigma2, [-1, 1, 1])
    Fx = tf.exp(-tf.square(a - mu_x) / (2 * sigma2))
    Fy = tf.exp(-tf.square(b - mu_y) / (2 * sigma2))
    Fx = Fx / tf.maximum(tf.reduce_sum(Fx, 2, keepdims=True), eps)
    Fy = Fy / tf.maximum(tf.reduce_sum(Fy, 2, keepdims=True), eps)
    return Fx, Fy


def attn_window(scope, h_dec, N, reuse):
    with tf.variable_scope(scope, reuse=reuse):
        params = linear(h_dec, 5)
    gx_, gy_, log_sigma2, log_delta, log_gamma = tf.split(params, 5, 1)
    gx = (A + 1) / 2 * (gx_ + 1)
    gy = (B + 1) / 2 * (gy_ + 1)
    sigma2 = tf.exp(log_sigma2)
    delta = (max(A, B) - 1) / (N - 1) * tf.exp(log_delta)
    Fx, Fy = filterbank(gx, gy, sigma2, delta, N)
    return Fx, Fy, tf.exp(log_gamma)


def read(x, x_hat, h_dec_prev, reuse):
    Fx, Fy, gamma = attn_window("read", h_dec_prev, read_n, reuse)

    def filter_img(img):
        img = tf.reshape(img, [-1, B, A])
        glimpse = tf.matmul(Fy, tf.matmul(img, tf.transpose(Fx, [0, 2, 1])))
        return tf.reshape(glimpse, [-1, read_n * read_n]) * tf.reshape(gamma, [-1, 1])

    return tf.concat([filter_img(x), filter_img(x_hat)], 1)


def write(h_dec, reuse):
    with tf.variable_scope("writeW", reuse=reuse):
        w = linear(h_dec, write_n * write_n)
    w = tf.reshape(w, [-1, write_n, write_n])
    Fx, Fy, gamma = attn_window("write", h_dec, write_n, reuse)
    wr = tf.matmul(tf.transpose(Fy, [0, 2, 1]), tf.matmul(w, Fx))
    return tf.reshape(wr, [-1, B * A]) * tf.reshape(1.0 / gamma, [-1, 1])


def sample_q(h_enc, e, reuse):
    with tf.variable_scope("mu", reuse=reuse):
        mu = linear(h_enc, z_size)
    with tf.variable_scope("sigma", reuse=reuse):
        logsigma = linear(h_enc, z_size)
    sigma = tf.exp(logsigma)
    return mu + sigma * e, mu, logsigma, sigma


def binary_crossentropy(t, o):
    return -(t * tf.log(o + eps) + (1.0 - t) * tf.log(1.0 - o + eps))


def tower(images, noise):
    dtype = images.dtype
    batch_size = tf.shape(images)[0]
    x = tf.reshape(images, [-1, B * A])
    lstm_enc = tf.nn.rnn_cell.LSTMCell(enc_size, state_is_tuple=True)
    lstm_dec = tf.nn.rnn_cell.LSTMCell(dec_size, state_is_tuple=True)

    cs, mus, logsigmas, sigmas, glimpses = [], [], [], [], []
    c_prev = tf.zeros_like(x)
    h_dec_prev = tf.zeros(tf.stack([batch_size, dec_size]), dtype)
    h_dec_prev.set_shape([None, dec_size])
    enc_state = lstm_enc.zero_state(batch_size, dtype)
    dec_state = lstm_dec.zero_state(batch_size, dtype)
    for t in range(T):
        reuse = True if t > 0 else None
        x_hat = x - tf.sigmoid(c_prev)
        r = read(x, x_hat, h_dec_prev, reuse)
        with tf.variable_scope("encoder", reuse=reuse):
            h_enc, enc_state = lstm_enc(tf.concat([r, h_dec_prev], 1), enc_state)
        z, mu, logsigma, sigma = sample_q(h_enc, noise[:, t], reuse)
        with tf.variable_scope("decoder", reuse=reuse):
            h_dec, dec_state = lstm_dec(z, dec_state)
        c_prev = c_prev + write(h_dec, reuse)
        h_dec_prev = h_dec
        for collected, one in zip((cs, mus, logsigmas, sigmas, glimpses), (c_prev, mu, logsigma, sigma, r)):
            collected.append(one)

    x_recons = tf.sigmoid(cs[-1])
    Lx = tf.reduce_mean(tf.reduce_sum(binary_crossentropy(x, x_recons), 1))
    kl_terms = [0.5 * tf.reduce_sum(tf.square(mu) + tf.square(sigma) - 2 * logsigma, 1) - 0.5
                for mu, sigma, logsigma in zip(mus, sigmas, logsigmas)]
    Lz = tf.reduce_mean(tf.add_n(kl_terms))
    outputs = {"glimpses": tf.stack(glimpses, 1), "reconstruction": tf.reshape(x_recons, [-1, B, A]), "Lx": Lx, "Lz": Lz}
    return Lx + Lz, outputs
