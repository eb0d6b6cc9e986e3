// What passes through the first device in a step of DataParallel, and out of each rank in a step of DDP.
diagram({
  about: "One step of DataParallel on the first of N devices, and of DDP on each. Sizes in MiB.",
  controls: [
    { name: "count", label: "Devices", min: 2, max: 8, value: 4 },
    { name: "weights", label: "Weights, MiB", min: 10, max: 1000, step: 10, value: 100 },
    { name: "outputs", label: "Outputs of the whole batch, MiB", min: 0, max: 2000, step: 10, value: 200 },
  ],
  draw({ count, weights, outputs }) {
    const width = 560, others = count - 1, out = others * weights, back = others * weights;
    const gathered = 2 * outputs * others / count, ring = 2 * others / count * weights; // outputs come in, their gradients go out
    const total = out + back + gathered, scale = (value) => 300 * value / Math.max(total, ring);
    const shapes = [box(4, 50, 150, 70, ["device 0", "model, loss,", "all outputs"], "bad")];
    range(others).forEach((each) => {
      const tall = Math.min(40, 150 / others), y = 8 + each * (164 / others);
      shapes.push(box(390, y, 160, tall, [tall > 16 ? `device ${each + 1}: replica, made anew` : ""], ""));
      shapes.push(arrow(156, 75, 386, y + tall / 2 - 3), arrow(388, y + tall / 2 + 4, 158, 95, "hot"));
    });
    const bars = [["replicate weights", out, "b"], ["add up gradients", back, "b"], ["outputs and their gradients", gathered, "b"], ["DDP: out of each rank", ring, "a"]];
    bars.forEach(([words, value, kind], at) => {
      const y = 190 + at * 26;
      shapes.push(label(178, y + 14, words, "right"), bar(188, y, scale(value), 18, kind), label(194 + scale(value), y + 14, n(value, 4), "left"));
    });
    return {
      width, height: 300, shapes,
      told: `${count} devices, ${weights} MiB of weights: ${n(total, 4)} MiB pass through DataParallel's first device in a step; DDP sends ${n(ring, 4)} MiB out of each rank, ${n(total / ring, 3)} times less.`,
      caption: `Measured, ${NUMBERS.count} replicas and ranks`, head: ["", "gradient of the first weight"],
      rows: [["DataParallel, by hand", NUMBERS.torch.parallel.gradient[0]], ["towers, mean of the losses", NUMBERS.tf.gradient[0]], ["DDP", NUMBERS.torch.ranks[0].gradient[0]]],
    };
  },
});
