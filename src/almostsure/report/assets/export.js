// ------------------------------------------------------------------ downloads: CSV and SVG

function save(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
const fileName = (ending) => `${DATA.name.replace(/[^\w.-]+/g, "-").slice(0, 60)}-budget-${remaining()}${ending}`;

// One row per state with details: its minimal budget, and the best action and return with the budget left.
function saveStates() {
  const quoted = (text) => `"${String(text).replaceAll("\"", "\"\"")}"`;
  const rows = [["state", "name", "needs", "safe", "action", "return", "terminal"]];
  for (let i = 0; i < STATES.count; i++) {
    const state = idOf(i), play = playAt(state, app.layer), value = valueAt(state, app.layer);
    rows.push([state, quoted(fullName(state)), needOf(state) === INFINITE ? "inf" : needOf(state), needOf(state) <= remaining(),
      play < 0 || isTerminal(state) ? "" : quoted(fullAction(choicesOf(state)[play].action)), Number.isNaN(value) ? "" : value, isTerminal(state)]);
  }
  save(fileName(".csv"), "text/csv", rows.map((row) => row.join(",")).join("\r\n") + "\r\n");
}

// The part of the canvas interface that drawings use, writing SVG.
class SvgPen {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], path: "", dash: [], globalAlpha: 1, lineWidth: 1, clips: 0, open: [] });
  }
  setTransform() {}
  setLineDash(dash) { this.dash = dash; }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
  rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }
  roundRect(x, y, w, h) { this.rect(x, y, w, h); }
  arc(x, y, r) { this.path += `M${round(x - r)} ${round(y)}a${round(r)} ${round(r)} 0 1 0 ${round(2 * r)} 0a${round(r)} ${round(r)} 0 1 0 ${round(-2 * r)} 0Z`; }
  fill() { this.add(`<path d="${this.path}" fill="${this.fillStyle}"`); }
  stroke() { this.add(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${round(this.lineWidth)}" stroke-linecap="round"${this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : ""}`); }
  fillRect(x, y, w, h) { this.beginPath(); this.rect(x, y, w, h); this.fill(); }
  fillText(text, x, y) {
    const [, weight, size] = /^(\d+) ([\d.]+)px/.exec(this.font), safe = String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    this.add(`<text x="${round(x)}" y="${round(y)}" font-family="sans-serif" font-size="${round(Number(size))}" font-weight="${weight}" text-anchor="middle" dominant-baseline="central" fill="${this.fillStyle}"`, `${safe}</text>`);
  }
  save() { this.open.push(0); }
  clip() { this.clips += 1; this.open[this.open.length - 1] = 1; this.parts.push(`<clipPath id="c${this.clips}"><path d="${this.path}"/></clipPath><g clip-path="url(#c${this.clips})">`); }
  restore() { if (this.open.pop()) this.parts.push("</g>"); }
  add(start, end) { this.parts.push(`${start}${this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : ""}${end ? `>${end}` : "/>"}`); }
  text() { return `<svg xmlns="${SVG}" width="${round(this.width)}" height="${round(this.height)}" viewBox="0 0 ${round(this.width)} ${round(this.height)}">${this.parts.join("")}</svg>\n`; }
}
const round = (x) => Math.round(x * 100) / 100;

function savePicture() {
  if (!SQUARES) { saveChart(byId("stage").querySelector("svg"), fileName(".svg")); return; }
  picture.recording = true;
  drawExplore();
  const text = picture.pen.text();
  picture.recording = false;
  drawExplore();
  save(fileName(".svg"), "image/svg+xml", text);
}

// Save a chart with its computed styles, since the page's style sheet is not part of the file.
function saveChart(svg, name) {
  const copy = svg.cloneNode(true), from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  copy.setAttribute("xmlns", SVG);
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "opacity"]) to[i].setAttribute(key, style.getPropertyValue(key));
  });
  save(name, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}

const chartTool = (title, svg) => [svg, make("p", { class: "tools no-print" }, make("button", { type: "button", onclick: () => saveChart(svg, `${title}.svg`) }, "Save as SVG"))];
