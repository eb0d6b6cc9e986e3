// A quadratic whose gradients are behind, updated in the page: the distance from the minimum, by update.
const LENGTH = 120, LIMIT = (delay) => 2 * Math.sin(Math.PI / (4 * delay + 2));

function updated(rate, delay, momentum) {
  const seen = [1];
  let speed = 0;
  for (let update = 0; update < LENGTH; update++) {
    speed = momentum * speed - rate * seen[Math.max(0, seen.length - 1 - delay)];
    seen.push(seen[seen.length - 1] + speed);
  }
  return seen.map((value) => Math.max(1e-300, Math.abs(value)));
}

diagram({
  about: "Curvature 1, distance 1 at the beginning. With as many workers as delay + 1, a gradient is this far behind on the mean. The distance from the minimum, logarithmic, by update.",
  controls: [
    { name: "delay", label: "Updates behind", min: 0, max: 31, value: 3 },
    { name: "rate", label: "Rate", min: 0.02, max: 1.2, step: 0.02, value: 0.3 },
    { name: "momentum", label: "Momentum", min: 0, max: 0.9, step: 0.1, value: 0 },
  ],
  draw({ delay, rate, momentum }) {
    const width = 600, late = updated(rate, delay, momentum), prompt = updated(rate, 0, momentum), safe = updated(LIMIT(delay) / 3, delay, 0);
    const shapes = chart(70, 10, width - 90, 250, { "as chosen": late, "nothing behind": prompt, "a third of the limit": safe }, { log: true, low: 1e-6, high: 1e4, across: "update" });
    const end = (values) => n(values[values.length - 1], 3), beyond = rate > LIMIT(delay);
    return {
      width, height: 290, shapes,
      told: `${delay} behind, rate ${n(rate)}${momentum ? `, momentum ${n(momentum)}` : ""}: after ${LENGTH} updates the distance is ${end(late)}, with nothing behind ${end(prompt)}. ` +
        `Without momentum the limit is ${n(LIMIT(delay), 3)}; this rate is ${beyond ? "beyond" : "below"} it.`,
      caption: `Measured: a net, ${NUMBERS.updates} updates at rate ${n(NUMBERS.rate)}`, head: ["updates behind", "loss"],
      rows: Object.entries(NUMBERS.ends).map(([behind, loss]) => [behind, n(loss, 3)]),
    };
  },
});
