// The heat map: a canvas for the eye, and over it the rows in view as a grid for keyboard and screen reader.

const ROW = 21, HEAD = 23, FULL = 560;

class HeatMap {
  constructor(box, overview, opened, moved) {
    Object.assign(this, { box, overview, opened, moved, row: 0, column: 0, order: [], colours: readColours() });
    this.sizer = element("div", { class: "sizer", role: "presentation" });
    this.paint = element("canvas", { class: "paint", "aria-hidden": "true" });
    this.head = element("div", { class: "row head", role: "row", "aria-rowindex": "1" });
    this.rows = element("div", { role: "rowgroup" });
    this.here = element("div", { class: "here", "aria-hidden": "true" });
    this.sizer.append(this.paint, this.head, this.rows);
    box.append(this.sizer);
    overview.after(this.here);
    box.addEventListener("scroll", () => this.later());
    box.addEventListener("keydown", (event) => this.pressed(event));
    box.addEventListener("click", (event) => this.clicked(event));
    box.addEventListener("mousemove", (event) => this.hovered(event));
    overview.addEventListener("click", (event) => this.jumped(event));
    new ResizeObserver(() => this.resize()).observe(box);
  }

  // `order` holds the rows of the grid that are shown, in order.
  show(grid, order, row = 0, column = 0) {
    Object.assign(this, { grid, order });
    this.row = Math.max(0, Math.min(order.length - 1, row));
    this.column = Math.max(0, Math.min(grid.steps.length - 1, column));
    this.box.setAttribute("aria-rowcount", order.length + 1);
    this.box.setAttribute("aria-colcount", grid.steps.length + 1);
    this.resize();
    this.box.scrollTop = Math.max(0, this.row - Math.floor(this.box.clientHeight / ROW / 2)) * ROW;
    this.into();
  }

  resize() {
    if (!this.grid || !this.box.clientWidth) return;
    this.names = Math.min(300, Math.round(this.box.clientWidth * 0.34));
    this.cell = Math.max(4, Math.min(44, Math.floor((this.box.clientWidth - this.names - 16) / this.grid.steps.length)));
    this.tall = Math.min(FULL, HEAD + ROW * Math.max(4, this.order.length) + 18);
    this.box.style.height = this.tall + "px";
    this.sizer.style.height = HEAD + ROW * this.order.length + "px";
    this.sizer.style.width = this.names + this.cell * this.grid.steps.length + "px";
    this.overlook();
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  view() {
    const from = Math.floor(this.box.scrollTop / ROW);
    return [from, Math.min(this.order.length, from + Math.ceil(this.box.clientHeight / ROW) + 1)];
  }

  draw() {
    const [wide, tall] = [this.box.clientWidth, this.box.clientHeight];
    const pen = sized(this.paint, wide, tall);
    this.paint.style.marginBottom = -tall + "px";
    const { scrollLeft, scrollTop } = this.box, { steps } = this.grid, [from, to] = this.view();
    const begin = Math.floor(scrollLeft / this.cell), end = Math.min(steps.length, begin + Math.ceil((wide - this.names) / this.cell) + 1);
    const gap = this.cell > 9 ? 1 : 0;
    for (let row = from; row < to; row++) {
      for (let column = begin; column < end; column++) {
        const place = this.order[row] * steps.length + column;
        pen.fillStyle = this.colour(place);
        pen.fillRect(this.names + column * this.cell - scrollLeft, HEAD + row * ROW - scrollTop, this.cell - gap, ROW - 1);
      }
    }
    this.label(pen, begin, end, scrollLeft, wide);
    const part = this.tall / Math.max(tall, HEAD + ROW * this.order.length);
    this.here.style.top = scrollTop * part + "px";
    this.here.style.height = Math.max(6, tall * part) + "px";
    this.write(from, to);
  }

  label(pen, begin, end, left, wide) {
    pen.fillStyle = this.colours.card;
    pen.fillRect(0, 0, wide, HEAD);
    pen.fillStyle = this.colours.dim;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    const every = Math.max(1, Math.ceil(44 / this.cell));
    for (let column = Math.ceil(begin / every) * every; column < end; column += every) {
      pen.fillText(this.grid.steps[column], this.names + (column + 0.5) * this.cell - left, 16);
    }
  }

  colour(place) {
    const { grid } = this;
    return colourOf(this.colours, grid.states[grid.state[place]][0], multipleOf(grid.difference[place], grid.allowed[place]));
  }

  // Only the rows in view are elements, each with its name and the one cell in the current column.
  write(from, to) {
    const step = "step " + this.grid.steps[this.column];
    this.head.replaceChildren(
      this.name("columnheader", "tensor"), this.cellAt(element("span", { role: "columnheader", class: "cell", "aria-colindex": this.column + 2, text: step })));
    this.rows.replaceChildren(...this.order.slice(from, to).map((row, place) => this.line(row, from + place)));
    this.box.setAttribute("aria-activedescendant", this.order.length ? "now" : "");
  }

  line(row, place) {
    const now = place === this.row;
    const words = { role: "gridcell", class: "cell", "aria-colindex": this.column + 2, text: told(cellOf(this.grid, row, this.column)) };
    const made = element("div", { role: "row", class: now ? "row now" : "row", "aria-rowindex": place + 2 },
      this.name("rowheader", this.grid.keys[row]), this.cellAt(element("span", now ? { ...words, id: "now", "aria-selected": "true" } : words)));
    made.style.top = HEAD + place * ROW + "px";
    made.style.width = this.names + this.cell * this.grid.steps.length + "px";
    return made;
  }

  name(role, text) {
    const made = element("span", { role, class: "name", "aria-colindex": "1", title: text, text });
    made.style.width = this.names + "px";
    made.style.height = ROW + "px";
    return made;
  }

  cellAt(made) {
    made.style.left = this.names + this.column * this.cell - 1 + "px";
    made.style.width = Math.max(9, this.cell + 1) + "px";
    made.style.height = ROW + "px";
    return made;
  }

  // All rows at once, each line of pixels the worst of the rows that it stands for.
  overlook() {
    const tall = this.tall, pen = sized(this.overview, 26, tall), { steps } = this.grid;
    const lines = Math.min(tall, this.order.length);
    for (let line = 0; line < lines; line++) {
      const from = Math.floor((line * this.order.length) / lines), to = Math.floor(((line + 1) * this.order.length) / lines);
      pen.fillStyle = this.worst(this.order.slice(from, to), steps.length);
      pen.fillRect(0, (line * tall) / lines, 26, Math.ceil(tall / lines));
    }
  }

  // The worst verdict, and of one verdict the largest multiple: there are as many colours as cells, and few verdicts.
  worst(rows, steps) {
    const { state, difference, allowed, ranks } = this.grid;
    let [worst, rank, most] = [rows[0] * steps, -1, -1];
    for (const row of rows) {
      for (let place = row * steps; place < (row + 1) * steps; place++) {
        const found = ranks[state[place]];
        if (found < rank) continue;
        const multiple = multipleOf(difference[place], allowed[place]);
        if (found > rank || multiple > most || Number.isNaN(multiple)) [worst, rank, most] = [place, found, multiple];
      }
    }
    return this.colour(worst);
  }

  // Scrolls the current cell into view and draws it.
  into() {
    const { box } = this, top = this.row * ROW, left = this.column * this.cell;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + HEAD + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + HEAD + ROW - box.clientHeight;
    if (left < box.scrollLeft) box.scrollLeft = left;
    if (left + this.names + this.cell > box.scrollLeft + box.clientWidth) box.scrollLeft = left + this.names + this.cell - box.clientWidth;
    this.draw();
    if (this.order.length) this.moved(this.order[this.row], this.column);
  }

  go(row, column) {
    this.row = Math.max(0, Math.min(this.order.length - 1, row));
    this.column = Math.max(0, Math.min(this.grid.steps.length - 1, column));
    this.into();
  }

  next() {
    const steps = this.grid.steps.length, all = this.order.length * steps;
    for (let made = 1; made < all; made++) {
      const at = (this.row * steps + this.column + made) % all, row = Math.floor(at / steps);
      const verdict = this.grid.states[this.grid.state[this.order[row] * steps + (at % steps)]][0];
      if (verdict === "different" || verdict === "incomparable") return this.go(row, at % steps);
    }
  }

  pressed(event) {
    if (!this.order.length || !this.grid.unpacked || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2), { row, column } = this, far = event.ctrlKey;
    const moves = {
      ArrowUp: () => this.go(row - 1, column), ArrowDown: () => this.go(row + 1, column),
      ArrowLeft: () => this.go(row, column - 1), ArrowRight: () => this.go(row, column + 1),
      PageUp: () => this.go(row - page, column), PageDown: () => this.go(row + page, column),
      Home: () => this.go(far ? 0 : row, 0), End: () => this.go(far ? Infinity : row, Infinity),
      n: () => this.next(), N: () => this.next(),
      Enter: () => this.opened(this.order[row], column, true), " ": () => this.opened(this.order[row], column, true),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }

  at(event) {
    const frame = this.box.getBoundingClientRect();
    const across = event.clientX - frame.left - this.box.clientLeft, down = event.clientY - frame.top - this.box.clientTop;
    const row = Math.floor((down + this.box.scrollTop - HEAD) / ROW);
    const column = across < this.names ? this.column : Math.floor((across + this.box.scrollLeft - this.names) / this.cell);
    return down >= HEAD && row < this.order.length && column < this.grid.steps.length ? [row, column] : null;
  }

  clicked(event) {
    const found = this.grid && this.at(event);
    if (!found) return;
    this.go(...found);
    this.opened(this.order[this.row], this.column, false);
  }

  hovered(event) {
    const found = this.grid && this.at(event);
    if (found) this.moved(this.order[found[0]], found[1]);
  }

  jumped(event) {
    if (this.grid) this.go(Math.floor((event.offsetY / this.tall) * this.order.length), this.column);
  }
}

function sized(canvas, wide, tall) {
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(wide * sharp);
  canvas.height = Math.round(tall * sharp);
  canvas.style.width = wide + "px";
  canvas.style.height = tall + "px";
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  return pen;
}
