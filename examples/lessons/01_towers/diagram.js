// The batch of the lesson, cut over as many towers as you like; each example's gradient is the one that was measured.
diagram({
  about: "The gradient of the first weight on its way from the examples to the update.",
  controls: [
    { name: "towers", label: "Towers", options: divisors(NUMBERS.size), value: NUMBERS.towers },
    { name: "combine", label: "Combine", options: ["mean", "sum"], value: "mean" },
  ],
  draw({ towers, combine }) {
    const gradients = NUMBERS.by_example.map((row) => row[0]), piece = gradients.length / towers;
    const shards = range(towers).map((tower) => mean(gradients.slice(tower * piece, (tower + 1) * piece)));
    const combined = combine === "mean" ? mean(shards) : sum(shards), whole = mean(gradients);
    const width = 560, lane = (width - 8) / towers, cell = (width - 8) / gradients.length;
    const after = NUMBERS.weights[0] - NUMBERS.learning_rate * combined;
    const right = combine === "mean" || towers === 1;
    const shapes = gradients.map((value, at) => box(4 + at * cell + 2, 20, cell - 4, 34, n(value, 3), "soft"));
    shapes.push(label(4, 13, "the batch: each example's gradient", "left dim"));
    shards.forEach((value, tower) => {
      const middle = 4 + (tower + 0.5) * lane;
      shapes.push(arrow(middle, 56, middle, 84), box(middle - lane / 2 + 3, 86, lane - 6, 44, [`tower ${tower}`, n(value, 4)]));
      shapes.push(arrow(middle, 132, width / 2 + (middle - width / 2) * 0.35, 166));
    });
    shapes.push(box(width / 2 - 150, 168, 300, 40, `combined by ${combine}: ${n(combined)}`, right ? "good" : "bad"));
    shapes.push(arrow(width / 2, 210, width / 2, 238), box(width / 2 - 150, 240, 300, 40, `one update: ${n(NUMBERS.weights[0])} becomes ${n(after)}`));
    const same = right ? "It is the gradient of the whole batch." : `It is ${towers} times the gradient of the whole batch, ${n(whole)}.`;
    return {
      width, height: 286, shapes,
      told: `${towers} tower${towers > 1 ? "s" : ""} of ${piece} example${piece > 1 ? "s" : ""}, combined by ${combine}: ${n(combined)}. ${same}`,
      caption: "First weight", head: ["", "value"],
      rows: [...shards.map((value, tower) => [`gradient of tower ${tower}`, value]), ["combined", combined], ["TensorFlow, " + NUMBERS.towers + " towers, mean", NUMBERS.tf.combined[0]], ["torch, whole batch", NUMBERS.torch.gradient[0]]],
    };
  },
});
