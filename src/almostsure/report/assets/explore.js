// ------------------------------------------------------------------ the slider, the drawing and its legend

let picture = null;

function buildExplore() {
  const slider = byId("budget");
  slider.max = String(DATA.layers.length - 1);
  slider.value = String(app.layer);
  slider.addEventListener("input", () => change({ layer: Number(slider.value) }));
  const select = (state) => change({ selected: state, action: null });
  const kind = DATA.view.kind;
  const keys = "Use the arrow keys to go from state to state, Home for the start.";
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

// Zoom, another budget to compare with, and what can be taken away.
function buildTools() {
  const button = (title, label, onclick) => make("button", { type: "button", title: label, "aria-label": label, onclick }, title);
  const zoom = (factor) => () => { picture.zoom = factor ? Math.min(16, Math.max(1, picture.zoom * factor)) : 1; drawExplore(); };
  const others = DATA.layers.map((k, layer) => ({ k, layer })).filter(({ k }) => k <= DATA.solved && DATA.least !== null && k >= DATA.least);
  put(byId("tools"),
    STATES.play && SQUARES && SQUARES.kind !== "mosaic" && others.length > 1 ? make("label", null, "What changes with ", make("select", { id: "other", "aria-label": "Another budget to compare with",
      onchange: (event) => change({ other: event.target.value === "" ? null : Number(event.target.value) }) },
    make("option", { value: "" }, "no other budget"), others.map(({ k, layer }) => make("option", { value: layer }, `${k} left`)))) : "",
    SQUARES ? [button("−", "Zoom out", zoom(1 / 1.5)), button("+", "Zoom in", zoom(1.5)), button("1:1", "The whole drawing", zoom(0))] : "",
    button("CSV", "Save what each state needs as CSV", saveStates), picture ? button("SVG", "Save the drawing as SVG", savePicture) : "");
}

function lead() {
  const drawn = {
    map: DATA.view.cellsASide > 1 ? `Each square stands for ${DATA.view.cellsASide} × ${DATA.view.cellsASide} cells of the map and shows what half of them need at most.`
      : DATA.view.crowded ? "Several states share a square: the one that needs most is shown." : "Each square of the map is a state.",
    variables: "Two variables are the axes, the others have sliders; each square is a state.",
    mosaic: "Each square is a state, in the order in which they can be reached from the start.",
    graph: `Each circle is a state, from the start on the left; bold arrows are what is best.${DATA.view.short ? ` Below it are the values of ${DATA.view.variables.map(nameOf).join(", ")}.` : ""}`,
    levels: `${DATA.model.states.toLocaleString("en")} states are too many to draw, so they are gathered by what they need.`,
  }[DATA.view.kind];
  return `A state needs the budget k* if that much damage can be forced there, whatever the policy${DATA.model.ifPositive && "; here it is an upper bound, since some intervals begin at 0"}. ${drawn} Move the slider to see what is safe with what is left; select a state to see why.`;
}

// A row of radio buttons that looks like one control.
function segments(fieldset, name, titles, chosen, onPick) {
  const row = make("div", { class: "row" }, Object.entries(titles).map(([value, title]) =>
    make("label", null, make("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onPick(value) }), make("span", null, title))));
  fieldset.append(row);
  return row;
}

function hover(i) {
  const line = byId("hover");
  if (i < 0) { line.textContent = ""; return; }
  const state = SQUARES.state[i], hurts = SQUARES.hurts[i];
  if (DATA.view.cellsASide > 1) { line.textContent = `half of this square needs at most ${showNeed(SQUARES.need[i])}, the worst ${showNeed(SQUARES.worst[i])}`; return; }
  const value = valueAt(state, app.layer), play = playAt(state, app.layer);
  line.textContent = `${stateName(state)} needs ${showNeed(SQUARES.need[i])}${hurts ? `; a step into it may hurt by ${hurts}` : ""}`
    + `${DATA.rewarded && !Number.isNaN(value) && SQUARES.need[i] <= remaining() ? `; with ${remaining()} left it returns ${show(value)}` : ""}${play >= 0 && !isTerminal(state) ? `, by ${actionName(choicesOf(state)[play].action)}` : ""}`;
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
    ? `The start is not ${DATA.model.ifPositive && "known to be "}safe with that.` : `From the start${CURVE.get(left) === Infinity ? " the return has no bound." : DATA.rewarded && CURVE.has(left) && !Number.isNaN(CURVE.get(left)) ? `, the best return is ${show(CURVE.get(left))}.` : " it can be kept."}`;
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
  if (app.colourBy === "value" && VALUES) items.push(make("span", null, VALUES.cut ? "≤ " : "", show(VALUES.low), ramp, VALUES.cut ? "≥ " : "", show(VALUES.high), " return to expect"));
  else items.push(make("span", null, "needs 0", ramp, String(highestNeed)));
  if (SQUARES && app.colourBy !== "value") {
    const worst = Math.min(4, DATA.model.maxDamage);
    if (worst) items.push(make("span", null, Array.from({ length: worst }, (_, i) => box(css(hazardShade(i + 1)))), worst > 1 ? `hurts by 1 … ${DATA.model.maxDamage}` : "hurts by 1"));
  }
  items.push(make("span", null, graph ? box(palette.unsafe) : box(palette.unsafe, palette.hatch), graph ? "dashed: not safe with what is left" : "not safe with what is left"));
  if (graph && STATES.play) items.push(make("span", null, swatch((p) => { p.fillStyle = palette.assured; p.fillRect(0, 15, 36, 6); }), "best action"));
  if (DATA.levels.infinite) items.push(make("span", null, box(palette.never, "rgba(255,255,255,.35)", true), "never safe"));
  const small = SQUARES && SQUARES.kind !== "mosaic" && DATA.view.cellsASide === 1;
  if (small && STATES.play) items.push(make("span", null, "→ best action with what is left there (faint: no run comes there)"));
  if (SQUARES && SQUARES.kind !== "mosaic" && STATES.play) items.push(make("span", null, swatch((p) => { p.globalAlpha = small ? 0.45 : 1; p.fillStyle = palette.assured; p.fillRect(0, 12, 36, 12); }), shownRun().name));
  if (small) {
    items.push(make("span", null, swatch((p) => { p.fillStyle = palette.harm; p.fillRect(28, 4, 6, 28); }), "not allowed that way"));
    if (app.other !== null) items.push(make("span", null, swatch((p) => { p.fillStyle = palette.focus; p.fillRect(4, 15, 28, 6); }), `other action with ${DATA.layers[app.other]} left`));
  }
  put(byId("legend"), items);
}
