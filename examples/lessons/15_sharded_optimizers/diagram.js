// What a rank holds of a model, at each stage of ZeRO, for ranks, optimizer and precision that you choose.
const STAGES = ["DDP", "ZeRO 1", "ZeRO 2", "ZeRO 3"];
// Bytes for each weight: of weights, of gradients, and of what only the optimizer has.
const KINDS = {
  "SGD, float32": [4, 4, 0], "momentum, float32": [4, 4, 4], "Adam, float32": [4, 4, 8],
  "Adam, float16 and master weights": [2, 2, 12],
};

diagram({
  about: "Bytes that a rank holds for each weight of the model, shared out evenly. Activations, buffers, and what is gathered for a while are not in it.",
  controls: [
    { name: "kind", label: "Training", options: Object.keys(KINDS), value: "Adam, float32" },
    { name: "ranks", label: "Ranks", min: 1, max: 64, value: NUMBERS.ranks },
  ],
  draw({ kind, ranks }) {
    const width = 600, left = 70, [weights, gradients, slots] = KINDS[kind], most = 16, across = (bytes) => (width - left - 130) * bytes / most;
    const held = STAGES.map((_, stage) => [stage > 2 ? weights / ranks : weights, stage > 1 ? gradients / ranks : gradients, stage > 0 ? slots / ranks : slots]);
    const shapes = [];
    held.forEach((parts, row) => {
      const y = 14 + row * 42;
      let at = left;
      shapes.push(label(left - 8, y + 19, STAGES[row], "right"));
      parts.forEach((bytes, place) => {
        shapes.push(bar(at, y, across(bytes), 28, "abc"[place]));
        at += across(bytes);
      });
      shapes.push(label(at + 8, y + 19, `${n(sum(parts), 3)} bytes, ${n(100 * sum(parts) / sum(held[0]), 3)} %`, "left dim"));
    });
    const y = 14 + 4 * 42;
    shapes.push(line([[left, 6], [left, y], [left + across(most), y]], "axis"));
    for (const bytes of [0, 4, 8, 12, 16]) shapes.push(label(left + across(bytes), y + 16, n(bytes), "dim"));
    ["weights", "gradients", "slots"].forEach((name, place) => shapes.push(bar(left + place * 130, y + 34, 24, 14, "abc"[place]), label(left + 30 + place * 130, y + 46, name, "left")));
    return {
      width, height: y + 60, shapes,
      told: `${kind}, ${ranks} rank${ranks === 1 ? "" : "s"}: for each weight ${held.map((parts, row) => `${n(sum(parts), 3)} bytes under ${STAGES[row]}`).join(", ")}.`,
      caption: `Measured: bytes on the fullest of ${NUMBERS.ranks} ranks, Adam, float64, ${NUMBERS.count} weights`, head: ["", "weights", "gradients", "slots"],
      rows: STAGES.map((way) => [way, ...["weights", "gradients", "slots"].map((name) => Math.max(...NUMBERS.held[way][name]))]),
    };
  },
});
