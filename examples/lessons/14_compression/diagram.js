// Trains the lesson's least squares in the page, with the message and the memory that you choose.
const MESSAGES = ["all of it", "largest", "signs"];

function compressed(message, count, whole) {
  if (message === "all of it") return whole;
  const size = mean(whole.map(Math.abs));
  if (message === "signs") return whole.map((value) => (value >= 0 ? size : -size));
  const places = range(whole.length).sort((one, other) => Math.abs(whole[other]) - Math.abs(whole[one]) || one - other).slice(0, count);
  return whole.map((value, place) => (places.includes(place) ? value : 0));
}

function train(message, count, feedback, rate) {
  const { x, y, ranks, size, steps } = NUMBERS, piece = x.length / ranks;
  const off = (weights, row) => sum(x[row].map((value, k) => value * weights[k])) - y[row];
  const memory = range(ranks).map(() => range(size).map(() => 0)), losses = [];
  let weights = range(size).map(() => 0);
  for (let step = 0; step <= steps; step++) {
    losses.push(Math.max(1e-12, mean(x.map((_, row) => off(weights, row) ** 2)) - NUMBERS.best));
    const sent = memory.map((kept, rank) => {
      const rows = range(piece, rank * piece), errors = rows.map((row) => off(weights, row));
      const whole = kept.map((left, k) => left + 2 * mean(rows.map((row, at) => errors[at] * x[row][k])));
      const message_ = compressed(message, count, whole);
      if (feedback) memory[rank] = whole.map((value, k) => value - message_[k]);
      return message_;
    });
    weights = weights.map((weight, k) => weight - rate * mean(sent.map((each) => each[k])));
  }
  return losses;
}

diagram({
  about: "The lesson's examples on as many ranks, trained anew at every change. How far the loss is above the least one, logarithmic, by step.",
  controls: [
    { name: "message", label: "What is sent", options: MESSAGES, value: "largest" },
    { name: "count", label: "Elements, of the largest", min: 1, max: NUMBERS.size, value: NUMBERS.count },
    { name: "rate", label: "Learning rate", min: 0.01, max: 0.12, step: 0.01, value: NUMBERS.rate },
  ],
  draw({ message, count, rate }) {
    const width = 600, without = train(message, count, false, rate), within = train(message, count, true, rate), whole = train("all of it", count, false, rate);
    const bytes = { "all of it": 8 * NUMBERS.size, largest: count * 12, signs: Math.ceil(NUMBERS.size / 8) + 8 }[message], end = (losses) => n(losses[losses.length - 1], 3);
    const shapes = chart(70, 10, width - 90, 250, { "without feedback": without, "with feedback": within, "whole gradient": whole }, { log: true, low: 1e-5, high: 100, across: "step" });
    return {
      width, height: 290, shapes,
      told: `${message === "largest" ? `The ${count} largest of ${NUMBERS.size} elements` : message === "signs" ? "Signs and the mean size" : "The whole gradient"}: ${bytes} bytes of ${8 * NUMBERS.size}. After ${NUMBERS.steps} steps at rate ${n(rate)} the loss is ${end(without)} above the least without feedback, ${end(within)} with it, ${end(whole)} with the whole gradient.`,
      caption: `Measured, ${NUMBERS.ranks} ranks, ${NUMBERS.steps} steps at rate ${n(NUMBERS.rate)}`, head: ["what is sent", "bytes", "above the least loss"],
      rows: Object.entries(NUMBERS.excess).map(([name, value]) => [name, NUMBERS.sent[name], n(value, 3)]),
    };
  },
});
