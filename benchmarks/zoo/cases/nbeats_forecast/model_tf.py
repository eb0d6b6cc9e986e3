"""N-BEATS with a trend, a seasonality and a generic stack, after the authors' published code and its TensorFlow 1 relatives: doubly
residual blocks, weights shared inside interpretable stacks, sMAPE whose denominator passes no gradient."""
import numpy as np
import tensorflow.compat.v1 as tf

BACKCAST_SIZE = 15
FORECAST_SIZE = 7
TREND = dict(blocks=2, layers=3, units=24, degree=2)
SEASONALITY = dict(blocks=2, layers=2, units=26, harmonics=2)
GENERIC = dict(blocks=2, layers=2, units=20)


def fully_connected(x, layers, units):
    for i in range(layers):
        x = tf.layers.dense(x, units, activation=tf.nn.relu, name="fc_%d" % i)
    return x


def trend_basis(h):
    size = TREND["degree"] + 1
    theta = tf.layers.dense(h, 2 * size, name="theta")
    backcast_time = np.stack([np.power(np.arange(BACKCAST_SIZE) / BACKCAST_SIZE, i) for i in range(size)])
    forecast_time = np.stack([np.power(np.arange(FORECAST_SIZE) / FORECAST_SIZE, i) for i in range(size)])
    backcast = tf.einsum("bp,pt->bt", theta[:, size:], tf.constant(backcast_time, h.dtype))
    forecast = tf.einsum("bp,pt->bt", theta[:, :size], tf.constant(forecast_time, h.dtype))
    return backcast, forecast


def seasonality_basis(h):
    harmonics = SEASONALITY["harmonics"]
    frequency = np.append(0.0, np.arange(harmonics, harmonics / 2 * FORECAST_SIZE) / harmonics)[None, :]
    backcast_grid = -2 * np.pi * (np.arange(BACKCAST_SIZE)[:, None] / FORECAST_SIZE) * frequency
    forecast_grid = 2 * np.pi * (np.arange(FORECAST_SIZE)[:, None] / FORECAST_SIZE) * frequency
    count = frequency.size
    theta = tf.layers.dense(h, 4 * count, name="theta")

    def harmonic(weights, values):
        return tf.einsum("bp,pt->bt", weights, tf.constant(values.T, h.dtype))

    backcast = harmonic(theta[:, 2 * count:3 * count], np.cos(backcast_grid))
    backcast += harmonic(theta[:, 3 * count:], np.sin(backcast_grid))
    forecast = harmonic(theta[:, :count], np.cos(forecast_grid))
    forecast += harmonic(theta[:, count:2 * count], np.sin(forecast_grid))
    return backcast, forecast


def generic_basis(h):
    theta = tf.layers.dense(h, BACKCAST_SIZE + FORECAST_SIZE, name="theta")
    return theta[:, :BACKCAST_SIZE], theta[:, -FORECAST_SIZE:]


def stack(scope, basis, residuals, forecast, mask, settings, share_weights):
    for i in range(settings["blocks"]):
        name = "%s/%s" % (scope, "block" if share_weights else "block_%d" % i)
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            h = fully_connected(residuals, settings["layers"], settings["units"])
            backcast, block_forecast = basis(h)
        residuals = (residuals - backcast) * mask
        forecast = forecast + block_forecast
    return residuals, forecast


def divide_no_nan(a, b):
    return tf.where(tf.equal(b, 0), tf.zeros_like(a), a / tf.where(tf.equal(b, 0), tf.ones_like(b), b))


def tower(x, x_mask, y, y_mask):
    residuals = tf.reverse(x, axis=[1])
    mask = tf.reverse(x_mask, axis=[1])
    forecast = x[:, -1:]
    residuals, forecast = stack("trend", trend_basis, residuals, forecast, mask, TREND, True)
    trend = forecast
    residuals, forecast = stack("seasonality", seasonality_basis, residuals, forecast, mask, SEASONALITY, True)
    seasonal = forecast
    residuals, forecast = stack("generic", generic_basis, residuals, forecast, mask, GENERIC, False)

    error = tf.abs(y - forecast)
    smape = 200.0 * tf.reduce_mean(divide_no_nan(error, tf.stop_gradient(tf.abs(forecast) + tf.abs(y))) * y_mask)
    mape = 100.0 * tf.reduce_mean(divide_no_nan(error, y) * y_mask)
    loss = smape + 0.1 * mape
    return loss, {"trend": trend, "seasonal": seasonal, "residuals": residuals, "forecast": forecast,
                  "smape": smape, "mape": mape}
