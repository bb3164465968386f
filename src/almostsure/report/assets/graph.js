// ------------------------------------------------------------------ a small model as circles and arrows

const NODE = 20, COLUMN = 150, WIDEST = 200, ROW = 92, LOOP = 30, MARGIN = 28;
const TEXT = 15, GAP = 4; // height of a label, and its distance from its arrow
const FEW = 24; // with more edges, only those of the selected state are labelled with their actions

class Graph {
  constructor(stage, { label, onSelect }) {
    const view = DATA.view;
    this.stage = stage;
    this.row = ROW + (view.tallest > 1 && view.edges.some((edge) => edge.from === edge.to) ? LOOP : 0);
    this.few = view.edges.length <= FEW;
    const longest = Math.max(0, ...view.edges.map((edge) => textWidth(this.words(edge, false).join(" "))));
    this.column = Math.min(Math.max(COLUMN, longest + 2 * NODE + 30), WIDEST);
    this.edges = view.edges.map((edge) => this.edge(edge));
    this.nodes = new Map(view.places.map((_, state) => [state, this.node(state, onSelect)]));
    this.frame();
    this.labels = draw("g");
    this.svg = draw("svg", { viewBox: [this.left, this.top, this.width, this.height].join(" "), width: this.width, role: onSelect ? "application" : "img",
      "aria-label": label, tabindex: onSelect ? 0 : null }, this.edges.map((edge) => [edge.line, edge.arrow]), [...this.nodes.values()].map((node) => node.group), this.labels);
    this.svg.style.setProperty("--least", `${Math.ceil(0.92 * this.width)}px`);
    this.label(-1);
    if (onSelect) this.svg.addEventListener("keydown", (event) => this.key(event, onSelect));
    put(stage, this.svg);
  }

  // The view box of states and arrows; labels are placed inside it.
  frame() {
    const view = DATA.view, heights = this.edges.flatMap((edge) => edge.points.map((point) => point[1]));
    for (const [, y] of [...this.nodes.keys()].map((state) => this.centre(state))) heights.push(y - NODE - 5, y + NODE + 22);
    this.width = Math.max(360, view.layers * this.column + 60);
    this.left = (view.layers * this.column - this.width) / 2;
    const top = Math.min(...heights) - MARGIN, bottom = Math.max(...heights) + MARGIN / 2;
    this.height = Math.max(150, bottom - top);
    this.top = (top + bottom - this.height) / 2;
  }

  centre(state) {
    const [layer, place, size] = DATA.view.places[state];
    return [(layer + 0.5) * this.column, (place - (size - 1) / 2) * this.row];
  }

  node(state, onSelect) {
    const [x, y] = this.centre(state);
    const short = DATA.view.short && DATA.view.short[state];  // the values of its variables, if names are too long
    const name = stateName(state), shown = shorten(short ? nameOf(short) : name, 20);
    const shape = draw("circle", { cx: x, cy: y, r: NODE });
    const need = draw("text", { x, y: y + 4.5, "text-anchor": "middle" });
    const parts = [draw("circle", { class: "ring", cx: x, cy: y, r: NODE + 5 }), shape, need,
      draw("text", { class: "strong halo", x, y: y + NODE + 18, "text-anchor": "middle" }, shown)];
    const group = draw("g", { class: "node", onclick: onSelect ? () => onSelect(state) : null },
      draw("title", null, name), parts);
    const boxes = [boxAt(x, y, 2 * NODE + 12, 2 * NODE + 12), boxAt(x, y + NODE + 14, textWidth(shown) * 1.1, TEXT)];
    return { group, shape, need, boxes };
  }

  edge(edge) {
    const loop = edge.from === edge.to, way = loop ? this.loop(edge.from) : this.bow(edge.from, edge.to);
    const [tip, before] = [way.at(-1), way.at(-2)];
    const angle = (Math.atan2(tip[1] - before[1], tip[0] - before[0]) * 180) / Math.PI;
    const line = draw("path", { class: "edge", d: `M ${way[0].join(" ")} ${loop ? "C" : "Q"} ${way.slice(1).map((point) => point.join(" ")).join(", ")}` });
    const arrow = draw("path", { class: "arrow", d: "M 0 0 L -9 4 L -9 -4 Z", transform: `translate(${tip.join(" ")}) rotate(${angle})` });
    const points = Array.from({ length: 33 }, (_, i) => along(way, i / 32));
    return { ...edge, way, points, line, arrow };
  }

  loop(state) {
    const [x, y] = this.centre(state), foot = y - NODE + 2;
    return [[x - 9, foot], [x - 34, y - 68], [x + 34, y - 68], [x + 9, foot]];
  }

  // Opposite arrows bend to different sides, and arrows across several layers bend around the states between.
  bow(start, end) {
    const [x1, y1] = this.centre(start), [x2, y2] = this.centre(end), [one, other] = [DATA.view.places[start], DATA.view.places[end]];
    const dx = x2 - x1, dy = y2 - y1, length = Math.hypot(dx, dy);
    const layers = Math.abs(other[0] - one[0]);
    const lift = layers ? (layers > 1 ? 2.6 : 1) * Math.max(14, length * 0.1) * 2 : Math.min(0.9 * length, this.column); // up and down: clear of the names
    const middle = [(x1 + x2) / 2 + (dy / length) * lift, (y1 + y2) / 2 - (dx / length) * lift];
    return [towards([x1, y1], middle, NODE), middle, towards([x2, y2], middle, NODE + 2)];
  }

  // Label the arrows: each label beside its arrow, where it covers least.
  label(selected) {
    this.labels.replaceChildren();
    const taken = [...this.nodes.values()].flatMap((node) => node.boxes);
    const wanted = this.edges.map((edge) => {
      const [names, damage] = this.words(edge, edge.from === selected);
      return { edge, names, damage, width: textWidth([names, damage].filter(Boolean).join(" ")) };
    });
    wanted.sort((one, other) => other.width - one.width); // longest first: they fit in the fewest positions
    for (const { edge, names, damage, width } of wanted) {
      if (!width) continue;
      const box = this.spot(edge, width, taken);
      taken.push(box);
      this.labels.append(draw("text", { class: "halo", x: box.x, y: box.y + 4, "text-anchor": "middle" },
        draw("title", null, edge.actions.map(actionName).join(", ")), names, names && damage ? " " : "", damage && draw("tspan", { class: "f-harm" }, damage)));
    }
  }

  words(edge, selected) {
    if (!this.few && !selected) return ["", edge.damage ? `−${edge.damage}` : ""];
    const names = edge.actions.slice(0, 2).map(actionName).join(", ") + (edge.actions.length > 2 ? ", …" : "");
    return [shorten(names, 22), edge.damage ? `damage ${edge.damage}` : ""];
  }

  spot(edge, width, taken) {
    let best = null, least = Infinity;
    for (const t of [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82]) for (const side of [-1, 1]) {
      const [x, y] = along(edge.way, t), [ahead, behind] = [along(edge.way, t + 0.02), along(edge.way, t - 0.02)];
      const dx = ahead[0] - behind[0], dy = ahead[1] - behind[1], length = Math.hypot(dx, dy) || 1;
      const across = [(-dy / length) * side, (dx / length) * side];
      const away = (Math.abs(across[0]) * width) / 2 + (Math.abs(across[1]) * TEXT) / 2 + GAP;
      const box = boxAt(x + across[0] * away, y + across[1] * away, width, TEXT);
      const cost = this.hides(box, taken) + 8 * Math.abs(t - 0.5) + (side > 0 ? 1 : 0);
      if (cost < least) { least = cost; best = box; }
    }
    return best;
  }

  hides(box, taken) {
    const inside = box.left >= this.left && box.right <= this.left + this.width && box.top >= this.top && box.bottom <= this.top + this.height;
    let cost = inside ? 0 : 60;
    for (const other of taken) cost += overlap(box, other) / 8;
    for (const { points } of this.edges) for (const [x, y] of points) if (x > box.left && x < box.right && y > box.top && y < box.bottom) cost += 1;
    return cost;
  }

  key(event, onSelect) {
    const move = { ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowLeft: [-1, 0] }[event.key];
    if (event.key === "Home") { event.preventDefault(); onSelect(DATA.model.starts[0][0]); return; }
    if (!move) return;
    event.preventDefault();
    const from = this.centre(app.selected);
    let best = -1, least = Infinity;
    for (const state of this.nodes.keys()) {
      const [x, y] = this.centre(state), dx = x - from[0], dy = y - from[1];
      const ahead = dx * move[0] + dy * move[1], aside = Math.abs(dx * move[1]) + Math.abs(dy * move[0]);
      if (ahead > 1 && ahead + 2 * aside < least) { least = ahead + 2 * aside; best = state; }
    }
    if (best >= 0) onSelect(best);
  }

  // Scroll a wide graph so that the state is visible.
  reveal(state) {
    const stage = this.stage, scale = this.svg.clientWidth / this.width;
    if (stage.scrollWidth <= stage.clientWidth || !scale) return;
    const x = (this.centre(state)[0] - this.left) * scale, edge = Math.min(this.column * scale, stage.clientWidth / 2);
    stage.scrollLeft = Math.min(Math.max(stage.scrollLeft, x + edge - stage.clientWidth), x - edge);
  }

  paint(colourOf, selected) {
    if (selected !== this.shown) {
      this.shown = selected;
      if (!this.few) this.label(selected);
      this.reveal(selected);
    }
    for (const [state, { group, shape, need }] of this.nodes) {
      const [colour, ink, text, unsafe] = colourOf(state);
      shape.setAttribute("fill", colour);
      need.setAttribute("fill", ink);
      need.style.fill = ink;
      need.textContent = text;
      group.setAttribute("class", `node${isStart(state) ? " start" : ""}${unsafe ? " unsafe" : ""}${state === selected ? " selected" : ""}`);
    }
  }

  drawNeeds() {
    const left = remaining();
    this.paint((state) => {
      const need = needOf(state), text = showNeed(need);
      if (need === INFINITE) return [palette.never, palette["never-ink"], text];
      if (need > left) return [palette.unsafe, palette.muted, text, true];
      const value = valueAt(state, app.layer);
      const colour = app.colourBy === "value" && VALUES && Number.isFinite(value)
        ? shade((value - VALUES.low) / (VALUES.high - VALUES.low)) : needShade(need);
      return [css(colour), inkOn(colour), app.colourBy === "value" ? show(value) : text];
    }, app.selected);
    for (const edge of this.edges) {
      const choices = choicesOf(edge.from).filter((choice) => edge.actions.includes(choice.action));
      const best = choices.some((choice) => choice.need <= left && choice.place === playAt(edge.from, app.layer));
      const allowed = choices.some((choice) => choice.need <= left);
      const aside = this.aside(edge, app.selected);
      edge.line.setAttribute("class", `edge${best ? " best" : allowed ? "" : " no"}${aside}`);
      edge.arrow.setAttribute("class", `arrow${best ? " best" : ""}${aside}`);
    }
  }

  drawPlay(state, previous) {
    this.paint((s) => (s === state ? [palette.assured, "#ffffff", ""] : [palette.faint, palette.muted, ""]), state);
    for (const edge of this.edges) {
      const walked = edge.from === previous && edge.to === state;
      const aside = walked ? "" : this.aside(edge, state);
      edge.line.setAttribute("class", `edge${walked ? " walked" : ""}${aside}`);
      edge.arrow.setAttribute("class", `arrow${walked ? " walked" : ""}${aside}`);
    }
  }

  // The class of edges in the background: if there are many edges, those of other states.
  aside(edge, state) {
    return this.few || edge.from === state ? "" : " aside";
  }
}

function towards(from, to, distance) {
  const dx = to[0] - from[0], dy = to[1] - from[1], length = Math.hypot(dx, dy) || 1;
  return [from[0] + (dx / length) * distance, from[1] + (dy / length) * distance];
}

// The point at t of the Bézier curve with these control points, by de Casteljau's algorithm.
function along(points, t) {
  return points.length === 1 ? points[0] : along(points.slice(1).map((p, i) => [0, 1].map((k) => points[i][k] + (p[k] - points[i][k]) * t)), t);
}

const boxAt = (x, y, width, height) => ({ x, y, left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 });
const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

let ruler = null;
function textWidth(text) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}
