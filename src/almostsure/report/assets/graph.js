// ------------------------------------------------------------------ a small model as circles and arrows

const NODE = 20, COLUMN = 150, ROW = 92;

class Graph {
  constructor(stage, { label, onSelect }) {
    const view = DATA.view;
    this.width = Math.max(360, view.layers * COLUMN + 60);
    this.height = Math.max(190, view.tallest * ROW + 70);
    this.svg = draw("svg", { viewBox: `0 0 ${this.width} ${this.height}`, width: this.width, role: onSelect ? "application" : "img",
      "aria-label": label, tabindex: onSelect ? 0 : null });
    this.nodes = new Map();
    this.edges = view.edges.map((edge) => this.edge(edge));
    view.places.forEach((_, state) => this.node(state, onSelect));
    if (onSelect) this.svg.addEventListener("keydown", (event) => this.key(event, onSelect));
    put(stage, this.svg);
  }

  centre(state) {
    const [layer, place, size] = DATA.view.places[state];
    const side = (this.width - DATA.view.layers * COLUMN) / 2;
    return [side + (layer + 0.5) * COLUMN, this.height / 2 + (place - (size - 1) / 2) * ROW - 4];
  }

  node(state, onSelect) {
    const [x, y] = this.centre(state);
    const name = stateName(state);
    const shape = draw("circle", { cx: x, cy: y, r: NODE });
    const need = draw("text", { x, y: y + 4.5, "text-anchor": "middle" });
    const parts = [draw("circle", { class: "ring", cx: x, cy: y, r: NODE + 5 }), shape, need,
      draw("text", { class: "strong halo", x, y: y + NODE + 16, "text-anchor": "middle" }, name.length > 20 ? `${name.slice(0, 19)}…` : name)];
    const group = draw("g", { class: "node", onclick: onSelect ? () => onSelect(state) : null },
      draw("title", null, name), parts);
    this.svg.append(group);
    this.nodes.set(state, { group, shape, need });
  }

  edge(edge) {
    const [x1, y1] = this.centre(edge.from), [x2, y2] = this.centre(edge.to);
    let path, label, tip, angle;
    if (edge.from === edge.to) {
      path = `M ${x1 - 9} ${y1 - NODE + 2} C ${x1 - 34} ${y1 - 68}, ${x1 + 34} ${y1 - 68}, ${x1 + 9} ${y1 - NODE + 2}`;
      label = [x1, y1 - 58];
      tip = [x1 + 9, y1 - NODE + 2];
      angle = Math.atan2(48, -17);
    } else {
      const dx = x2 - x1, dy = y2 - y1, length = Math.hypot(dx, dy), bend = Math.max(14, length * 0.1);
      const far = Math.abs(DATA.view.places[edge.to][0] - DATA.view.places[edge.from][0]) > 1;
      const lift = (far ? 2.6 : 1) * bend * 2;
      const mid = [(x1 + x2) / 2 + (dy / length) * lift, (y1 + y2) / 2 - (dx / length) * lift];
      const from = towards([x1, y1], mid, NODE), to = towards([x2, y2], mid, NODE + 2);
      path = `M ${from.join(" ")} Q ${mid.join(" ")}, ${to.join(" ")}`;
      label = [(x1 + x2) / 4 + mid[0] / 2, (y1 + y2) / 4 + mid[1] / 2];
      tip = to;
      angle = Math.atan2(to[1] - mid[1], to[0] - mid[0]);
    }
    const line = draw("path", { class: "edge", d: path });
    const arrow = draw("path", { class: "arrow", d: "M 0 0 L -9 4 L -9 -4 Z", transform: `translate(${tip.join(" ")}) rotate(${(angle * 180) / Math.PI})` });
    this.svg.append(line, arrow);
    const few = DATA.view.edges.length <= 24;
    const names = few ? edge.actions.slice(0, 2).map(actionName).join(", ") + (edge.actions.length > 2 ? ", …" : "") : "";
    const words = [names.length > 22 ? `${names.slice(0, 21)}…` : names, edge.damage ? `damage ${edge.damage}` : ""];
    const text = draw("text", { class: "halo", x: label[0], y: label[1] + 3, "text-anchor": "middle" },
      draw("tspan", null, words[0]), words[0] && words[1] ? " " : "", draw("tspan", { class: "f-harm" }, few ? words[1] : edge.damage ? `−${edge.damage}` : ""));
    this.svg.append(text);
    return { ...edge, line, arrow };
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

  paint(colourOf, selected) {
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
      edge.line.setAttribute("class", `edge${best ? " best" : allowed ? "" : " no"}`);
      edge.arrow.setAttribute("class", `arrow${best ? " best" : ""}`);
    }
  }

  drawPlay(state, previous) {
    this.paint((s) => (s === state ? [palette.assured, "#ffffff", ""] : [palette.faint, palette.muted, ""]), state);
    for (const edge of this.edges) {
      const walked = edge.from === previous && edge.to === state;
      edge.line.setAttribute("class", `edge${walked ? " walked" : ""}`);
      edge.arrow.setAttribute("class", `arrow${walked ? " walked" : ""}`);
    }
  }
}

function towards(from, to, distance) {
  const dx = to[0] - from[0], dy = to[1] - from[1], length = Math.hypot(dx, dy) || 1;
  return [from[0] + (dx / length) * distance, from[1] + (dy / length) * distance];
}
