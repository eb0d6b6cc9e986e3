// What passes over the busiest link in a step, for any number of devices and any size of the weights.
diagram({
  about: "Weights and gradients on their way in one step, by the rules that the lesson inferred from both programs.",
  controls: [
    { name: "count", label: "Towers or ranks", min: 2, max: 8, value: NUMBERS.count },
    { name: "how", label: "Kind", options: ["towers", "DDP"], value: "towers" },
    { name: "megabytes", label: "Weights, MiB", min: 10, max: 1000, step: 10, value: 100 },
  ],
  draw({ count, how, megabytes }) {
    const width = 560, lane = (width - 8) / count, towers = how === "towers";
    const host = 2 * count * megabytes, ring = 2 * (count - 1) / count * megabytes, shapes = [];
    if (towers) shapes.push(box(width / 2 - 110, 8, 220, 44, ["host", `the weights, ${megabytes} MiB`], "good"));
    range(count).forEach((each) => {
      const x = 4 + each * lane, middle = x + lane / 2, top = towers ? 130 : 50;
      shapes.push(box(x + 4, top, lane - 8, 48, [`${towers ? "tower" : "rank"} ${each}`, towers ? "no weights" : `${megabytes} MiB`], towers ? "" : "good"));
      if (towers) {
        const from = width / 2 + (middle - width / 2) * 0.35;
        shapes.push(arrow(from - 5, 54, middle - 8, 126), arrow(middle + 8, 128, from + 5, 56, "hot"));
      } else {
        const to = each + 1 < count ? middle + lane : 4 + lane / 2;
        if (each + 1 < count) shapes.push(arrow(middle, top + 50, to - 6, top + 88, "hot"), arrow(to, top + 90, to, top + 52, "hot"));
        else shapes.push(arrow(middle, top + 50, middle, top + 106, "hot"), arrow(middle, top + 108, to, top + 108, "hot"), arrow(to, top + 106, to, top + 52, "hot"));
      }
    });
    const most = Math.max(host, ring), scale = (value) => 250 * value / most;
    [["towers: through the host", host, "b"], ["DDP: out of each rank", ring, "a"]].forEach(([words, value, kind], at) => {
      shapes.push(label(210, 216 + at * 30, words, "right"), bar(220, 203 + at * 30, scale(value), 20, kind), label(226 + scale(value), 217 + at * 30, n(value, 4) + " MiB", "left"));
    });
    return {
      width, height: 256, shapes,
      told: towers
        ? `${count} towers: the weights go out to each tower and the gradients come back, ${n(host, 4)} MiB through the host in every step. That grows with the number of towers.`
        : `${count} ranks: each holds the weights, only gradients travel, ${n(ring, 4)} MiB out of each rank in every step. That stays below ${n(2 * megabytes)} MiB for any number of ranks.`,
      caption: `Measured, ${NUMBERS.count} towers and ranks, ${NUMBERS.size} bytes of weights`, head: ["", "bytes a step"],
      rows: [["weights to the towers", NUMBERS.travels.weights], ["gradients from the towers", NUMBERS.travels.gradients], ["gradients given to DDP's all-reduce, each rank", NUMBERS.torch.ranks[0].reduced[0]]],
    };
  },
});
