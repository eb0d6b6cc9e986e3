// Puts the parts together: which run is shown, which of its tensors, and which one is open.

async function start() {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  if (!data.grids.length) return;
  const readout = find("readout");
  if (typeof DecompressionStream === "undefined") {
    readout.textContent = "The heat map needs a browser of 2023 or later: this one lacks DecompressionStream.";
    return;
  }
  await readKeys(data.grids);
  const [run, filter, only, panel] = ["run", "filter", "only", "tensor"].map(find);
  const heat = new HeatMap(find("heat"), find("overview"), open, (row, column) => {
    readout.textContent = grid().keys[row] + ", " + told(cellOf(grid(), row, column));
  });

  function grid() { return data.grids[run.value]; }

  // A link to a cell names the run, the step and the tensor, not their places: it holds in the next report too.
  function linkTo(row, column) {
    return "#" + new URLSearchParams({ run: grid().label, step: grid().steps[column], tensor: grid().keys[row] });
  }

  function linked() {
    const named = new URLSearchParams(location.hash.slice(1)), number = data.grids.findIndex(({ label }) => label === named.get("run"));
    if (number < 0) return undefined;
    const row = data.grids[number].keys.indexOf(named.get("tensor")), column = data.grids[number].steps.indexOf(Number(named.get("step")));
    return row < 0 || column < 0 ? undefined : [number, row, column];
  }

  function follow() {
    const place = linked();
    if (!place) return;
    run.value = place[0];
    filter.value = "";
    only.checked = false;
    choose(place[1], place[2]);
    find("map").scrollIntoView();
  }

  function show(row, column) {
    const first = data.firsts.find(({ place }) => String(place) === String([run.value, row, column]));
    showTensor(panel, grid(), row, column, first, closely(data, grid(), Number(run.value), row, column));
    panel.append(element("p", {}, element("a", { href: linkTo(row, column), text: "Link to this tensor and step" })));
  }

  function open(row, column, focus) {
    show(row, column);
    history.replaceState(null, "", linkTo(row, column));
    if (focus) panel.focus();
    else panel.scrollIntoView({ block: "nearest" });
  }

  async function choose(row, column) {
    const wanted = run.value;
    delete document.documentElement.dataset.drawn;
    if (!grid().unpacked) await unpack(wanted, grid());
    if (run.value !== wanted) return;
    list(row, column);
    show(row, column);
    document.documentElement.dataset.drawn = Math.round(performance.now());
  }

  function list(row = heat.order[heat.row], column = heat.column) {
    if (!grid().unpacked) return;
    const { keys, steps, states, state } = grid(), wanted = filter.value.toLowerCase();
    const bad = states.map(([verdict]) => verdict === "different" || verdict === "incomparable");
    const kept = (at) => (!wanted || keys[at].toLowerCase().includes(wanted)) && (!only.checked || state.subarray(at * steps.length, (at + 1) * steps.length).some((found) => bad[found]));
    const order = Array.from(keys.keys()).filter(kept);
    find("count").textContent = order.length.toLocaleString("en") + " of " + keys.length.toLocaleString("en") + " tensors";
    heat.show(grid(), order, order.indexOf(row), column);
  }

  function recolour() {
    heat.colours = readColours();
    legend(find("legend"), heat.colours);
    heat.resize();
  }

  run.addEventListener("change", () => choose(0, 0));
  filter.addEventListener("input", () => list());
  only.addEventListener("change", () => list());
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") find("heat").focus(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("hashchange", follow);
  const place = linked(), [number, row, column] = place || data.opened;
  run.value = number;
  legend(find("legend"), heat.colours);
  if (place) find("map").scrollIntoView();
  choose(row, column);
}

function legend(box, colours) {
  const ramp = (verdict, from, to) => {
    const canvas = element("canvas", {}), pen = sized(canvas, 150, 12);
    colours[verdict].forEach((colour, place) => { pen.fillStyle = colour; pen.fillRect((place * 150) / 65, 0, 3, 12); });
    return element("span", {}, from, canvas, to);
  };
  const plain = (name, text) => {
    const mark = element("i", {});
    mark.style.background = colours[name];
    return element("span", {}, mark, text);
  };
  box.replaceChildren(
    ramp("same", "same: 1e-6 or less", "1"), ramp("different", "different: 1", "1e12 or more times the tolerance"),
    plain("incomparable", "cannot be compared"), plain("not_run", "not judged"));
}

start();
