// ------------------------------------------------------------------ the histogram of minimal budgets

function levelRows() {
  const { need, last, count: counts, infinite } = DATA.levels;
  const rows = need.map((first, i) => ({ need: first, last: last[i], count: counts[i] }));
  if (infinite) rows.push({ need: INFINITE, last: INFINITE, count: infinite });
  return rows;
}

// A state of the level, with details in this file.
function exampleOf(row) {
  for (let i = 0; i < STATES.count; i++) if (STATES.need[i] >= row.need && STATES.need[i] <= row.last) return idOf(i);
  return -1;
}

function drawLevels() {
  const rows = levelRows(), left = remaining();
  const most = Math.max(...rows.map((row) => row.count));
  const log = most > 5000;
  const length = (n) => (log ? Math.log10(1 + n) / Math.log10(1 + most) : n / most);
  const grid = make("div", { class: "levels-bars" });
  for (const row of rows) {
    const state = exampleOf(row);
    const label = row.need === INFINITE ? NEVER : row.last > row.need ? `${row.need}–${row.last}` : String(row.need);
    const safe = row.last <= left;
    const bar = make("div", { class: `bar${safe ? "" : " unsafe"}` });
    bar.style.width = `${100 * length(row.count)}%`;
    bar.style.backgroundColor = row.need === INFINITE ? palette.never : safe ? css(needShade(row.need)) : palette.unsafe;
    grid.append(
      make("button", { type: "button", disabled: state < 0, "data-key": label, "aria-label": `Show a state that needs ${label}`,
        onclick: () => change({ selected: state, action: null }) }, label),
      make("div", { class: "track", "aria-hidden": "true" }, bar),
      make("span", { class: "count" }, count(row.count, "state"), safe ? "" : row.need === INFINITE ? (DATA.model.hasUnknown ? ", not known to be safe" : ", never safe") : ", not safe"),
    );
  }
  keepFocus(byId("levels"), () => put(byId("levels"), grid,
    make("p", { class: "sub" }, log ? "Bars are on a logarithmic scale. " : "", "Choose a minimal budget to see a state that has it.")));
}
