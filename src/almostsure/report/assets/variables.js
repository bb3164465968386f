// ------------------------------------------------------------------ two variables as axes, sliders for the others

// The squares of a drawing by variables; arrange() fills them for the current axes and values of the other variables.
function byVariables(view) {
  const codes = view.codes.map(unpack), need = unpack(view.need), damage = unpack(view.damage);
  const start = DATA.model.starts[0][0];
  const squares = { ...view, codes, axes: [...view.axes], fixed: codes.map((code) => Math.max(0, code[start])), crowded: false };
  squares.arrange = () => {
    const [down, right] = squares.axes, rows = view.values[down].length, columns = view.values[right].length;
    Object.assign(squares, { rows, columns, state: new Int32Array(rows * columns).fill(-1), need: new Int32Array(rows * columns), damage: new Uint8Array(rows * columns), place: new Map() });
    for (let s = 0; s < need.length; s++) {
      if (codes.some((code, v) => (v === down || v === right ? code[s] < 0 : code[s] !== squares.fixed[v]))) continue;
      const i = codes[down][s] * columns + codes[right][s];
      squares.place.set(s, i);
      if (squares.state[i] >= 0 && squares.need[i] >= need[s]) continue;
      squares.state[i] = s; squares.need[i] = need[s]; squares.damage[i] = damage[s];
    }
    squares.worst = squares.need;
  };
  squares.project = (state) => {
    const [down, right] = squares.axes.map((axis) => codes[axis][state]);
    return down >= 0 && right >= 0 ? down * squares.columns + right : undefined;
  };
  // Set the sliders so that a state is drawn.
  squares.show = (state) => {
    if (squares.place.has(state) || codes.some((code) => code[state] < 0)) return;
    squares.fixed = codes.map((code) => code[state]);
    squares.arrange();
    squares.refresh();
  };
  squares.refresh = () => {};
  squares.arrange();
  return squares;
}

function buildVariables() {
  if (!SQUARES || SQUARES.kind !== "variables") return;
  const holder = byId("variables"), names = SQUARES.names;
  const axis = (which, title) => make("label", null, title, make("select", { "data-key": `axis ${which}`, "aria-label": title,
    onchange: (event) => exchange(which, Number(event.target.value)) },
  names.map((name, v) => (SQUARES.values[v].length <= 200 ? make("option", { value: v, selected: v === SQUARES.axes[which] }, name) : ""))));
  const slider = (v) => {
    const value = () => SQUARES.values[v][SQUARES.fixed[v]];
    const says = make("output", null, value());
    return make("label", { class: "slider" }, make("span", null, `${names[v]}: `, says),
      make("input", { type: "range", "data-key": `variable ${names[v]}`, min: 0, max: SQUARES.values[v].length - 1, value: SQUARES.fixed[v], "aria-valuetext": value(),
        oninput: (event) => { SQUARES.fixed[v] = Number(event.target.value); SQUARES.arrange(); says.textContent = value(); event.target.setAttribute("aria-valuetext", value()); change({}); } }));
  };
  const exchange = (which, v) => {
    if (SQUARES.axes[1 - which] === v) SQUARES.axes[1 - which] = SQUARES.axes[which];
    SQUARES.axes[which] = v;
    SQUARES.arrange();
    refresh();
    change({});
  };
  const refresh = SQUARES.refresh = () => keepFocus(holder, () => put(holder, axis(0, "Down "), axis(1, "Across "), names.map((_, v) => (SQUARES.axes.includes(v) ? "" : slider(v)))));
  holder.hidden = false;
  refresh();
  onChange((part) => { if ("selected" in part) SQUARES.show(app.selected); });
}
