// ------------------------------------------------------------------ builds the page

const redraws = [];

function redraw() {
  readPalette();
  drawExplore();
  for (const again of redraws) again();
}

function buildTheme() {
  const button = byId("theme"), root = document.documentElement, names = { auto: "Theme: automatic", light: "Theme: light", dark: "Theme: dark" };
  const order = ["auto", "light", "dark"];
  let current = "auto";
  const set = (name) => {
    current = name;
    if (name === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name);
    button.textContent = names[name];
    redraw();
  };
  button.addEventListener("click", () => set(order[(order.indexOf(current) + 1) % 3]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Pages are printed in light colours.
  window.addEventListener("beforeprint", () => { root.setAttribute("data-theme", "light"); redraw(); });
  window.addEventListener("afterprint", () => set(current));
  button.textContent = names.auto;
}

byId("main").hidden = false;
readPalette();
app.layer = Math.max(0, DATA.layers.indexOf(DATA.budget));
// Of several initial states, the one with the largest minimal budget.
app.selected = DATA.model.starts.map(([start]) => start).reduce((a, b) => (known(b) && needOf(b) > needOf(a) ? b : a));
buildExplore();
drawReturns();
drawKinds();
drawFigures();
buildPlayer();
drawProof();
drawSummary();
buildTheme();
redraw();

let waiting = null;
window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 80); });
document.documentElement.setAttribute("data-ready", "");
