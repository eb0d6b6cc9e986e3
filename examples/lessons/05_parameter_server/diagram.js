// The lesson's loss, trained by a parameter server with more workers, synchronous or asynchronous.
diagram({
  about: "Each worker computes the gradient of its piece of the lesson's batch. Asynchronous: every gradient is applied when all the others have been.",
  controls: [
    { name: "workers", label: "Workers", options: [1, 2, 4, 8], value: 2 },
    { name: "how", label: "Updates", options: ["synchronous", "asynchronous"], value: "asynchronous" },
    { name: "rate", label: "Learning rate", min: 0.01, max: 0.4, step: 0.005, value: NUMBERS.learning_rate },
  ],
  draw({ workers, how, rate }) {
    const rounds = 8, piece = NUMBERS.x.length / workers, width = 560;
    const gradient = (weights, worker) => {
      const rows = range(piece, worker * piece);
      const errors = rows.map((row) => sum(NUMBERS.x[row].map((value, k) => value * weights[k])) - NUMBERS.y[row]);
      return weights.map((_, k) => 2 * mean(rows.map((row, at) => errors[at] * NUMBERS.x[row][k])));
    };
    const loss = (weights) => mean(NUMBERS.x.map((row, at) => (sum(row.map((value, k) => value * weights[k])) - NUMBERS.y[at]) ** 2));
    const move = (weights, gradient, rate) => weights.map((weight, k) => weight - rate * gradient[k]);
    let steady = NUMBERS.weights, racing = NUMBERS.weights, updates = 0;
    const inStep = [loss(steady)], outOfStep = [loss(racing)];
    for (let round = 0; round < rounds; round++) {
      const all = range(workers).map((worker) => gradient(steady, worker));
      steady = move(steady, steady.map((_, k) => mean(all.map((each) => each[k]))), rate);
      const held = range(workers).map((worker) => gradient(racing, worker));
      held.forEach((each) => { racing = move(racing, each, rate); });
      inStep.push(loss(steady));
      outOfStep.push(loss(racing));
    }
    const out = how === "asynchronous", most = Math.max(...inStep) * 20;
    updates = out ? rounds * workers : rounds;
    const shapes = [box(180, 6, 200, 38, ["parameter server", `${updates} updates`], "good")];
    const lane = (width - 8) / workers;
    range(workers).forEach((worker) => {
      const middle = 4 + (worker + 0.5) * lane, from = 280 + (middle - 280) * 0.3;
      shapes.push(arrow(from, 46, middle, 82), box(middle - lane / 2 + 3, 84, lane - 6, 40, [`worker ${worker}`, out ? `late by ${worker}` : "waits"], out && worker ? "bad" : ""));
    });
    shapes.push(...chart(60, 144, width - 80, 150, { "synchronous": inStep, "asynchronous": outOfStep }, { log: true, high: most, across: "gradients of each worker" }));
    const last = (out ? outOfStep : inStep)[rounds];
    return {
      width, height: 320, shapes,
      told: `${workers} worker${workers > 1 ? "s" : ""} ${how}, rate ${n(rate)}: ${rounds} gradients each make ${updates} updates, the last gradient of a round is stale by ${out ? workers - 1 : 0}. The loss ends at ${n(last, 3)}${last > inStep[0] ? ", higher than it began" : ""}.`,
      caption: `Measured, two workers, ${NUMBERS.steps} gradients each, rate ${n(NUMBERS.learning_rate)}`, head: ["", "updates", "first weight", "loss"],
      rows: [
        ["parameter server, synchronous", NUMBERS.tf.synchronous[0].updates, NUMBERS.sync[0], NUMBERS.sync_loss],
        ["DDP", NUMBERS.steps, NUMBERS.ddp[0], NUMBERS.sync_loss],
        ["parameter server, asynchronous", NUMBERS.tf.even.updates, NUMBERS.tf.even.weights[0], NUMBERS.even_loss],
      ],
    };
  },
});
