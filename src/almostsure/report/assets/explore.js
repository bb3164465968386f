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
  if (SQUARES) picture = new Squares(byId("stage"), { label: `${kind === "map" ? "Map" : "Mosaic"} of the budget that each state needs. ${keys}`, onSelect: select, onHover: hover });
  else if (kind === "graph") picture = new Graph(byId("stage"), { label: `Graph of the budget that each state needs. ${keys}`, onSelect: select });
  else byId("stage").closest(".card").insertBefore(byId("levels-card"), byId("stage"));
  if (kind === "levels") byId("levels-card").className = "";
  byId("explore-lead").textContent = lead();
  if (picture && VALUES) segments(byId("colour-by"), "colour", { need: "need", value: "return" }, "need", (value) => change({ colourBy: value }));
  else byId("colour-by").hidden = true;
  onChange(drawExplore);
}

function lead() {
  const drawn = {
    map: DATA.view.cellsASide > 1 ? `Each square stands for ${DATA.view.cellsASide} × ${DATA.view.cellsASide} cells of the map and shows what half of them need at most.`
      : DATA.view.crowded ? "Several states share a square: the one that needs most is shown." : "Each square of the map is a state.",
    mosaic: "Each square is a state, in the order in which they can be reached from the start.",
    graph: "Each circle is a state, from the start on the left; bold arrows are what is best.",
    levels: `${DATA.model.states.toLocaleString("en")} states are too many to draw, so they are gathered by what they need.`,
  }[DATA.view.kind];
  return `A state needs the budget k* if that much damage can be forced there, whatever the policy. ${drawn} Move the slider to see what is safe with what is left; select a state to see why.`;
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
  line.textContent = `${stateName(state)} needs ${showNeed(SQUARES.need[i])}${hurts ? `; a step into it may hurt by ${hurts}` : ""}`;
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
    ? "The start is not safe with that." : `From the start${CURVE.get(left) === Infinity ? " the return has no bound." : DATA.rewarded && CURVE.has(left) && !Number.isNaN(CURVE.get(left)) ? `, the best return is ${show(CURVE.get(left))}.` : " it can be kept."}`;
  const size = DATA.model.states;
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
  if (app.colourBy === "value" && VALUES) items.push(make("span", null, show(VALUES.low), ramp, show(VALUES.high), " return to expect"));
  else items.push(make("span", null, "needs 0", ramp, String(highestNeed)));
  items.push(make("span", null, graph ? box(palette.unsafe) : box(palette.unsafe, palette.hatch), graph ? "dashed: not safe with what is left" : "not safe with what is left"));
  if (graph && STATES.play) items.push(make("span", null, swatch((p) => { p.fillStyle = palette.assured; p.fillRect(0, 15, 36, 6); }), "best action"));
  if (DATA.levels.infinite) items.push(make("span", null, box(palette.never, "rgba(255,255,255,.35)", true), "never safe"));
  if (SQUARES && SQUARES.compass && DATA.view.cellsASide === 1) {
    if (STATES.play) items.push(make("span", null, "→ best action"), make("span", null, swatch((p) => { p.globalAlpha = 0.45; p.fillStyle = palette.assured; p.fillRect(0, 12, 36, 12); }), "likeliest run"));
    items.push(make("span", null, swatch((p) => { p.fillStyle = palette.harm; p.fillRect(28, 4, 6, 28); }), "not allowed that way"));
    items.push(make("span", null, swatch((p) => { p.fillStyle = palette.harm; for (const x of [10, 24]) { p.beginPath(); p.arc(x, 18, 4, 0, 7); p.fill(); } }), "damage on arrival"));
  }
  put(byId("legend"), items);
}
