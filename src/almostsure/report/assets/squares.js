// ------------------------------------------------------------------ a map, a mosaic or two variables, on a canvas

const SQUARES = (() => {
  const view = DATA.view;
  if (view.kind === "variables") return byVariables(view);
  if (view.kind !== "map" && view.kind !== "mosaic") return null;
  const state = unpack(view.state), need = unpack(view.need), worst = unpack(view.worst), damage = unpack(view.damage);
  const place = new Map();
  unpack(view.square)?.forEach((square, i) => { if (square >= 0) place.set(idOf(i), square); });
  for (let i = 0; i < state.length; i++) if (state[i] >= 0) place.set(state[i], i);
  const tally = {};
  if (view.text) for (const row of view.text) for (const character of row) tally[character] = (tally[character] || 0) + 1;
  const floor = Object.keys(tally).sort((a, b) => tally[b] - tally[a])[0];
  return { ...view, state, need, worst, damage, place, floor, compass: unpack(view.compass) };
})();

// The square of a state; in a drawing by variables, its projection to the axes.
const placeOf = (state) => (SQUARES.project ? SQUARES.project(state) : SQUARES.place.get(state));

// The direction of a choice on the drawing: from the file, or by the change of the axes' variables in its likeliest outcome.
function compassOf(choice) {
  if (SQUARES.compass) return SQUARES.compass[choice.choice];
  if (SQUARES.kind !== "variables") return 0;
  const next = likeliest(choice.choice, choice.state).next, codes = SQUARES.axes.map((axis) => SQUARES.codes[axis]);
  const [down, right] = codes.map((code) => (code[next] < 0 ? 0 : Math.sign(code[next] - code[choice.state])));
  return STEP.findIndex(([dy, dx]) => dy === down && dx === right);
}

const STEP = [[0, 0], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1], [0, -1], [-1, -1]];
const LARGEST_CELL = SQUARES && SQUARES.columns <= 8 ? 72 : 46, PIXELS = 16e6, SMALLEST_TEXT = 11;

// The range of values with different colours: without the lowest and highest 5 %, so that outliers do not matter.
const VALUES = (() => {
  if (!STATES.value || STATES.ids) return null;
  const found = Array.from(STATES.value).filter(Number.isFinite).sort((a, b) => a - b);
  const [low, high] = [found[Math.floor(found.length * 0.05)], found[Math.floor(found.length * 0.95)]];
  if (low < high) return { low, high, cut: found[0] < low || found[found.length - 1] > high };
  return found[0] < found[found.length - 1] ? { low: found[0], high: found[found.length - 1], cut: false } : null;
})();

class Squares {
  constructor(stage, { label, onSelect, onHover, largest = LARGEST_CELL }) {
    this.stage = stage;
    this.largest = largest;
    this.zoom = 1;
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": label });
    if (!onSelect) { this.canvas.setAttribute("role", "img"); this.canvas.removeAttribute("tabindex"); }
    put(stage, this.canvas);
    if (onSelect) {
      this.canvas.addEventListener("click", (event) => { const i = this.squareAt(event); if (i >= 0) onSelect(SQUARES.state[i]); });
      this.canvas.addEventListener("keydown", (event) => this.key(event, onSelect));
    }
    if (onHover) {
      this.canvas.addEventListener("mousemove", (event) => onHover(this.squareAt(event)));
      this.canvas.addEventListener("mouseleave", () => onHover(-1));
    }
  }

  squareAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * SQUARES.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * SQUARES.rows);
    if (row < 0 || column < 0 || row >= SQUARES.rows || column >= SQUARES.columns) return -1;
    const i = row * SQUARES.columns + column;
    return SQUARES.state[i] >= 0 ? i : -1;
  }

  key(event, onSelect) {
    const move = { ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowDown: [1, 0], ArrowLeft: [0, -1] }[event.key];
    if (event.key === "Home") { event.preventDefault(); onSelect(DATA.model.starts[0][0]); return; }
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = SQUARES.place.has(app.selected) ? SQUARES.place.get(app.selected) : 0;
    let row = Math.floor(from / SQUARES.columns), column = from % SQUARES.columns;
    for (;;) {
      row += move[0];
      column += move[1];
      if (row < 0 || column < 0 || row >= SQUARES.rows || column >= SQUARES.columns) return;
      const state = SQUARES.state[row * SQUARES.columns + column];
      if (state >= 0) { onSelect(state); return; }
    }
  }

  // Resize the canvas for the squares; returns false while the stage is not visible.
  begin() {
    const width = this.stage.clientWidth;
    if (!width) return false;
    const cell = Math.max(2, Math.min(this.largest, Math.floor(width / SQUARES.columns)));
    this.cell = (width / SQUARES.columns < 2 ? width / SQUARES.columns : cell) * this.zoom;
    const w = this.cell * SQUARES.columns, h = this.cell * SQUARES.rows;
    const ratio = Math.min(Math.max(window.devicePixelRatio || 1, 2), Math.sqrt(PIXELS / (w * h)));
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(h * ratio);
    this.canvas.style.width = `${w}px`;
    this.canvas.style.height = `${h}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.recording) this.pen = new SvgPen(w, h);
    this.pen.textAlign = "center";
    this.pen.textBaseline = "middle";
    this.gap = this.cell >= 12 ? 1 : 0;
    return true;
  }

  corner(i) { return [(i % SQUARES.columns) * this.cell, Math.floor(i / SQUARES.columns) * this.cell]; }
  centre(i) { const [x, y] = this.corner(i); return [x + this.cell / 2, y + this.cell / 2]; }

  box(i, colour, hatch, crossed) {
    const [x, y] = this.corner(i), size = this.cell - this.gap, pen = this.pen;
    pen.fillStyle = colour;
    pen.beginPath();
    if (this.cell >= 16 && pen.roundRect) pen.roundRect(x, y, size, size, 3); else pen.rect(x, y, size, size);
    pen.fill();
    if (!hatch || this.cell < 5) return;
    pen.save();
    pen.clip();
    pen.strokeStyle = hatch;
    pen.lineWidth = this.cell < 12 ? 0.6 : 1.2;
    pen.beginPath();
    const gap = this.cell < 12 ? 4 : 6;
    for (let d = -size; d < size; d += gap) {
      pen.moveTo(x + d, y + size); pen.lineTo(x + d + size, y);
      if (crossed) { pen.moveTo(x + d, y); pen.lineTo(x + d + size, y + size); }
    }
    pen.stroke();
    pen.restore();
  }

  // Text that would be too small to read is left out.
  text(i, string, dx, dy, share, colour, weight = 400) {
    const [x, y] = this.centre(i), size = Math.max(SMALLEST_TEXT, share * this.cell);
    if (size > 0.62 * this.cell) return;
    this.pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
    this.pen.fillStyle = colour;
    this.pen.fillText(string, x + dx * this.cell, y + dy * this.cell);
  }

  wall(i) { if (SQUARES.kind !== "mosaic") this.box(i, SQUARES.kind === "map" ? palette.wall : palette.faint); }

  symbol(i) {
    if (!SQUARES.text) return "";
    const character = SQUARES.text[Math.floor(i / SQUARES.columns)][i % SQUARES.columns];
    return character === SQUARES.floor || character === "#" ? "" : character;
  }

  faded(alpha, paint) { this.pen.globalAlpha = alpha; paint(); this.pen.globalAlpha = 1; }

  // Waves on squares with damage, in every colouring.
  waves(i, ink) {
    if (this.cell < 16) return;
    const [x, y] = this.corner(i), size = this.cell - this.gap, pen = this.pen;
    pen.strokeStyle = ink;
    pen.lineWidth = Math.max(1, this.cell * 0.03);
    this.faded(0.22, () => {
      for (const height of [0.3, 0.55, 0.8]) {
        pen.beginPath();
        for (let t = 0; t <= 1.001; t += 0.125) {
          const wy = y + size * height + Math.sin(t * 4 * Math.PI) * size * 0.045;
          if (t) pen.lineTo(x + t * size, wy); else pen.moveTo(x, wy);
        }
        pen.stroke();
      }
    });
  }

  // One dot per unit of damage of a step into the square.
  dots(i, colour) {
    const damage = SQUARES.damage[i];
    if (!damage || this.cell < 16) return;
    const [x, y] = this.corner(i), r = this.cell * 0.055, pen = this.pen;
    pen.fillStyle = colour;
    const shown = damage > 4 ? 1 : damage;
    for (let n = 0; n < shown; n++) {
      pen.beginPath();
      pen.arc(x + this.cell * 0.15 + n * r * 2.7, y + this.cell * 0.84, r, 0, 2 * Math.PI);
      pen.fill();
    }
    if (damage > 4) this.text(i, String(damage), -0.18, 0.35, 0.22, colour, 600);
  }

  arrow(i, compass, colour, size = 0.23, width = 2) {
    const [x, y] = this.centre(i), [dy, dx] = STEP[compass], pen = this.pen;
    const norm = Math.hypot(dx, dy) || 1, ux = dx / norm, uy = dy / norm, reach = this.cell * size;
    pen.strokeStyle = colour;
    pen.fillStyle = colour;
    if (!compass) {
      pen.beginPath(); pen.arc(x, y, Math.max(1.2, this.cell * 0.07), 0, 2 * Math.PI); pen.fill();
      return;
    }
    const tip = [x + ux * reach, y + uy * reach], head = Math.max(2.5, this.cell * 0.15);
    pen.lineWidth = Math.max(1, width * this.cell / 40);
    pen.beginPath();
    pen.moveTo(x - ux * reach, y - uy * reach);
    pen.lineTo(tip[0] - ux * head * 0.7, tip[1] - uy * head * 0.7);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(...tip);
    pen.lineTo(tip[0] - ux * head - uy * head * 0.6, tip[1] - uy * head + ux * head * 0.6);
    pen.lineTo(tip[0] - ux * head + uy * head * 0.6, tip[1] - uy * head - ux * head * 0.6);
    pen.fill();
  }

  // A bar along the side in whose direction actions are not allowed.
  fence(i, compass) {
    if (!(compass % 2) || this.cell < 10) return;
    const [x, y] = this.corner(i), [dy, dx] = STEP[compass], pen = this.pen;
    const inset = this.cell * 0.06, size = this.cell - this.gap, thick = Math.max(1.5, this.cell * 0.065);
    pen.fillStyle = palette.harm;
    if (dx) pen.fillRect(dx > 0 ? x + size - thick : x, y + inset * 2, thick, size - inset * 4);
    else pen.fillRect(x + inset * 2, dy > 0 ? y + size - thick : y, size - inset * 4, thick);
  }

  frame(i, colour, width = 3, inset = 0) {
    const [x, y] = this.corner(i), pen = this.pen;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    pen.rect(x + inset, y + inset, this.cell - this.gap - 2 * inset, this.cell - this.gap - 2 * inset);
    pen.stroke();
  }

  // A line on a map; in a mosaic, where successive states may be far apart, a dot in each square.
  trail(states, colour, look) {
    if (SQUARES.kind !== "mosaic") { this.line(states, colour, look); return; }
    for (const i of new Set(states.map((state) => placeOf(state)))) {
      if (i === undefined) continue;
      this.pen.fillStyle = colour;
      this.pen.beginPath();
      this.pen.arc(...this.centre(i), Math.max(1, this.cell * 0.17), 0, 2 * Math.PI);
      this.pen.fill();
    }
  }

  // A line through states; states that are not drawn interrupt it.
  line(states, colour, { width = 2.5, dash = [] } = {}) {
    const pen = this.pen;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.lineJoin = pen.lineCap = "round";
    pen.setLineDash(dash);
    pen.beginPath();
    let open = false;
    for (const state of states) {
      const i = placeOf(state);
      if (i === undefined) { open = false; continue; }
      if (open) pen.lineTo(...this.centre(i)); else pen.moveTo(...this.centre(i));
      open = true;
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  disc(state, radius, colour, edge) {
    const i = placeOf(state);
    if (i === undefined) return;
    const pen = this.pen;
    pen.beginPath();
    pen.arc(...this.centre(i), Math.max(3, this.cell * radius), 0, 2 * Math.PI);
    pen.fillStyle = colour;
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = edge;
    pen.stroke();
  }

  // The damage of a step into the state.
  hit(state, damage) {
    const i = placeOf(state);
    if (i === undefined) return;
    this.disc(state, 0.24, palette.harm, palette.card);
    if (this.cell >= 16) this.text(i, String(damage), 0, 0.02, 0.3, palette.paper, 700);
  }

  // Damage, minimal budgets, and the allowed and best actions with the budget left.
  drawNeeds(path) {
    if (!this.begin()) return;
    const left = remaining(), large = this.cell >= 20, route = shownRun().run, layers = usualLayers(route);
    for (let i = 0; i < SQUARES.state.length; i++) {
      const state = SQUARES.state[i], need = SQUARES.need[i];
      if (state < 0) { this.wall(i); continue; }
      const ink = this.ground(i, state, need, left);
      if (SQUARES.damage[i] && need < INFINITE) this.waves(i, ink);
      if (large && (need || this.cell >= 30)) this.faded(need ? 1 : 0.5, () => this.text(i, showNeed(need), -0.28, -0.27, 0.25, ink, need ? 650 : 400));
      if (need <= left && this.cell >= 10) this.advice(i, state, layers, ink);
      this.dots(i, ink);
      const symbol = this.symbol(i);
      if (symbol && large && !(SQUARES.damage[i] && need < INFINITE)) this.text(i, symbol, 0.3, 0.3, 0.26, ink, isStart(state) ? 700 : 400);
    }
    if (route.length > 1) this.faded(large ? 0.38 : 0.9, () => this.trail(route.map(([state]) => state), palette.assured, { width: Math.max(2.5, this.cell * 0.26) }));
    if (path && path.length > 1) this.trail(path, palette.harm, { dash: [5, 4] });
    this.ends(route);
    const chosen = SQUARES.place.get(app.selected);
    if (chosen !== undefined) this.frame(chosen, palette.focus, Math.max(2, this.cell * 0.08));
  }

  // Start and end of the run; flags if squares are too small for letters.
  ends(route) {
    for (const [start] of DATA.model.starts) {
      const i = placeOf(start);
      if (i === undefined) continue;
      if (this.cell >= 20) this.frame(i, palette.ink, Math.max(1, this.cell * 0.05), 1);
      else this.flag(i, "start");
    }
    const last = route.length > 1 ? route[route.length - 1][0] : -1, i = placeOf(last);
    if (this.cell < 20 && i !== undefined && isTerminal(last)) this.flag(i, "end");
  }

  flag(i, word) {
    const [x, y] = this.centre(i), pen = this.pen, width = this.cell * SQUARES.columns;
    pen.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
    const room = word.length * 8 + 8, at = Math.max(room / 2, Math.min(width - room / 2, x)), up = y > 26 ? -18 : 18;
    pen.fillStyle = palette.ink;
    pen.beginPath(); pen.arc(x, y, Math.max(4, this.cell * 0.4), 0, 2 * Math.PI); pen.fill();
    pen.fillRect(at - room / 2, y + up - 9, room, 18);
    pen.fillStyle = palette.paper;
    pen.fillText(word, at, y + up + 1);
  }

  // The colour of a square: its damage, or else its minimal budget; hatched if it is not safe with the budget left.
  ground(i, state, need, left) {
    if (need === INFINITE) { this.box(i, palette.never, "rgba(255,255,255,.25)", true); return palette["never-ink"]; }
    let colour = SQUARES.damage[i] ? hazardShade(SQUARES.damage[i]) : needShade(need);
    if (app.colourBy === "value" && VALUES) {
      const value = valueAt(state, app.layer);
      colour = shade(Number.isFinite(value) ? (value - VALUES.low) / (VALUES.high - VALUES.low) : value > 0 ? 1 : 0);
    }
    if (need <= left) { this.box(i, css(colour)); return inkOn(colour); }
    if (!SQUARES.damage[i]) { this.box(i, palette.unsafe, palette.hatch); return palette.muted; }
    this.box(i, css(colour), palette.hatch);
    return inkOn(colour);
  }

  // The best action with the budget that runs have left here, and fences for actions that are not allowed with it.
  advice(i, state, layers, ink) {
    if (at(state) < 0 || SQUARES.kind === "mosaic") return;
    if (isTerminal(state)) { if (!this.symbol(i)) this.text(i, "■", 0, 0, 0.3, ink); return; }
    const reached = layers.has(state), layer = reached ? layers.get(state) : app.layer, best = playAt(state, layer);
    const other = app.other === null ? best : playAt(state, app.other);
    for (const choice of choicesOf(state)) {
      const compass = compassOf(choice);
      if (choice.need > DATA.layers[layer]) this.fence(i, compass);
      else if (choice.place === best) this.faded(reached || !layers.size ? 1 : 0.45, () => this.arrow(i, compass, ink));
      if (choice.place === other && other !== best) { this.arrow(i, compass, palette.focus, 0.3, 3); this.frame(i, palette.focus, 1.5, 2); }
    }
  }

  // The background of the player: damage only.
  drawTerrain() {
    if (!this.begin()) return false;
    for (let i = 0; i < SQUARES.state.length; i++) {
      const state = SQUARES.state[i];
      if (state < 0) { this.wall(i); continue; }
      if (SQUARES.need[i] === INFINITE) this.box(i, palette.never, "rgba(255,255,255,.25)", true);
      else if (SQUARES.damage[i]) this.box(i, css(hazardShade(SQUARES.damage[i])));
      else this.box(i, palette.faint);
      const symbol = this.symbol(i), ink = SQUARES.need[i] === INFINITE ? palette["never-ink"] : palette.ink;
      if (symbol && this.cell >= 16) this.text(i, symbol, 0, 0, 0.36, ink, 600);
    }
    return true;
  }
}
