"use strict";
// Draws the recorded graph: adds up the sizes of boxes whose rows Python has decided, and opens, moves and explains them.

const BOX = { width: 190, height: 40 }, GAP = { x: 22, y: 30 }, HEAD = 28, PAD = 12, MOST_BOXES = 3000, MOST_ARROWS = 5000, MOST_LISTED = 50;
const TOWERS = new Set(["forward", "backward", "after"]);
const SVG = "http://www.w3.org/2000/svg";
const find = (id) => document.getElementById(id);
const data = JSON.parse(find("data").textContent);
const [drawing, canvas, bandsAt, boxesAt, arrowsAt, details, status] = ["drawing", "canvas", "bands", "boxes", "arrows", "details", "status"].map(find);
const partOf = (op) => data.parts[data.places[op][0]], towerOf = (op) => data.places[op][1];
const text = ([texts, numbers], op) => texts[numbers[op]];
const variableOf = new Map(data.variables), marksOf = new Map(), hazardsOf = new Map(), trees = {};
for (const [op, words] of data.marks) marksOf.set(op, [...(marksOf.get(op) || []), words]);
data.hazards.forEach(([, , ops], number) => ops.forEach((op) => hazardsOf.set(op, [...(hazardsOf.get(op) || []), number])));
const users = data.names.map(() => []);
data.inputs.forEach((taken, op) => taken.forEach((each) => users[each].push(op)));

let tree, boxes = [], frames = [], at = new Int32Array(data.names.length), chosen = null, place = { x: 0, y: 0, k: 1 };

function svg(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function html(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") made.addEventListener("click", value);
    else made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

const short = (label, most = 23) => (label.length <= most ? label : label.slice(0, 9) + "…" + label.slice(10 - most));
const last = (name) => name.slice(name.lastIndexOf("/") + 1);

// ---- the tree of boxes -------------------------------------------------------------------------------------------------

function nodeOf(given, part, tower, parent) {
  const level = parent ? parent.level + 1 : 1;
  if (typeof given === "number") return { op: given, label: last(data.names[given]), part, tower, parent, level, ops: [given] };
  const node = { label: given[0], part, tower, parent, level, open: false, ranks: given[2] };
  node.children = given[1].map((each) => nodeOf(each, part, tower, node));
  node.ops = node.children.flatMap((each) => each.ops);
  return node;
}

function treeOf(view) {
  const found = {};
  for (const part of data.parts) {
    const given = view[part];
    if (TOWERS.has(part)) {
      found[part] = { rows: given.rows, cells: given.cells.map((cells, tower) => cells.map(([row, each]) => ({ row, node: nodeOf(each, part, tower, null) }))) };
    } else if (given) {
      found[part] = { ranks: given[2], children: given[1].map((each) => nodeOf(each, part, -1, null)) };
    }
  }
  return found;
}

function tops() {
  return data.parts.flatMap((part) => {
    const found = tree[part];
    if (!found) return [];
    return found.cells ? found.cells.flatMap((cells) => cells.map(({ node }) => node)) : found.children;
  });
}

// ---- sizes and places --------------------------------------------------------------------------------------------------

function measure(node) {
  if (!node.open) { node.w = BOX.width; node.h = BOX.height; return; }
  const [w, h] = stack(node.children, node.ranks, node.part === "variables" ? 2 : 3, PAD, HEAD);
  node.w = Math.max(BOX.width, w + 2 * PAD);
  node.h = h + HEAD + PAD;
}

// Puts boxes into rows by their ranks, at most `most` beside each other; their places are within the box around them.
function stack(children, ranks, most, left, top) {
  const rows = new Map();
  children.forEach((each, number) => { measure(each); rows.set(ranks[number], [...(rows.get(ranks[number]) || []), each]); });
  let [width, y] = [0, top];
  for (const rank of [...rows.keys()].sort((one, other) => one - other)) {
    const row = rows.get(rank);
    for (let start = 0; start < row.length; start += most) {
      const part = row.slice(start, start + most);
      let x = left;
      for (const each of part) { each.x = x; each.y = y; x += each.w + GAP.x; }
      width = Math.max(width, x - GAP.x - left);
      y += Math.max(...part.map(({ h }) => h)) + GAP.y;
    }
  }
  return [width, Math.max(0, y - top - GAP.y)];
}

function arrange() {
  boxes = [];
  frames = [];
  let x = 0, y = 0;
  if (tree.variables) {
    const children = tree.variables.children;
    const [w, h] = stack(children, children.map((_, number) => number), 1, PAD, HEAD);
    frames.push({ part: "variables", title: data.titles.variables, x: 0, y: 0, w: w + 2 * PAD, h: h + HEAD + PAD });
    children.forEach((each) => settle(each, 0, 0));
    x = w + 2 * PAD + 4 * GAP.x;
  }
  const columns = data.towers.map((_, tower) => Math.max(BOX.width, ...["forward", "backward", "after"].flatMap((part) => tree[part].cells[tower].map(({ node }) => { measure(node); return node.w; }))));
  const width = columns.reduce((sum, each) => sum + each + 3 * GAP.x, 0);
  y = across("shared", x, y, width);
  for (const part of TOWERS) y = towers(part, x, y, columns, width);
  y = across("combination", x, y, width);
  across("update", x, y, width);
}

function across(part, x, y, width) {
  const found = tree[part];
  if (!found) return y;
  const [w, h] = stack(found.children, found.ranks, Math.max(3, Math.floor(width / (BOX.width + GAP.x))), PAD, HEAD);
  frames.push({ part, title: data.titles[part], x, y, w: Math.max(w, width) + 2 * PAD, h: h + HEAD + PAD });
  found.children.forEach((each) => settle(each, x, y));
  return y + h + HEAD + PAD + GAP.y;
}

function towers(part, x, y, columns, width) {
  const { rows, cells } = tree[part];
  if (!rows) return y;
  const heights = new Array(rows).fill(0);
  cells.forEach((column) => column.forEach(({ row, node }) => { heights[row] = Math.max(heights[row], node.h); }));
  const starts = [], top = y + HEAD + 22;
  heights.reduce((start, height, row) => { starts[row] = start; return start + height + GAP.y; }, top);
  const bottom = starts[rows - 1] + heights[rows - 1];
  frames.push({ part, title: data.titles[part], x, y, w: width + 2 * PAD, h: bottom - y + PAD });
  let left = x + PAD + GAP.x;
  cells.forEach((column, tower) => {
    frames.push({ part, tower, title: short(data.towers[tower].title + "  " + data.towers[tower].devices, 60), x: left, y: y + HEAD - 6, w: columns[tower], h: 0 });
    column.forEach(({ row, node }) => { node.x = (columns[tower] - node.w) / 2; node.y = 0; settle(node, left, starts[row]); });
    left += columns[tower] + 3 * GAP.x;
  });
  return bottom + PAD + GAP.y;
}

// Gives a box and what is in it its place on the canvas, and lists them.
function settle(node, x, y) {
  const box = { node, x: x + node.x, y: y + node.y, w: node.w, h: node.h, number: boxes.length };
  boxes.push(box);
  node.box = box;
  if (node.open) node.children.forEach((each) => settle(each, box.x, box.y));
  else node.ops.forEach((op) => { at[op] = box.number; });
}

// ---- drawing -----------------------------------------------------------------------------------------------------------

function draw() {
  arrange();
  bandsAt.replaceChildren(...frames.flatMap(bandOf));
  boxesAt.replaceChildren(...boxes.map(elementOf));
  if (chosen && (!chosen.box || boxes[chosen.box.number] !== chosen.box)) chosen = null;
  const first = chosen ? chosen.box : boxes[0];
  if (first) first.element.setAttribute("tabindex", "0");
  connect();
  status.textContent = boxes.length.toLocaleString("en") + " boxes, " + data.names.length.toLocaleString("en") + " ops";
}

function bandOf({ part, tower, title, x, y, w, h }) {
  const band = svg("g", { class: "band" });
  if (h) band.append(svg("rect", { x, y, width: w, height: h, rx: 8 }));
  band.append(svg("text", { x: x + PAD, y: y + 18 }, title));
  if (tower !== undefined) return [band];
  data.hazards.filter(([, where]) => where === part).forEach(([name], number) => {
    const link = svg("a", { href: "#hazard-" + data.hazards.findIndex((each) => each[0] === name && each[1] === part) });
    link.append(svg("text", { x: x + PAD + 260 + 230 * number, y: y + 18, class: "hazard-name" }, "⚠ " + short(name)));
    band.append(link);
  });
  return [band];
}

function words(node) {
  const where = data.titles[node.part] + (node.tower >= 0 ? ", " + data.towers[node.tower].title : "");
  const what = node.op === undefined ? "group of " + node.ops.length + " ops" : text(data.kinds, node.op);
  const count = hazardsIn(node).length;
  return node.label + ", " + what + ", " + where + (count ? ", " + count + (count > 1 ? " hazards" : " hazard") : "");
}

function hazardsIn(node) {
  return [...new Set(node.ops.flatMap((op) => hazardsOf.get(op) || []))].sort((one, other) => one - other);
}

function elementOf(box) {
  const { node } = box, group = node.op === undefined;
  const made = svg("g", {
    class: "box " + node.part + (group ? " group" : "") + (node.open ? " open" : "") + (node === chosen ? " chosen" : ""),
    role: "treeitem", tabindex: "-1", "aria-level": node.level, "aria-label": words(node), "aria-selected": String(node === chosen), transform: `translate(${box.x},${box.y})`,
  });
  if (group) made.setAttribute("aria-expanded", String(node.open));
  made.append(svg("rect", { width: box.w, height: box.h, rx: group ? 9 : 3 }));
  made.append(svg("title", {}, node.op === undefined ? node.label : data.names[node.op]));
  // Of a line of the script file and number, and below them its text.
  const [label, line] = group ? node.label.split("  ", 2) : [node.label];
  const below = !group ? text(data.kinds, node.op) : line || node.ops.length.toLocaleString("en") + (node.ops.length > 1 ? " ops" : " op");
  made.append(svg("text", { x: 10, y: 17 }, (group ? (node.open ? "▾ " : "▸ ") : "") + short(label)));
  if (!node.open) made.append(svg("text", { x: 10, y: 33 }, line ? below.slice(0, 24) + (below.length > 24 ? "…" : "") : short(below)));
  if (!node.open && hazardsIn(node).length) made.append(svg("circle", { class: "sign", cx: box.w - 13, cy: 13, r: 9 }), svg("text", { class: "mark", x: box.w - 13, y: 17.5 }, "!"));
  box.element = made;
  made.box = box;
  return made;
}

// What is drawn only where it is wanted: reads and writes of variables, activations for the backward pass, waiting.
function isBeside(from, to, kind) {
  return kind !== "data" || partOf(from) === "variables" || (partOf(to) === "backward" && partOf(from) !== "backward" && partOf(from) !== "shared");
}

function connect() {
  const found = new Map(), mode = find("edges").value, size = boxes.length;
  const own = chosen ? new Set(chosen.ops) : new Set();
  const add = (from, to, kind) => {
    const [one, other] = [at[from], at[to]];
    if (one === other) return;
    const touches = own.has(from) !== own.has(to);
    if (!touches && (mode === "chosen" || (mode === "flow" && isBeside(from, to, kind)))) return;
    const key = (one * size + other) * 2 + (kind === "writes" ? 1 : 0), arrow = found.get(key);
    if (arrow) { arrow.count += 1; arrow.touches ||= touches; }
    else if (found.size < MOST_ARROWS) found.set(key, { one, other, kind, touches, count: 1 });
  };
  data.inputs.forEach((taken, op) => taken.forEach((each) => add(each, op, "data")));
  data.controls.forEach((taken, op) => taken.forEach((each) => add(each, op, "control")));
  data.writes.forEach(([op, variable]) => add(op, variable, "writes"));
  const drawn = [...found.values()].sort((one, other) => one.touches - other.touches);
  arrowsAt.replaceChildren(...drawn.map(({ one, other, kind, touches }) => svg("path", {
    class: "edge" + (kind === "data" ? "" : " writes") + (touches ? " chosen" : ""), d: wayOf(boxes[one], boxes[other]), "marker-end": touches ? "url(#tip-chosen)" : "url(#tip)",
  })));
}

function wayOf(one, other) {
  if (other.y >= one.y + one.h) {
    const [x1, y1, x2, y2] = [one.x + one.w / 2, one.y + one.h, other.x + other.w / 2, other.y], bend = Math.min(80, (y2 - y1) / 2);
    return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
  }
  const right = other.x >= one.x, x1 = right ? one.x + one.w : one.x, x2 = other.x > x1 ? other.x : other.x + other.w;
  const [y1, y2] = [one.y + Math.min(one.h, BOX.height) / 2, other.y + Math.min(other.h, BOX.height) / 2];
  return `M${x1} ${y1}C${x1 + (right ? 60 : -60)} ${y1} ${x2 + (other.x > x1 ? -60 : 60)} ${y2} ${x2} ${y2}`;
}

// ---- opening, choosing, moving -----------------------------------------------------------------------------------------

function toggle(node, open = !node.open) {
  if (node.op !== undefined || node.open === open) return;
  if (open && boxes.length + node.children.length > MOST_BOXES) {
    status.textContent = "Close something first: " + MOST_BOXES.toLocaleString("en") + " boxes are as many as are drawn.";
    return;
  }
  const before = node.box;
  node.open = open;
  draw();
  // The box stays where it was in the window.
  place.x += (before.x - node.box.x) * place.k;
  place.y += (before.y - node.box.y) * place.k;
  move();
}

function openAll() {
  let [level, count] = [tops(), tops().length];
  while (level.length) {
    const groups = level.filter((node) => node.op === undefined), following = [];
    for (const node of groups) {
      count += node.children.length;
      if (count > MOST_BOXES) { draw(); status.textContent = "Opened as far as " + MOST_BOXES.toLocaleString("en") + " boxes."; return; }
      node.open = true;
      following.push(...node.children);
    }
    level = following;
  }
  draw();
}

function closeAll(nodes = tops()) {
  for (const node of nodes) if (node.op === undefined) { node.open = false; closeAll(node.children); }
}

function choose(node, focus) {
  for (const box of boxes) {
    const now = box.node === node;
    if (now || box.node === chosen) {
      box.element.classList.toggle("chosen", now);
      box.element.setAttribute("aria-selected", String(now));
    }
    box.element.setAttribute("tabindex", now ? "0" : "-1");
  }
  chosen = node;
  connect();
  explain(node);
  if (focus) { show(node.box); node.box.element.focus({ preventScroll: true }); }
}

function reveal(op) {
  const holds = (nodes) => nodes.find((node) => node.op === op || (node.op === undefined && node.ops.includes(op)));
  let node = holds(tops());
  while (node && node.op === undefined) { node.open = true; node = holds(node.children); }
  if (!node) return;
  draw();
  choose(node, true);
}

function move() { canvas.setAttribute("transform", `translate(${place.x},${place.y}) scale(${place.k})`); }

function zoom(factor, x = drawing.clientWidth / 2, y = drawing.clientHeight / 2) {
  const k = Math.min(4, Math.max(0.02, place.k * factor));
  place = { k, x: x - ((x - place.x) * k) / place.k, y: y - ((y - place.y) * k) / place.k };
  move();
}

function fit(least = 0.02) {
  const right = Math.max(1, ...frames.map(({ x, w }) => x + w)), bottom = Math.max(1, ...frames.map(({ y, h }) => y + h));
  const k = Math.min(1, Math.max(least, Math.min(drawing.clientWidth / (right + 30), drawing.clientHeight / (bottom + 30))));
  place = { k, x: Math.max(15 * k, (drawing.clientWidth - right * k) / 2), y: 15 * k };
  move();
}

// Moves the canvas so that a box is in the window.
function show({ x, y, w, h }) {
  const [left, top, k] = [place.x + x * place.k, place.y + y * place.k, place.k], edge = 30;
  const height = Math.min(h * k, drawing.clientHeight - 2 * edge), width = Math.min(w * k, drawing.clientWidth - 2 * edge);
  if (left < edge) place.x += edge - left;
  else if (left + width > drawing.clientWidth - edge) place.x -= left + width - drawing.clientWidth + edge;
  if (top < edge) place.y += edge - top;
  else if (top + height > drawing.clientHeight - edge) place.y -= top + height - drawing.clientHeight + edge;
  move();
}

const isAround = (node, inner) => { for (let each = inner.parent; each; each = each.parent) if (each === node) return true; return false; };

function neighbour(from, [dx, dy]) {
  const middle = ({ node, x, y, w, h }) => [x + w / 2, y + (node.open ? HEAD / 2 : h / 2)];
  const [x, y] = middle(from);
  let best = null, least = Infinity;
  for (const box of boxes) {
    if (box === from || isAround(box.node, from.node)) continue;
    const [bx, by] = middle(box), along = (bx - x) * dx + (by - y) * dy, aside = Math.abs((bx - x) * dy) + Math.abs((by - y) * dx);
    if (along <= 1 || aside > 4 * along) continue;
    const cost = along + 2 * aside;
    if (cost < least) [best, least] = [box, cost];
  }
  return best;
}

// ---- the panel ---------------------------------------------------------------------------------------------------------

function explain(node) {
  const group = node.op === undefined, rows = [["part", data.titles[node.part]]];
  if (node.tower >= 0) rows.push(["tower", data.towers[node.tower].title]);
  if (group) {
    rows.push(["ops", node.ops.length.toLocaleString("en")], ["kinds", counted(node.ops.map((op) => text(data.kinds, op)))]);
    rows.push(["devices", counted(node.ops.map((op) => text(data.devices, op) || "none named"))]);
  } else {
    rows.push(["op", text(data.kinds, node.op)], ["device", text(data.devices, node.op) || "none named"]);
    if (text(data.shapes, node.op)) rows.push(["shapes", text(data.shapes, node.op)]);
    if (variableOf.has(node.op)) rows.push(["variable", variableOf.get(node.op)]);
    for (const mark of new Set(marksOf.get(node.op) || [])) rows.push(["recorded as", mark]);
  }
  const list = html("dl", {});
  for (const [term, words] of rows) list.append(html("dt", {}, term), html("dd", {}, words));
  const parts = [html("h3", {}, group ? node.label : data.names[node.op]), list];
  const hazards = [...new Set([...hazardsIn(node), ...data.hazards.flatMap(([, part, ops], number) => (part === node.part && !ops.length ? [number] : []))])];
  if (hazards.length) parts.push(html("p", {}, html("strong", {}, "Hazards")), html("ul", {}, ...hazards.map((each) => html("li", {}, html("a", { href: "#hazard-" + each }, data.hazards[each][0])))));
  if (!group) {
    const lines = data.callers[node.op].map((each) => html("li", {}, html("code", {}, data.frames[each])));
    if (lines.length) parts.push(html("p", {}, html("strong", {}, "Made by")), html("ul", {}, ...lines));
    parts.push(...linked("Takes", data.inputs[node.op]), ...linked("Waits for", data.controls[node.op]), ...linked("Taken by", users[node.op]));
  }
  details.replaceChildren(...parts);
}

function counted(texts) {
  const counts = new Map();
  for (const each of texts) counts.set(each, (counts.get(each) || 0) + 1);
  const sorted = [...counts].sort((one, other) => other[1] - one[1]);
  return sorted.slice(0, 8).map(([each, count]) => each + " × " + count).join(", ") + (sorted.length > 8 ? ", …" : "");
}

function linked(heading, ops) {
  if (!ops.length) return [];
  const items = ops.slice(0, MOST_LISTED).map((op) => html("li", {}, html("button", { type: "button", click: () => reveal(op) }, data.names[op])));
  if (ops.length > MOST_LISTED) items.push(html("li", {}, (ops.length - MOST_LISTED).toLocaleString("en") + " more"));
  return [html("p", {}, html("strong", {}, heading)), html("ul", {}, ...items)];
}

function search() {
  const wanted = find("find").value.toLowerCase(), found = [];
  if (wanted) for (let op = 0; op < data.names.length && found.length < MOST_LISTED; op += 1) if (data.names[op].toLowerCase().includes(wanted)) found.push(op);
  find("matches").replaceChildren(...found.map((op) => html("li", {}, html("button", { type: "button", click: () => reveal(op) }, data.names[op]))));
  status.textContent = wanted ? found.length + (found.length === MOST_LISTED ? " or more" : "") + " found" : "";
}

// ---- hands -------------------------------------------------------------------------------------------------------------

const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

function key(event) {
  const box = event.target.box || (chosen && chosen.box) || boxes[0];
  if (!box || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("a")) return;
  const way = ARROWS[event.key];
  if (way && event.shiftKey) { place.x -= 60 * way[0]; place.y -= 60 * way[1]; move(); }
  else if (way) { const next = neighbour(box, way); if (next) choose(next.node, true); }
  else if (event.key === "Enter" || event.key === " ") {
    if (box.node.op !== undefined) { choose(box.node); details.focus(); }
    else { toggle(box.node); choose(box.node, true); }
  } else if (event.key === "Escape") { const { parent } = box.node; if (parent) { toggle(parent, false); choose(parent, true); } }
  else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
}

function drag() {
  let from = null, moved = false;
  drawing.addEventListener("pointerdown", (event) => { from = { x: event.clientX - place.x, y: event.clientY - place.y, at: [event.clientX, event.clientY] }; moved = false; });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    if (Math.hypot(event.clientX - from.at[0], event.clientY - from.at[1]) > 4) moved = true;
    if (moved) { place.x = event.clientX - from.x; place.y = event.clientY - from.y; move(); }
  });
  addEventListener("pointerup", () => { from = null; });
  addEventListener("pointercancel", () => { from = null; });
  drawing.addEventListener("click", (event) => {
    const element = event.target.closest(".box");
    if (moved || !element) return;
    const { node } = element.box;
    if (node.op === undefined) toggle(node);
    choose(node, true);
  });
  drawing.addEventListener("wheel", (event) => {
    const frame = drawing.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - frame.x, event.clientY - frame.y);
    event.preventDefault();
  }, { passive: false });
}

function start() {
  const view = find("view");
  const load = () => {
    chosen = null;
    tree = trees[view.value] ||= treeOf(data.views[view.value]);
    draw();
    fit(0.6);
  };
  view.addEventListener("change", load);
  find("edges").addEventListener("change", connect);
  find("find").addEventListener("input", search);
  find("theme").addEventListener("change", (event) => { document.documentElement.style.colorScheme = event.target.value; });
  find("open-all").addEventListener("click", () => { openAll(); fit(); });
  find("close-all").addEventListener("click", () => { closeAll(); draw(); fit(0.6); });
  find("in").addEventListener("click", () => zoom(1.25));
  find("out").addEventListener("click", () => zoom(0.8));
  find("fit").addEventListener("click", () => fit());
  drawing.addEventListener("keydown", key);
  details.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen) choose(chosen, true); });
  drag();
  find("legend").append(...data.parts.filter((part) => data.places.some(([each]) => data.parts[each] === part)).map((part) => {
    const swatch = svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("g", { class: part }, svg("rect", { width: 14, height: 14, rx: 3 })));
    return html("span", {}, swatch, data.titles[part]);
  }));
  load();
  document.documentElement.dataset.drawn = Math.round(performance.now());
}

start();
