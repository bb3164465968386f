// ------------------------------------------------------------------ recorded episodes, played step by step

const MOST_PIPS = 24, SPEEDS = { "0.5": "half speed", 1: "normal speed", 3: "fast", 10: "very fast" };

function buildPlayer() {
  if (!DATA.episodes.length) { byId("play").hidden = true; return; }
  const records = DATA.episodes.map((record) => ({ ...record, actions: unpack(record.actions), rewards: unpack(record.rewards), damages: unpack(record.damages), frames: unpack(record.frames) }));
  byId("play-lead").textContent = `Selected from ${count(DATA.distributions.plans.find((d) => d.return).return.episodes, "simulated run")} of each policy (seed ${DATA.proof.seed}). Every run starts with a budget of ${DATA.budget}.${DATA.pictures.length ? " The pictures beside the drawing are the environment's own." : ""}`;
  const parts = playerParts(records);
  const player = { record: records[0], beside: null, step: 0, timer: null, speed: 1, parts };
  const last = () => Math.max(player.record.actions.length, player.beside ? player.beside.actions.length : 0);
  const goTo = (step) => { player.step = Math.max(0, Math.min(step, last())); drawStep(player); };
  const pause = () => { clearInterval(player.timer); player.timer = null; put(parts.go, "▶ Play"); parts.go.setAttribute("aria-label", "Play"); };
  const play = () => {
    if (player.step >= last()) goTo(0);
    clearInterval(player.timer);
    player.timer = setInterval(() => { if (player.step >= last()) pause(); else goTo(player.step + 1); }, 420 / player.speed);
    put(parts.go, "❚❚ Pause");
    parts.go.setAttribute("aria-label", "Pause");
  };
  const choose = (record, beside) => { pause(); Object.assign(player, { record, beside }); parts.scrub.max = String(last()); drawBeside(player); goTo(0); };
  parts.go.addEventListener("click", () => (player.timer ? pause() : play()));
  parts.first.addEventListener("click", () => { pause(); goTo(0); });
  parts.back.addEventListener("click", () => { pause(); goTo(player.step - 1); });
  parts.next.addEventListener("click", () => { pause(); goTo(player.step + 1); });
  parts.scrub.addEventListener("input", () => { pause(); goTo(Number(parts.scrub.value)); });
  parts.speed.addEventListener("change", () => { player.speed = Number(parts.speed.value); if (player.timer) play(); });
  parts.episode.addEventListener("change", () => choose(records[Number(parts.episode.value)], player.beside));
  parts.other.addEventListener("change", () => choose(player.record, parts.other.value === "" ? null : records[Number(parts.other.value)]));
  parts.pick = (kind) => { listEpisodes(parts.episode, records, kind); choose(records[Number(parts.episode.value)], player.beside); };
  parts.pick(records[0].kind);
  redraws.push(() => drawStep(player));
}

function playerParts(records) {
  const kinds = [...new Set(records.map((record) => record.kind))];
  const parts = {
    stage: make("div", { class: "stage" }), frame: newFrame(), go: make("button", { type: "button", class: "go", id: "player-go" }),
    first: make("button", { type: "button", "aria-label": "First step" }, "|◀"), back: make("button", { type: "button", "aria-label": "Previous step", id: "player-back" }, "◀"),
    next: make("button", { type: "button", "aria-label": "Next step", id: "player-next" }, "▶|"),
    scrub: make("input", { type: "range", min: 0, value: 0, "aria-label": "Step of the episode", id: "player-step" }),
    speed: make("select", { "aria-label": "Speed" }, Object.entries(SPEEDS).sort((a, b) => a[0] - b[0]).map(([value, title]) => make("option", { value, selected: value === "1" }, title))),
    episode: make("select", { "aria-label": "Episode", id: "player-episode" }), beside: make("div", { class: "beside" }),
    other: make("select", { "aria-label": "Episode for comparison", id: "player-other" }, make("option", { value: "" }, "nothing"),
      records.map((record, i) => make("option", { value: i }, `${PLANS[record.kind].title}, ${record.title}: damage ${record.sum.damage}`))),
    gauge: make("div", { class: "gauge", "aria-hidden": "true" }),
    left: make("p", { class: "left", id: "player-left" }), log: make("p", { class: "log", id: "player-log" }), stairs: make("div", { id: "player-stairs" }), outcome: make("p", { class: "dim sub" }),
  };
  const policy = make("fieldset", { class: "segments", id: "player-policy" }, make("legend", null, "Constraint"));
  segments(policy, "player-policy", Object.fromEntries(kinds.map((kind) => [kind, PLANS[kind].title])), kinds[0], (kind) => parts.pick(kind));
  put(byId("player"), make("div", { class: "player-grid" },
    make("div", { class: "card" }, DATA.view.kind === "levels" && !parts.frame ? "" : parts.beside, parts.stairs, make("div", { class: "buttons" }, parts.first, parts.back, parts.go, parts.next, parts.speed), parts.scrub),
    make("div", { class: "card stack" }, policy, make("div", null, make("p", { class: "sub" }, "Episode"), parts.episode), kinds.length > 1 ? make("div", null, make("p", { class: "sub" }, "Compare with"), parts.other) : "", make("div", null, make("p", { class: "sub" }, "Budget left"), parts.left, parts.gauge), parts.log, parts.outcome)));
  put(parts.beside, parts.stage, parts.frame);
  parts.picture = newScene(parts.stage);
  return parts;
}

function newScene(stage) {
  if (SQUARES) return new Squares(stage, { label: "The map with the path of the episode", largest: 38 });
  return DATA.view.kind === "graph" ? new Graph(stage, { label: "The graph with the state of the episode" }) : null;
}

// The environment's own rendering, if this file has any.
function newFrame() {
  return DATA.pictures.length ? make("img", { class: "frame", alt: "" }) : "";
}

function drawFrame(image, record, step) {
  if (!image) return;
  const number = record.frames ? record.frames[step] : -1;
  image.hidden = number < 0;
  if (number < 0) return;
  image.src = `data:image/png;base64,${DATA.pictures[number]}`;
  image.alt = `The environment's own picture of ${stateName(record.states[step])}`;
}

// One stage, or two with a title each.
function drawBeside({ record, beside, parts }) {
  const title = ({ kind }) => make("h3", { class: `c-${kind}` }, make("i", { class: `key ${kind}`, "aria-hidden": "true" }), PLANS[kind].title);
  if (!beside) { put(parts.beside, parts.stage, parts.frame); parts.second = null; return; }
  const stage = make("div", { class: "stage" });
  parts.says = make("p", { class: "dim sub", id: "player-beside" });
  parts.otherFrame = newFrame();
  put(parts.beside, make("div", null, title(record), parts.stage, parts.frame), make("div", null, title(beside), stage, parts.otherFrame, parts.says));
  parts.second = newScene(stage);
}

function listEpisodes(select, records, kind) {
  put(select, records.map((record, i) => ({ record, i })).filter(({ record }) => record.kind === kind)
    .map(({ record, i }) => make("option", { value: i }, `${record.title}: damage ${record.sum.damage}${DATA.rewarded ? `, return ${show(record.sum.return)}` : ""}`)));
}

function drawStep(player) {
  const { record, beside, parts } = player, step = Math.min(player.step, record.actions.length);
  let spent = 0, earned = 0;
  for (let t = 0; t < step; t++) { spent += record.damages[t]; earned += record.rewards[t]; }
  const left = DATA.budget - spent;
  parts.scrub.value = String(player.step);
  parts.scrub.setAttribute("aria-valuetext", `step ${step} of ${record.actions.length}, ${left} left`);
  parts.left.textContent = left >= 0 ? `${left} of ${DATA.budget}` : `overspent by ${-left}`;
  parts.left.className = `left${left < 0 ? " over" : ""}`;
  drawGauge(parts.gauge, left);
  const here = stateName(record.states[step]);
  const gained = DATA.rewarded ? ` Return so far: ${show(earned)}.` : "";
  parts.log.textContent = step === 0 ? `Starts at ${here}.` : `Step ${step} of ${record.actions.length}: ${actionName(record.actions[step - 1])} → ${here}${record.damages[step - 1] ? `, damage ${record.damages[step - 1]}` : ""}.${gained}`;
  parts.outcome.textContent = `Total: ${count(record.steps, "step")}, damage ${record.sum.damage}${DATA.rewarded ? `, return ${show(record.sum.return)}` : ""}${record.ended ? "" : "; truncated there"}.${record.steps > record.actions.length ? ` The first ${record.actions.length} steps are recorded.` : ""}`;
  drawScene(parts.picture, record, step);
  drawFrame(parts.frame, record, step);
  if (beside) {
    const there = Math.min(player.step, beside.actions.length), taken = beside.damages.slice(0, there).reduce((a, b) => a + b, 0);
    drawScene(parts.second, beside, there);
    drawFrame(parts.otherFrame, beside, there);
    parts.says.textContent = taken > DATA.budget ? `overspent by ${taken - DATA.budget}` : `${DATA.budget - taken} of ${DATA.budget} left`;
  }
  put(parts.stairs, stairs(record, step));
}

function drawScene(scene, record, step) {
  if (!scene) return;
  if (!SQUARES) { scene.drawPlay(record.states[step], step ? record.states[step - 1] : -1); return; }
  if (SQUARES.kind === "variables") SQUARES.show(record.states[step]);
  if (!scene.drawTerrain()) return;
  const colour = palette[record.kind];
  scene.trail(record.states.slice(0, step + 1), colour, { width: 3 });
  for (let t = 0; t < step; t++) if (record.damages[t]) scene.hit(record.states[t + 1], record.damages[t]);
  scene.disc(record.states[step], 0.3, colour, palette.ink);
}

function drawGauge(gauge, left) {
  const budget = DATA.budget;
  if (!budget && left >= 0) { put(gauge); return; }
  if (budget > MOST_PIPS || -left > MOST_PIPS) {
    const rest = make("div");
    rest.style.width = `${(100 * Math.max(0, left)) / (budget || 1)}%`;
    put(gauge, make("div", { class: "meter" }, rest));
    return;
  }
  const pips = [];
  for (let k = 0; k < budget; k++) pips.push(make("span", { class: k < left ? "pip" : "pip spent" }));
  for (let k = 0; k < -left; k++) pips.push(make("span", { class: "pip over" }));
  put(gauge, pips);
}

// The budget left after each step; negative once overspent.
function stairs(record, step) {
  const width = Math.min(620, room()), height = 92, left = 34, right = 8, top = 10, bottom = 18, steps = Math.max(1, record.actions.length);
  const levels = [DATA.budget];
  for (const damage of record.damages) levels.push(levels[levels.length - 1] - damage);
  const low = Math.min(0, ...levels), high = Math.max(1, DATA.budget);
  const X = (t) => left + (t / steps) * (width - left - right), Y = (k) => height - bottom - ((k - low) / (high - low)) * (height - top - bottom);
  const path = levels.map((k, t) => (t ? `H ${X(t)} V ${Y(k)}` : `M ${X(0)} ${Y(k)}`)).join(" ");
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "The budget left after each step" },
    draw("line", { class: "axis", x1: left, x2: width - right, y1: Y(0), y2: Y(0) }),
    draw("text", { x: left - 6, y: Y(DATA.budget) + 4, "text-anchor": "end" }, DATA.budget), draw("text", { x: left - 6, y: Y(0) + 4, "text-anchor": "end" }, DATA.budget ? "0" : ""),
    draw("path", { class: `s-${record.kind}`, fill: "none", "stroke-width": 2, d: path }),
    draw("line", { class: "mark-line", x1: X(step), x2: X(step), y1: top - 4, y2: height - bottom }),
    MARKS[record.kind](X(step), Y(levels[step])),
    draw("text", { x: width - right, y: height - 4, "text-anchor": "end" }, `${count(record.actions.length, "step")}`), draw("text", { x: left, y: height - 4 }, "budget left"));
  if (low < 0) svg.append(draw("text", { class: "f-harm", x: left - 6, y: Y(low) + 4, "text-anchor": "end" }, show(low)));
  return svg;
}
