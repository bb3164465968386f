// ------------------------------------------------------------------ charts

// The width that the page has for charts, so that text keeps its size on a phone.
const room = () => document.querySelector(".page").clientWidth - 64;
const CHART = { width: Math.min(520, room()), height: 290, left: 56, right: 18, top: 16, bottom: 44 };

// Round steps for an axis.
function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw;
  const result = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) result.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return result;
}

function frameChart(label, xTitle, yTitle) {
  const { width, height, left, bottom } = CHART;
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label },
    draw("text", { x: (width + left) / 2, y: height - 6, "text-anchor": "middle" }, xTitle),
    draw("text", { x: 12, y: (height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(height - bottom) / 2})` }, yTitle));
}

const MARKS = {
  assured: (x, y) => draw("circle", { class: "f-assured", cx: x, cy: y, r: 4 }),
  expected: (x, y) => draw("rect", { class: "f-expected", x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2 }),
  chance: (x, y) => draw("path", { class: "f-chance", d: `M ${x} ${y - 5} L ${x + 5} ${y} L ${x} ${y + 5} L ${x - 5} ${y} Z` }),
};
const DASHES = { assured: null, expected: "7 4", chance: "2 4" };

// Series are { kind, points: [[x, y], …] }; xName labels an x on the axis.  Assured returns are step functions, since
// budgets are integers.
function lineChart({ label, xTitle, yTitle, series, xs, xName, mark }) {
  const finite = series.flatMap((s) => s.points.map((p) => p[1])).filter(Number.isFinite);
  const svg = frameChart(label, xTitle, yTitle);
  let low = Math.min(...finite), high = Math.max(...finite);
  if (high - low < 1e-6 * Math.max(1, Math.abs(high))) low = high;  // do not magnify rounding errors
  const pad = (high - low || Math.abs(high) || 1) * 0.08;
  low -= pad; high += pad;
  const { width, height, right, top, bottom } = CHART, heights = ticks(low, high, 5);
  const left = Math.max(CHART.left, 34 + 7.5 * Math.max(...heights.map((y) => show(y).length)));  // room for numbers beside the title
  const [first, last] = [xs[0], xs[xs.length - 1]];
  const X = (x) => left + 14 + ((x - first) / (last - first || 1)) * (width - left - right - 28);
  const Y = (y) => height - bottom - ((y - low) / (high - low)) * (height - top - bottom);
  for (const y of heights) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: Y(y), y2: Y(y) }),
      draw("text", { x: left - 8, y: Y(y) + 4, "text-anchor": "end" }, show(y)));
  }
  const every = Math.ceil(xs.length / (width < 400 ? 7 : 13));
  xs.forEach((x, i) => { if (i % every === 0) svg.append(draw("text", { x: X(x), y: height - bottom + 18, "text-anchor": "middle" }, xName(x))); });
  svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  if (mark) svg.append(draw("line", { class: "mark-line", x1: X(mark.x), x2: X(mark.x), y1: top, y2: height - bottom }),
    draw("text", { class: "strong halo", x: X(mark.x) + (mark.x > (first + last) / 2 ? -6 : 6), y: top + 8, "text-anchor": mark.x > (first + last) / 2 ? "end" : "start" }, mark.text));
  for (const { kind, points } of series) {
    const good = points.filter((p) => Number.isFinite(p[1]));
    svg.append(draw("path", { class: `s-${kind}`, fill: "none", "stroke-width": 2.2, "stroke-dasharray": DASHES[kind],
      d: good.map((p, i) => (i ? (kind === "assured" ? `H ${X(p[0])} V ${Y(p[1])}` : `L ${X(p[0])} ${Y(p[1])}`) : `M ${X(p[0])} ${Y(p[1])}`)).join(" ") }));
    if (good.length <= 40) good.forEach((p) => { const dot = MARKS[kind](X(p[0]), Y(p[1])); dot.append(draw("title", null, `${xName(p[0])}: ${show(p[1])}`)); svg.append(dot); });
    points.filter((p) => p[1] === Infinity).forEach((p) => svg.append(draw("text", { class: `f-${kind}`, x: X(p[0]), y: top + 10, "text-anchor": "middle" }, "∞")));
  }
  return svg;
}

function legendOf(kinds, names) {
  return make("p", { class: "legend" }, kinds.map((kind) => make("span", { class: `c-${kind}` }, make("i", { class: `key ${kind}`, "aria-hidden": "true" }), make("span", { class: "dim" }, names[kind]))));
}

function numbersTable(heads, rows) {
  return make("details", null, make("summary", null, "The numbers"),
    make("div", { class: "scroll" }, make("table", null, make("thead", null, make("tr", null, heads.map((h) => make("th", { scope: "col", class: "number" }, h)))),
      make("tbody", null, rows.map((row) => make("tr", null, row.map((cell) => make("td", { class: "number" }, cell))))))));
}

// ------------------------------------------------------------------ return against budget, and against risk

function drawReturns() {
  const holder = byId("return-charts"), curve = [...CURVE.values()], budget = DATA.budget;
  if (!DATA.rewarded) { byId("returns").hidden = true; return; }
  byId("returns-lead").textContent = DATA.least === null
    ? "No finite budget suffices from the start, so there is no return to show."
    : "The best average return among all policies that meet the constraint, for each budget Δ.";
  if (DATA.least !== null && !curve.some(Number.isFinite)) byId("returns-lead").textContent = "No computed budget has a finite return.";
  if (!curve.some(Number.isFinite)) { holder.hidden = true; return; }
  const xs = [...CURVE.keys()], series = [{ kind: "assured", points: [...CURVE] }];
  const f = DATA.frontier, kinds = ["assured"];
  if (f) { series.push({ kind: "expected", points: f.limits.map((x, i) => [x, toNumber(f.expected[i])]) }); kinds.push("expected"); }
  const at = (k) => (f && f.limits.indexOf(k) >= 0 ? show(f.expected[f.limits.indexOf(k)]) : "");
  put(holder, make("div", { class: "card" }, make("h3", null, "Return against Δ"),
    chartTool("return-and-budget", lineChart({ label: "Best return against the budget", xTitle: "budget Δ", yTitle: "return", series, xs, xName: String, mark: { x: budget, text: `this report: Δ = ${budget}` } })),
    legendOf(kinds, { assured: "never more than Δ", expected: "at most Δ on average" }),
    numbersTable(["Δ", "never more", ...(f ? ["on average"] : [])], xs.map((k) => [k, show(CURVE.get(k)), ...(f ? [at(k)] : [])]))));
  if (!f || f.chance.filter((x) => Number.isFinite(toNumber(x))).length < 2) return;
  const places = f.risks.map((_, i) => i);
  const named = (i) => (f.risks[i] === 0 ? "never" : f.risks[i] === 1 ? "always" : `${+(100 * f.risks[i]).toFixed(2)} %`);
  holder.append(make("div", { class: "card" }, make("h3", null, `Return against the risk of more than ${budget}`),
    chartTool("return-and-risk", lineChart({ label: "Best return against the risk", xTitle: `allowed risk of more than ${budget}`, yTitle: "return",
      series: [{ kind: "chance", points: places.map((i) => [i, toNumber(f.chance[i])]) }], xs: places, xName: named })),
    legendOf(["chance"], { chance: `more than ${budget} with some probability` }),
    numbersTable(["risk", "return"], places.map((i) => [named(i), show(f.chance[i])]))));
}

// ------------------------------------------------------------------ the three kinds of constraint

function drawKinds() {
  byId("kinds-lead").textContent = "The best policies under three kinds of constraint. Only the first is about every single run.";
  const exact = DATA.plans.every((plan) => plan.exact || plan.problem);
  const heads = ["Constraint", "return", "mean damage", "worst damage", `P(damage > ${DATA.budget})`, "policy"];
  const rows = DATA.plans.map((plan) => {
    const name = make("td", { class: `c-${plan.kind}` }, make("i", { class: `key ${plan.kind}`, "aria-hidden": "true" }), make("strong", null, PLANS[plan.kind].title), make("div", { class: "dim" }, plan.constraint));
    if (plan.problem || plan.value === null) return make("tr", null, name, make("td", { colspan: 5, class: "dim" }, plain(plan.problem)));
    const over = toNumber(plan.overspends) > 0;
    return make("tr", null, name, make("td", { class: "number" }, DATA.rewarded ? show(plan.value) : "–"), make("td", { class: "number" }, show(plan.meanDamage)),
      make("td", { class: "number" }, plan.worst === null ? "no limit" : plan.worst), make("td", { class: `number${over ? " hurt" : ""}` }, plan.kind === "assured" ? (DATA.model.learned ? "0 in the model" : "0, proved") : percent(plan.overspends)),
      make("td", null, plan.randomised ? "randomised" : "deterministic", plan.stationary ? ", independent of the budget left" : ", depends on the budget left", toNumber(plan.ends) <= 0 ? "; never ends" : toNumber(plan.ends) < 1 - 1e-9 ? `; ends with probability ${percent(plan.ends)}` : ""));
  });
  for (const row of rows) [...row.children].forEach((cell, i) => { if (i && cell.colSpan === 1) cell.setAttribute("data-label", heads[i]); });
  put(byId("kinds-table"), make("table", { class: "wide stacked" }, make("thead", null, make("tr", null, heads.map((h, i) => make("th", { scope: "col", class: i && i < 5 ? "number" : "" }, h)))), make("tbody", null, rows)),
    exact ? "" : make("p", { class: "sub" }, "Some distributions of damage were sampled, since exact ones would have taken longer than the time limit."));
  const charts = byId("kinds-charts");
  put(charts);
  const { starts, plans } = DATA.distributions;
  if (!plans.some((d) => d.damage)) return;
  const damages = plans.map((d) => d.damage && { ...d.damage, values: Array.from(unpack(d.damage.probability)) });
  const known = damages.filter(Boolean);
  const size = starts.length, most = Math.max(...known.flatMap((d) => [...d.values, d.beyond]));
  const slots = size + (known.some((d) => d.beyond > 0) ? 1 : 0);
  charts.append(make("div", { class: "thirds" }, plans.map((d, i) => !d.damage ? "" : make("div", { class: "card" }, make("h3", { class: `c-${d.kind}` }, make("i", { class: `key ${d.kind}`, "aria-hidden": "true" }), `Damage: ${PLANS[d.kind].title.toLowerCase()}`),
    make("p", { class: "sub" }, d.damage.exact ? "exact probabilities" : `sampled: ${count(d.damage.episodes, "episode")}`),
    chartTool(`damage-${d.kind}`, damageChart(d.kind, damages[i], size, slots, most))))));
  if (!DATA.rewarded) return;
  const highest = Math.max(...plans.flatMap((d) => (d.return ? d.return.share : [])));
  charts.append(make("div", { class: "thirds" }, plans.map((d) => !d.return ? "" : make("div", { class: "card" }, make("h3", { class: `c-${d.kind}` }, make("i", { class: `key ${d.kind}`, "aria-hidden": "true" }), `Return: ${PLANS[d.kind].title.toLowerCase()}`),
    make("p", { class: "sub" }, `sampled: ${count(d.return.episodes, "episode")}, seed ${DATA.proof.seed}${d.return.cut > 0 ? `; ${percent(d.return.cut)} were truncated after ${d.return.longest.toLocaleString("en")} steps` : ""}`),
    chartTool(`return-${d.kind}`, returnChart(d.kind, d.return, highest))))));
}

const SMALL = { width: Math.min(330, room()), height: 204, left: 46, right: 8, top: 32, bottom: 36 };

function smallFrame(label, xTitle, most) {
  const { width, height, left, right, top, bottom } = SMALL;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label });
  const Y = (p) => height - bottom - (p / (most || 1)) * (height - top - bottom);
  for (const p of ticks(0, most || 1, 3)) svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: Y(p), y2: Y(p) }), draw("text", { x: left - 6, y: Y(p) + 4, "text-anchor": "end" }, `${+(100 * p).toFixed(1)} %`));
  svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }), draw("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, xTitle));
  return [svg, Y];
}

let patterns = 0;
function hatched(svg) {
  const id = `over-${++patterns}`;
  svg.append(draw("defs", null, draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("rect", { class: "f-harm", width: 3.6, height: 6 }))));
  return `url(#${id})`;
}

function damageChart(kind, damage, size, slots, most) {
  const starts = DATA.distributions.starts, name = (i) => (i + 1 < starts.length && starts[i + 1] > starts[i] + 1 ? `${starts[i]} … ${starts[i + 1] - 1}` : starts[i]);
  const over = damage.values.reduce((sum, p, i) => sum + (starts[i] > DATA.budget ? p : 0), 0) + damage.beyond;
  const [svg, Y] = smallFrame(`Distribution of damage, ${PLANS[kind].title}: more than ${DATA.budget} with probability ${percent(over)}`, "damage per run", most);
  const { width, height, left, right, top, bottom } = SMALL, step = (width - left - right) / Math.max(slots, 4);
  const pattern = hatched(svg);
  damage.values.forEach((p, d) => {
    const spent = starts[d] > DATA.budget;
    if (p <= 0) return;
    const bar = draw("rect", { class: spent ? "" : `f-${kind}`, fill: spent ? pattern : null, x: left + d * step + step * 0.12, y: Math.min(Y(p), height - bottom - 1), width: step * 0.76, height: Math.max(1, height - bottom - Y(p)) });
    bar.append(draw("title", null, `${name(d)} damage: ${percent(p)}`));
    svg.append(bar);
  });
  if (damage.beyond > 0) svg.append(draw("rect", { fill: pattern, x: left + size * step + step * 0.12, y: Y(damage.beyond), width: step * 0.76, height: Math.max(1, height - bottom - Y(damage.beyond)) }), draw("text", { x: left + (size + 0.5) * step, y: height - bottom + 14, "text-anchor": "middle" }, "more"));
  const every = Math.ceil(size / 9);
  for (let d = 0; d < size - (slots > size ? 1 : 0); d += every) svg.append(draw("text", { x: left + (d + 0.5) * step, y: height - bottom + 14, "text-anchor": "middle" }, starts[d]));
  const place = starts.findIndex((first) => first > DATA.budget), wall = left + (place < 0 ? size : place) * step;
  if (place < 0 && DATA.budget >= starts[size - 1] + 1) svg.append(draw("text", { class: "halo", x: width - right, y: top - 6, "text-anchor": "end" }, `Δ = ${DATA.budget} →`));
  else svg.append(draw("line", { class: "mark-line", x1: wall, x2: wall, y1: top - 16, y2: height - bottom }), draw("text", { class: "halo", x: wall + (wall > width - 60 ? -5 : 5), y: top - 6, "text-anchor": wall > width - 60 ? "end" : "start" }, `Δ = ${DATA.budget}`));
  svg.append(draw("text", { class: `${over > 0 ? "f-harm" : `f-${kind}`} halo`, x: width - right, y: 12, "text-anchor": "end" }, over > 0 ? `${percent(over)} overspend` : "none overspends"));
  return svg;
}

function returnChart(kind, data, most) {
  const [svg, Y] = smallFrame(`Sampled distribution of the return, ${PLANS[kind].title}: mean ${show(data.mean)}`, "return per run", most);
  const { width, height, left, right, top, bottom } = SMALL, edges = DATA.distributions.edges.map(toNumber), low = edges[0], high = edges[edges.length - 1];
  const X = (x) => left + ((x - low) / (high - low)) * (width - left - right);
  const whole = Math.abs(low % 1) === 0.5 && edges[1] - edges[0] === 1;  // a bar for each whole number
  const range = (i) => (whole ? show(edges[i] + 0.5) : `${show(edges[i])} … ${show(edges[i + 1])}`);
  data.share.forEach((p, i) => { if (p > 0) { const bar = draw("rect", { class: `f-${kind}`, x: X(edges[i]) + 0.5, y: Y(p), width: Math.max(1, X(edges[i + 1]) - X(edges[i]) - 1), height: height - bottom - Y(p) }); bar.append(draw("title", null, `${range(i)}: ${percent(p)}`)); svg.append(bar); } });
  const named = whole ? ticks(low + 0.5, high - 0.5, Math.min(5, high - low - 1)).filter(Number.isInteger) : ticks(low, high, 5);
  for (const x of named) svg.append(draw("text", { x: X(x), y: height - bottom + 14, "text-anchor": "middle" }, show(x)));
  const mean = toNumber(data.mean);
  if (Number.isFinite(mean)) svg.append(draw("line", { class: "mark-line", x1: X(mean), x2: X(mean), y1: top - 16, y2: height - bottom }), draw("text", { class: "halo", x: X(mean) + (mean > (low + high) / 2 ? -5 : 5), y: top - 6, "text-anchor": mean > (low + high) / 2 ? "end" : "start" }, `mean ${show(mean)}`));
  return svg;
}
