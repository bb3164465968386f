// ------------------------------------------------------------------ the selected state: minimal budget, choices, witness

const stateButton = (state) =>
  (known(state) ? make("button", { type: "button", class: "link", onclick: () => change({ selected: state, action: null }) }, stateName(state))
    : make("span", null, stateName(state)));

function drawDetails() {
  keepFocus(byId("details"), fillDetails);
  const said = app.selected >= 0 && known(app.selected) ? `${stateName(app.selected)} needs ${showNeed(needOf(app.selected))}, ${needOf(app.selected) <= remaining() ? "safe" : "not safe"} with ${remaining()} left` : "";
  if (byId("announce").textContent !== said) byId("announce").textContent = said;
}

function fillDetails() {
  const panel = byId("details"), state = app.selected;
  if (state < 0) { put(panel, finder(), make("p", { class: "dim" }, "Select a state to see its minimal budget, and the reason.")); return; }
  if (!known(state)) { put(panel, finder(), ...unknownState(state)); return; }
  const left = remaining(), need = needOf(state), safe = need <= left, value = valueAt(state, app.layer);
  put(panel, finder(),
    make("h3", { tabindex: -1 }, stateName(state), isStart(state) ? make("span", { class: "dim" }, "  start") : "", isTerminal(state) ? make("span", { class: "dim" }, "  terminal") : ""),
    make("p", { class: "need" }, `Needs a budget of ${DATA.model.atMost}`, make("strong", { id: "selected-need" }, showNeed(need)), ". With ", left, " left: ",
      make("span", { class: `badge ${safe ? "yes" : "no"}` }, safe ? "✓ safe" : "✕ not safe"),
      safe && DATA.rewarded && !Number.isNaN(value) ? [" expected return ", make("strong", null, show(value))] : "", "."),
    isTerminal(state) ? make("p", { class: "dim" }, "Episodes end here.") : choiceTable(state, left),
    witnessPart(state),
  );
}

function unknownState(state) {
  const i = SQUARES ? SQUARES.place.get(state) : undefined;
  const need = i === undefined ? "" : DATA.view.side > 1
    ? ["The median of the minimal budgets in this square is ", make("strong", { id: "selected-need" }, showNeed(SQUARES.need[i])), "; this state has the largest, ", showNeed(SQUARES.worst[i]), "."]
    : [`Needs a budget of ${DATA.model.atMost}`, make("strong", { id: "selected-need" }, showNeed(SQUARES.need[i])), "."];
  return [
    make("h3", { tabindex: -1 }, stateName(state)),
    make("p", { class: "need" }, need),
    make("p", { class: "dim" }, `This file has the details of only ${count(STATES.count, "state")}. For this one, use `, make("code", null, `minimal.explain(${state})`), "."),
  ];
}

function finder() {
  if (STATES.count < 12) return "";
  const input = make("input", { type: "search", "data-key": "find", placeholder: STATES.names ? "Find a state by name or number" : "Find a state by number", "aria-label": "Find a state" });
  const find = () => {
    const text = input.value.trim();
    if (!text) return;
    let place = STATES.names ? STATES.names.indexOf(text) : -1;
    if (place < 0 && STATES.names) place = STATES.names.findIndex((name) => name.toLowerCase().includes(text.toLowerCase()));
    if (place < 0 && /^\d+$/.test(text)) place = at(Number(text));
    if (place >= 0) change({ selected: idOf(place), action: null });
    else { input.setCustomValidity("No state in this file has this name."); input.reportValidity(); }
  };
  input.addEventListener("input", () => input.setCustomValidity(""));
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") find(); });
  return make("div", { class: "find" }, input, make("button", { type: "button", "data-key": "go", onclick: find }, "Find"));
}

function choiceTable(state, left) {
  const best = playAt(state, app.layer), rows = choicesOf(state);
  const valueOf = (choice) => { // of the best action, that of the state if this file lacks those of its outcomes
    const value = choiceValue(choice, app.layer);
    return Number.isNaN(value) && choice.place === best ? valueAt(state, app.layer) : value;
  };
  const values = rows.map((choice) => (choice.need <= left ? valueOf(choice) : NaN));
  const valued = DATA.rewarded && values.some((x) => !Number.isNaN(x));
  return make("table", null,
    make("thead", null, make("tr", null, make("th", { scope: "col" }, "Action"), make("th", { scope: "col", class: "number" }, "needs"),
      make("th", { scope: "col" }, `with ${left} left`), valued ? make("th", { scope: "col", class: "number" }, "return") : "")),
    make("tbody", null, rows.slice(0, 60).map((choice, i) => {
      const allowed = choice.need <= left, chosen = allowed && choice.place === best;
      return make("tr", { class: `${allowed ? "" : "forbidden"}${chosen ? " chosen" : ""}` },
        make("td", null, make("button", { type: "button", class: "link", "data-key": `action ${choice.action}`, "aria-pressed": app.action === choice.action ? "true" : "false",
          title: "Show the witness", onclick: () => change({ action: app.action === choice.action ? null : choice.action }) }, actionName(choice.action))),
        make("td", { class: "number" }, showNeed(choice.need)),
        make("td", null, chosen ? "★ best" : allowed ? "✓ allowed" : "✕ not allowed"),
        valued ? make("td", { class: "number" }, show(values[i])) : "");
    })), rows.length > 60 ? make("caption", null, `and ${rows.length - 60} more actions`) : "");
}

function currentWitness() {
  const choice = app.action === null ? null : choicesOf(app.selected).find((c) => c.action === app.action);
  return known(app.selected) ? witness(app.selected, choice || null) : null;
}

function witnessPart(state) {
  const found = currentWitness(), choice = choicesOf(state).find((c) => c.action === app.action);
  const who = choice ? `${actionName(choice.action)} at ${stateName(state)}` : stateName(state);
  let spent = 0;
  const items = found.steps.slice(0, 200).map((step) => {
    spent += step.damage;
    return make("li", null, stateButton(step.state), `: ${actionName(step.action)} → `, stateButton(step.next),
      step.damage ? [", ", make("span", { class: "hurt" }, `damage ${step.damage}`), `; ${spent} so far`] : ", no damage");
  });
  const why = found.needs === 0 ? `${who} needs 0: all damage can be avoided from there.`
    : found.needs === INFINITE && DATA.model.hasUnknown ? `What ${who} needs is unknown: too little was learned.`
    : found.needs === INFINITE ? `${who} needs ∞: no finite budget suffices, since unlimited damage can be forced${DATA.model.ifPositive}.`
      : `${who} needs ${DATA.model.atMost}${found.needs}: this much damage can be forced, whatever the agent does afterwards${DATA.model.ifPositive}.`;
  return make("div", { class: "witness", id: "witness" },
    make("h3", null, "Why"),
    make("p", null, why),
    items.length ? make("ol", null, items) : "",
    found.steps.length > 200 ? make("p", { class: "dim" }, `… and ${found.steps.length - 200} more steps.`) : "",
    found.trap.length && !DATA.model.hasUnknown ? make("p", null, "A cycle, with damage in each round: ", [...found.trap.slice(0, 12), found.trap[0]].map(stateName).join(" → "), ".") : "",
    !found.complete && !found.trap.length ? make("p", { class: "dim" }, "… it continues through states that are not in this file.") : "",
    choice ? make("details", null, make("summary", { "data-key": "outcomes" }, `Outcomes of ${actionName(choice.action)}`),
      make("table", null, make("thead", null, make("tr", null, ["probability", "to", "reward", "damage"].map((h) => make("th", { scope: "col" }, h)))),
        make("tbody", null, outcomesOf(choice.choice).slice(0, 60).map((o) => make("tr", null, make("td", null, percent(o.probability)), make("td", null, stateButton(o.next)),
          make("td", null, show(o.reward)), make("td", { class: o.damage ? "hurt" : "" }, o.damage)))))) : "");
}
