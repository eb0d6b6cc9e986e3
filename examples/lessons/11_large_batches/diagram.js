// Trains the lesson's net on the lesson's data, in the page, with the towers and the rule that you choose.
diagram({
  about: "The lesson's net and data, trained anew at every change. Loss over all examples, logarithmic, by examples seen.",
  controls: [
    { name: "towers", label: "Towers", options: [1, 2, 4, 8], value: NUMBERS.towers },
    { name: "rule", label: "Rate", options: ["as for one tower", "scaled"], value: "scaled" },
    { name: "warm", label: "Steps of warm-up", min: 0, max: 32, step: 4, value: 0 },
  ],
  draw({ towers, rule, warm }) {
    const { x, y, batch, epochs } = NUMBERS, train = (batch, rate, warm, keep) => {
      const w1 = NUMBERS.w1.map((row) => [...row]), w2 = [...NUMBERS.w2], losses = [];
      const forward = (row) => w2.map((_, unit) => Math.tanh(row[0] * w1[0][unit] + row[1] * w1[1][unit] + row[2] * w1[2][unit] + row[3] * w1[3][unit]));
      const error = (hidden, at) => hidden.reduce((total, value, unit) => total + value * w2[unit], 0) - y[at];
      const whole = () => mean(x.map((row, at) => error(forward(row), at) ** 2));
      for (let step = 0; step < epochs * x.length / batch; step++) {
        if (step % keep === 0) losses.push(whole());
        const g1 = w1.map((row) => row.map(() => 0)), g2 = w2.map(() => 0), now = warm ? rate * Math.min(1, step / warm) : rate;
        for (let each = 0; each < batch; each++) {
          const at = (step * batch + each) % x.length, hidden = forward(x[at]), slope = 2 * error(hidden, at) / batch;
          hidden.forEach((value, unit) => {
            g2[unit] += slope * value;
            const back = slope * w2[unit] * (1 - value * value);
            x[at].forEach((input, k) => { g1[k][unit] += back * input; });
          });
        }
        w2.forEach((_, unit) => { w2[unit] -= now * g2[unit]; });
        w1.forEach((row, k) => row.forEach((_, unit) => { row[unit] -= now * g1[k][unit]; }));
      }
      losses.push(whole());
      return losses;
    };
    const rate = rule === "scaled" ? NUMBERS.rate * towers : NUMBERS.rate, keep = NUMBERS.towers / towers;
    const chosen = train(batch * towers, rate, warm, keep), base = NUMBERS.torch.runs["one tower"].losses;
    const last = chosen[chosen.length - 1], goal = base[base.length - 1], width = 560, steps = epochs * x.length / (batch * towers);
    const shapes = chart(60, 14, width - 80, 210, { [`${towers} tower${towers > 1 ? "s" : ""}, rate ${n(rate, 3)}`]: chosen, "one tower, measured": base }, { log: true, low: goal * 0.8, high: 100, across: "examples seen", end: epochs * x.length });
    const curve = range(steps).map((step) => warm ? rate * Math.min(1, step / warm) : rate);
    shapes.push(...chart(60, 256, width - 80, 60, { "learning rate": curve }, { low: 0, high: NUMBERS.scaled, across: "step" }));
    const verdict = !(last < 10 * base[0]) ? "It blows up" : last < goal * 1.1 ? "It ends where one tower does, or lower" : last < goal * 1.5 ? "It ends a little higher than one tower" : "It learns less than one tower";
    return {
      width, height: 340, shapes,
      told: `${towers} tower${towers > 1 ? "s" : ""}, batch ${batch * towers}, rate ${n(rate, 3)}${warm ? `, warmed up over ${warm} steps` : ""}: the loss ends at ${Number.isFinite(last) ? n(last, 3) : "infinity"} after ${steps} steps. ${verdict}.`,
      caption: `Measured, loss after ${epochs} epochs`, head: ["", "loss"],
      rows: Object.entries(NUMBERS.last).map(([name, value]) => [name, typeof value === "number" ? n(value, 4) : value]),
    };
  },
});
