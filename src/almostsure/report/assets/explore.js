// ------------------------------------------------------------------ the slider, the drawing and its legend

let picture = null;

function buildExplore() {
  const slider = byId("budget");
  slider.max = String(DATA.layers.length - 1);
  slider.value = String(app.layer);
  slider.addEventListener("input", () => change({ layer: Number(slider.value) }));
  const select = (state) => change({ selected: state, action: null });
  const kind = DATA.view.kind;
  const keys = "Use the arrow keys to select a state, Home for the start.";
  const drawn = { map: "Map", variables: "Drawing", mosaic: "Mosaic" }[kind];
  if (SQUARES) picture = new Squares(byId("stage"), { label: `${drawn} of the budget that each state needs. ${keys}`, onSelect: select, onHover: hover });
  else if (kind === "graph") picture = new Graph(byId("stage"), { label: `Graph of the budget that each state needs. ${keys}`, onSelect: select });
  else byId("stage").closest(".card").insertBefore(byId("levels-card"), byId("stage"));
  if (kind === "levels") byId("levels-card").className = "";
  byId("explore-lead").textContent = lead();
  if (picture && VALUES) segments(byId("colour-by"), "colour", { need: "need", value: "return" }, "need", (value) => change({ colourBy: value }));
  else byId("colour-by").hidden = true;
  buildVariables();
  buildTools();
  onChange(drawExplore);
}

// Zoom, a second budget for comparison, and downloads.
function buildTools() {
  const button = (title, label, onclick) => make("button", { type: "button", title: label, "aria-label": label, onclick }, title);
  const zoom = (factor) => () => { picture.zoom = factor ? Math.min(16, Math.max(1, picture.zoom * factor)) : 1; drawExplore(); };
  const others = DATA.layers.map((k, layer) => ({ k, layer })).filter(({ k }) => k <= DATA.solved && DATA.least !== null && k >= DATA.least);
  put(byId("tools"),
    STATES.play && SQUARES && SQUARES.kind !== "mosaic" && others.length > 1 ? make("label", null, "Compare with ", make("select", { id: "other", "aria-label": "Another budget to compare with",
      onchange: (event) => change({ other: event.target.value === "" ? null : Number(event.target.value) }) },
    make("option", { value: "" }, "no other budget"), others.map(({ k, layer }) => make("option", { value: layer }, `${k} left`)))) : "",
    SQUARES ? [button("−", "Zoom out", zoom(1 / 1.5)), button("+", "Zoom in", zoom(1.5)), button("1:1", "The whole drawing", zoom(0))] : "",
    button("CSV", "Save the minimal budgets as CSV", saveStates), picture ? button("SVG", "Save the drawing as SVG", savePicture) : "");
}

function lead() {
  const drawn = {
    map: DATA.view.side > 1 ? `Each square stands for ${DATA.view.side} × ${DATA.view.side} cells of the map and shows the median of their minimal budgets.`
      : DATA.view.crowded ? "If states share a square, it shows the one with the largest minimal budget." : "Each square of the map is a state.",
    variables: "Two variables are the axes, the others have sliders; each square is a state.",
    mosaic: "Each square is a state, in breadth-first order from the start.",
    graph: `Each circle is a state, with the start on the left; bold arrows are the best actions.${DATA.view.short ? ` The labels are the values of ${DATA.view.variables.map(nameOf).join(", ")}.` : ""}`,
    levels: `${DATA.model.states.toLocaleString("en")} states are too many to draw, so they are grouped by their minimal budgets.`,
  }[DATA.view.kind];
  return `The minimal budget k* of a state is the damage that can be forced from there under every policy${DATA.model.ifPositive && "; here it is an upper bound, since some intervals begin at 0"}. ${drawn} The slider sets the budget left and shows which states are safe with it; select a state to see why.`;
}

// A row of radio buttons, drawn as one control.
function segments(fieldset, name, titles, chosen, onPick) {
  const row = make("div", { class: "row" }, Object.entries(titles).map(([value, title]) =>
    make("label", null, make("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onPick(value) }), make("span", null, title))));
  fieldset.append(row);
  return row;
}

function hover(i) {
  const line = byId("hover");
  if (i < 0) { line.textContent = ""; return; }
  const state = SQUARES.state[i], damage = SQUARES.damage[i];
  if (DATA.view.side > 1) { line.textContent = `minimal budgets in this square: median ${showNeed(SQUARES.need[i])}, largest ${showNeed(SQUARES.worst[i])}`; return; }
  const value = valueAt(state, app.layer), play = playAt(state, app.layer);
  line.textContent = `${stateName(state)} needs ${showNeed(SQUARES.need[i])}${damage ? `; a step into it may do ${damage} damage` : ""}`
    + `${DATA.rewarded && !Number.isNaN(value) && SQUARES.need[i] <= remaining() ? `; with ${remaining()} left its return is ${show(value)}` : ""}${play >= 0 && !isTerminal(state) ? `, by ${actionName(choicesOf(state)[play].action)}` : ""}`;
}

function drawExplore() {
  const left = remaining();
  byId("budget-value").textContent = String(left);
  byId("budget").setAttribute("aria-valuetext", `${left} left`);
  byId("budget-says").textContent = saysBudget(left);
  const found = app.selected >= 0 ? currentWitness() : null;
  const path = found && found.steps.length ? [found.steps[0].state, ...found.steps.map((step) => step.next)] : null;
  if (picture) picture.drawNeeds(path);
  drawLegend();
  drawLevels();
  drawDetails();
}

function saysBudget(left) {
  const safe = DATA.safeStates[app.layer];
  const start = DATA.least === null || left < DATA.least
    ? `The start is not ${DATA.model.ifPositive && "known to be "}safe.` : `From the start${CURVE.get(left) === Infinity ? " the return is unbounded." : DATA.rewarded && CURVE.has(left) && !Number.isNaN(CURVE.get(left)) ? `, the best return is ${show(CURVE.get(left))}.` : " this budget can be kept."}`;
  const size = DATA.model.states;
  if (size === 1) return `The only state is ${safe ? "" : "not "}safe. ${start}`;
  return `${safe === size ? `All ${size.toLocaleString("en")}` : `${safe.toLocaleString("en")} of ${size.toLocaleString("en")}`} states are safe. ${start}`;
}

function swatch(paint) {
  const canvas = make("canvas", { width: 36, height: 36, "aria-hidden": "true" });
  canvas.style.width = canvas.style.height = "18px";
  paint(canvas.getContext("2d"));
  return canvas;
}

function drawLegend() {
  if (DATA.view.kind === "levels") { byId("legend").hidden = true; return; }
  const graph = DATA.view.kind === "graph";
  const box = (colour, hatch, crossed) => swatch((pen) => {
    pen.fillStyle = colour; pen.fillRect(0, 0, 36, 36);
    if (!hatch) return;
    pen.strokeStyle = hatch; pen.lineWidth = 2.4; pen.beginPath();
    for (let d = -36; d < 36; d += 12) { pen.moveTo(d, 36); pen.lineTo(d + 36, 0); if (crossed) { pen.moveTo(d, 0); pen.lineTo(d + 36, 36); } }
    pen.stroke();
  });
  const items = [];
  const ramp = make("canvas", { width: 180, height: 24, "aria-hidden": "true" });
  ramp.style.width = "90px"; ramp.style.height = "12px";
  const pen = ramp.getContext("2d");
  for (let x = 0; x < 180; x++) { pen.fillStyle = css(shade(x / 179)); pen.fillRect(x, 0, 1, 24); }
  if (app.colourBy === "value" && VALUES) items.push(make("span", null, VALUES.cut ? "≤ " : "", show(VALUES.low), ramp, VALUES.cut ? "≥ " : "", show(VALUES.high), " expected return"));
  else items.push(make("span", null, "needs 0", ramp, String(highestNeed)));
  if (SQUARES && app.colourBy !== "value") {
    const worst = Math.min(4, DATA.model.maxDamage);
    if (worst) items.push(make("span", null, Array.from({ length: worst }, (_, i) => box(css(hazardShade(i + 1)))), worst > 1 ? `damage 1 … ${DATA.model.maxDamage}` : "damage 1"));
  }
  items.push(make("span", null, graph ? box(palette.unsafe) : box(palette.unsafe, palette.hatch), graph ? "dashed: not safe with the budget left" : "not safe with the budget left"));
  if (graph && STATES.play) items.push(make("span", null, swatch((p) => { p.fillStyle = palette.assured; p.fillRect(0, 15, 36, 6); }), "best action"));
  if (DATA.levels.infinite) items.push(make("span", null, box(palette.never, "rgba(255,255,255,.35)", true), DATA.model.hasUnknown ? "not known to be safe" : "never safe"));
  const small = SQUARES && SQUARES.kind !== "mosaic" && DATA.view.side === 1;
  if (small && STATES.play) items.push(make("span", null, "→ best action with the budget left there (faint: not reached by any run)"));
  if (SQUARES && SQUARES.kind !== "mosaic" && STATES.play) items.push(make("span", null, swatch((p) => { p.globalAlpha = small ? 0.45 : 1; p.fillStyle = palette.assured; p.fillRect(0, 12, 36, 12); }), shownRun().name));
  if (small) {
    items.push(make("span", null, swatch((p) => { p.fillStyle = palette.harm; p.fillRect(28, 4, 6, 28); }), "direction not allowed"));
    if (app.other !== null) items.push(make("span", null, swatch((p) => { p.fillStyle = palette.focus; p.fillRect(4, 15, 28, 6); }), `other action with ${DATA.layers[app.other]} left`));
  }
  put(byId("legend"), items);
}
