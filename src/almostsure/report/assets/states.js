// ------------------------------------------------------------------ the data on single states

const STATES = (() => {
  const raw = DATA.states;
  const arrays = {};
  for (const name of ["need", "terminal", "choicePtr", "action", "choiceNeed", "outcomePtr", "successor",
    "probability", "reward", "damage", "play", "value"]) arrays[name] = unpack(raw[name]);
  const [witnessAction, witnessNext, witnessDamage] = raw.witness.map(unpack);
  const [choiceNext, choiceDamage] = raw.choiceWitness.map(unpack);
  const ids = unpack(raw.ids);
  const place = ids && new Map(Array.from(ids, (id, i) => [id, i]));
  return { ...arrays, names: raw.names, count: raw.count, ids, place, witnessAction, witnessNext, witnessDamage,
    choiceNext, choiceDamage };
})();

// The index of a state's details; −1 if it has none in this file.
const at = (state) => (STATES.place ? (STATES.place.has(state) ? STATES.place.get(state) : -1)
  : state >= 0 && state < STATES.count ? state : -1);
const idOf = (i) => (STATES.ids ? STATES.ids[i] : i);
const known = (state) => at(state) >= 0;

// Names in the model, and as shown on the page.
const fullName = (state) => (STATES.names && known(state) ? STATES.names[at(state)] : `state ${state.toLocaleString("en")}`);
const fullAction = (action) =>
  (DATA.model.actions && action < DATA.model.actions.length ? DATA.model.actions[action] : `action ${action}`);
const stateName = (state) => nameOf(fullName(state));
const actionName = (action) => nameOf(fullAction(action));
const needOf = (state) => STATES.need[at(state)];
const isTerminal = (state) => known(state) && STATES.terminal[at(state)] === 1;
const isStart = (state) => DATA.model.starts.some(([start]) => start === state);

function choicesOf(state) {
  const i = at(state), result = [];
  if (i < 0) return result;
  for (let c = STATES.choicePtr[i]; c < STATES.choicePtr[i + 1]; c++)
    result.push({ choice: c, state, action: STATES.action[c], need: STATES.choiceNeed[c], place: c - STATES.choicePtr[i] });
  return result;
}

function outcomesOf(choice) {
  const result = [];
  for (let o = STATES.outcomePtr[choice]; o < STATES.outcomePtr[choice + 1]; o++)
    result.push({ next: STATES.successor[o], probability: STATES.probability[o], reward: STATES.reward[o],
      damage: STATES.damage[o] });
  return result;
}

const CURVE = new Map(DATA.curve.map(([k, value]) => [k, toNumber(value)]));

// The value of a state in a layer, by the layer's index; NaN if unknown or infeasible.
function valueAt(state, layer) {
  const i = at(state);
  if (i < 0 || !STATES.value || DATA.layers[layer] > DATA.solved) return NaN;
  return STATES.value[layer * STATES.count + i];
}

// The choice of the assured policy, by its position among the state's choices; −1 if there is none.
function playAt(state, layer) {
  const i = at(state);
  if (i < 0 || !STATES.play || DATA.layers[layer] > DATA.solved) return -1;
  return STATES.play[layer * STATES.count + i] - 1;
}

// The return of a choice followed by the assured policy; NaN if this file lacks a value of its outcomes.
function choiceValue(choice, layer) {
  let sum = 0;
  for (const outcome of outcomesOf(choice.choice)) {
    const left = DATA.layers[layer] - outcome.damage;
    const next = DATA.layers.indexOf(left);
    if (next < 0) return NaN;
    sum += outcome.probability * (outcome.reward + valueAt(outcome.next, next));
  }
  return sum;
}

// The likeliest outcome of a choice, except self-loops without damage if there are others.
function likeliest(choice, state) {
  const all = outcomesOf(choice), moves = all.filter((o) => o.next !== state || o.damage > 0);
  return (moves.length ? moves : all).reduce((a, b) => (b.probability > a.probability ? b : a));
}

// The run from the start with the best actions and their likeliest outcomes, as pairs of state and layer.
function likeliestRun() {
  let state = DATA.model.starts[0][0], layer = app.layer;
  const run = [[state, layer]], seen = new Set();
  while (layer >= 0 && run.length < 2000 && !isTerminal(state) && !seen.has(state * 4096 + layer)) {
    seen.add(state * 4096 + layer);
    const play = playAt(state, layer);
    if (play < 0) break;
    const outcome = likeliest(choicesOf(state)[play].choice, state);
    layer = DATA.layers.indexOf(DATA.layers[layer] - outcome.damage);
    state = outcome.next;
    run.push([state, layer]);
  }
  return run;
}

// The run to draw: the likeliest one or, if that never terminates, the typical one of the player.
function shownRun() {
  const run = likeliestRun(), record = DATA.episodes.find((one) => one.kind === "assured" && one.ended);
  if (isTerminal(run[run.length - 1][0]) || !record || remaining() !== DATA.budget) return { run, name: "likeliest run" };
  const damages = unpack(record.damages);
  let left = DATA.budget;
  const states = record.states.map((state, t) => { left -= t ? damages[t - 1] : 0; return [state, DATA.layers.indexOf(left)]; });
  return { run: states, name: "a typical run" };
}

// For each state that runs reach, the layer that they are most often in there.  For states of the drawn run, its own.
const MOST_WORK = 400000, FAINT = 1e-5;
function usualLayers(route) {
  const result = new Map(), often = new Map();
  if (STATES.ids || route.length < 2) return result;
  let now = new Map([[DATA.model.starts[0][0] * 4096 + app.layer, 1]]), work = 0;
  while (now.size && work < MOST_WORK) {
    const after = new Map();
    for (const [key, probability] of now) {
      const state = Math.floor(key / 4096), layer = key % 4096, play = playAt(state, layer);
      often.set(key, (often.get(key) || 0) + probability);
      if (play < 0 || isTerminal(state)) continue;
      for (const outcome of outcomesOf(STATES.choicePtr[at(state)] + play)) {
        const next = DATA.layers.indexOf(DATA.layers[layer] - outcome.damage), share = probability * outcome.probability;
        work += 1;
        if (next >= 0 && share > FAINT) after.set(outcome.next * 4096 + next, (after.get(outcome.next * 4096 + next) || 0) + share);
      }
    }
    now = after;
  }
  const most = new Map();
  for (const [key, share] of often) {
    const state = Math.floor(key / 4096);
    if (share > (most.get(state) || 0)) { most.set(state, share); result.set(state, key % 4096); }
  }
  for (const [state, layer] of route) if (layer >= 0) result.set(state, layer);
  return result;
}

// The same witness as that of budget.explain: outcomes that force the damage under the agent's best actions.
const LONGEST_WITNESS = 2000;
function witness(state, choice) {
  const needs = choice ? choice.need : needOf(state);
  const result = { needs, steps: [], trap: [], complete: true };
  if (needs === 0) return result;
  const seen = new Map();
  let s = state, first = choice;
  while (known(s) && (needOf(s) > 0 || first)) {
    if (needOf(s) === INFINITE && !first) {
      if (seen.has(s)) { result.trap = result.steps.slice(seen.get(s)).map((step) => step.state); return result; }
      seen.set(s, result.steps.length);
    }
    if (result.steps.length === LONGEST_WITNESS) break;
    const i = at(s);
    const action = first ? first.action : STATES.witnessAction[i];
    const next = first ? STATES.choiceNext[first.choice] : STATES.witnessNext[i];
    const damage = first ? STATES.choiceDamage[first.choice] : STATES.witnessDamage[i];
    result.steps.push({ state: s, action, next, damage });
    s = next;
    first = null;
  }
  result.complete = known(s) && needOf(s) === 0;
  return result;
}
