// Gradient descent on the lesson's own loss, worked out again in the page for the towers and the rate that you choose.
diagram({
  about: "Gradient descent on the lesson's eight examples. The rate is what the optimizer is given; sum multiplies it by the number of towers.",
  controls: [
    { name: "towers", label: "Towers", min: 1, max: 8, value: 4 },
    { name: "combine", label: "Combine", options: ["mean", "sum"], value: "sum" },
    { name: "rate", label: "Learning rate", min: 0.01, max: 0.6, step: 0.01, value: NUMBERS.learning_rate },
  ],
  draw({ towers, combine, rate }) {
    const factor = combine === "sum" ? towers : 1;
    const descend = (step) => {
      let weights = [...NUMBERS.weights];
      const losses = [];
      for (let at = 0; at < NUMBERS.steps; at++) {
        const errors = NUMBERS.x.map((row, each) => sum(row.map((value, k) => value * weights[k])) - NUMBERS.y[each]);
        losses.push(mean(errors.map((error) => error * error)));
        weights = weights.map((weight, k) => weight - step * 2 * mean(errors.map((error, each) => error * NUMBERS.x[each][k])));
      }
      return losses;
    };
    const chosen = descend(rate * factor), base = descend(rate), stable = rate * factor < NUMBERS.stable;
    const grows = chosen[chosen.length - 1] > chosen[0];
    const width = 560;
    const shapes = chart(60, 14, width - 80, 190, { [`${towers} towers, ${combine}`]: chosen, "mean": base }, { log: true, high: Math.max(base[0] * 30, 1), low: Math.min(...base) * 0.9 });
    const scale = (value) => 60 + (width - 80) * Math.min(1, value / (2 * NUMBERS.stable));
    shapes.push(label(60, 246, "effective rate", "left"), bar(60, 254, scale(rate * factor) - 60, 20, stable ? "c" : "b"));
    shapes.push(line([[scale(NUMBERS.stable), 248], [scale(NUMBERS.stable), 280]], "axis"), label(scale(NUMBERS.stable), 294, `stable below ${n(NUMBERS.stable, 4)}`, "dim"));
    return {
      width, height: 302, shapes,
      told: `Rate ${n(rate)} with the ${combine} over ${towers} towers acts like ${n(rate * factor)} with the mean. ${stable ? "Descent is stable" : "That is too large"}: after ${NUMBERS.steps} steps the loss has ${grows ? "grown" : "fallen"} from ${n(chosen[0], 4)} to ${n(chosen[chosen.length - 1], 4)}.`,
      caption: "Loss", head: ["", "first", "second", "last"],
      rows: [
        ["chosen", ...[chosen[0], chosen[1], chosen[chosen.length - 1]].map((value) => n(value, 4))],
        ...["mean", "sum"].map((how) => [`TensorFlow, 4 towers, ${how}, rate ${n(NUMBERS.learning_rate)}`, ...[0, 1, NUMBERS.steps - 1].map((at) => n(NUMBERS.tf.runs[how].losses[at], 4))]),
      ],
    };
  },
});
