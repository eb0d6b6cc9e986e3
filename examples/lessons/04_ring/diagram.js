// The ring for any number of ranks and of chunks, one step after the other. What is sent is counted while it is played:
// for four ranks these are the bytes that were measured.
const TENSORS = { "0.48 MB, as measured": NUMBERS.size, "25 MB, a bucket of DDP": 25e6, "400 MB": 400e6 };

function ring(ranks, chunks, until) {
  const holds = range(ranks).map((rank) => range(chunks).map(() => [rank])), steps = 2 * (ranks - 1);
  const sent = range(ranks).map(() => 0);
  let last = [], links = 0;
  range(steps).forEach((step) => {
    const reducing = step < ranks - 1, turn = reducing ? step : step - ranks, before = holds.map((row) => [...row]);
    const going = range(ranks).map((rank) => range(chunks).filter((chunk) => (chunk + turn - rank + ranks) % ranks === 0));
    going.forEach((own, rank) => (sent[rank] += own.length));
    links += Math.max(...going.map((own) => own.length));
    if (step >= until) return;
    last = going;
    going.forEach((own, rank) => {
      const right = (rank + 1) % ranks;
      for (const chunk of own) holds[right][chunk] = reducing ? [...before[rank][chunk], ...before[right][chunk]] : before[rank][chunk];
    });
  });
  return { holds, last, sent, links, steps };
}

function why(ranks, chunks) {
  if (chunks < ranks) return `Fewer chunks than ranks: ${ranks - chunks} of ${ranks} links idle in every step`;
  if (chunks === ranks) return "As many chunks as ranks: every link carries one chunk in every step";
  if (chunks % ranks === 0) return `${chunks / ranks} chunks a link and step: the same bytes in more messages`;
  return `${chunks} chunks on ${ranks} links: some carry one more, and the others wait`;
}

diagram({
  about: "Which ranks' parts are in each chunk. A chunk is finished, and green, when it holds everybody's; 2–0 is from rank 2 round the ring to rank 0, ▼ marks what was sent last.",
  controls: [
    { name: "ranks", label: "Ranks", min: 2, max: 8, value: NUMBERS.most },
    { name: "chunks", label: "Chunks", min: 1, max: 16, value: NUMBERS.most },
    { name: "step", label: "Steps done", min: 0, max: 14, value: 3 },
    { name: "tensor", label: "Tensor", options: Object.keys(TENSORS), value: Object.keys(TENSORS)[0] },
  ],
  draw({ ranks, chunks, step, tensor }) {
    const { holds, last, sent, links, steps } = ring(ranks, chunks, step), done = Math.min(step, steps);
    const width = 620, left = 66, cell = (width - left - 4) / chunks, tall = 30, shapes = [], bytes = TENSORS[tensor];
    range(chunks).forEach((chunk) => shapes.push(label(left + (chunk + 0.5) * cell, 13, chunks > 8 ? String(chunk) : `chunk ${chunk}`, "dim")));
    holds.forEach((row, rank) => {
      const y = 20 + rank * (tall + 6);
      shapes.push(label(left - 8, y + 19, `rank ${rank}`, "right"));
      row.forEach((who, chunk) => {
        const whole = who.length === ranks, going = last.length && last[rank].includes(chunk);
        const words = whole ? "all" : who.length > 2 ? `${who[0]}–${who.at(-1)}` : who.join("+");
        shapes.push(box(left + chunk * cell + 1.5, y, cell - 3, tall, words, whole ? "good" : going ? "soft" : ""));
        if (going) shapes.push(label(left + (chunk + 1) * cell - 8, y + 11, "▼", "dim"));
      });
    });
    const y = 34 + ranks * (tall + 6), finished = holds.flat().filter((who) => who.length === ranks).length;
    const most = Math.max(...sent) / chunks, waits = links / chunks, scale = (value) => 250 * value / 14;
    const told = (value) => `${n(value, 4)} tensors, ${(value * bytes).toLocaleString("en", { maximumFractionDigits: 0 })} B`;
    [["busiest rank sends", most, "a"], ["steps, one after the other", waits, "c"], ["through rank 0, its traffic", steps, "b"]].forEach(([words, value, kind], at) => {
      shapes.push(label(180, y + 15 + at * 28, words, "right"), bar(190, y + at * 28, scale(value), 20, kind), label(196 + scale(value), y + 15 + at * 28, told(value), "left"));
    });
    shapes.push(label(left - 56, y + 106, why(ranks, chunks), "left"));
    const phase = done === 0 ? "Nothing is sent yet" : done < ranks ? "Reduce-scatter: partial sums go round" : done < steps ? "All-gather: finished chunks go round" : "Everybody has the sum";
    return {
      width, height: y + 118, shapes,
      told: `${ranks} ranks, ${chunks} chunks, ${done} of ${steps} steps done. ${phase}; ${finished} of ${ranks * chunks} chunks are finished. ` +
        `In all the busiest rank sends ${told(most)}; the steps, each as long as its fullest link, take ${told(waits)}. ${why(ranks, chunks)}.`,
      caption: `Measured on ${NUMBERS.most} ranks, ${n(bytes === NUMBERS.size ? bytes : NUMBERS.size)} bytes on each`,
      head: ["chunks", "busiest rank sends", "steps, one after the other", "messages of a rank"],
      rows: NUMBERS.ways.map((way) => [String(way.chunks), way.busiest, way.waits, way.messages]),
    };
  },
});
