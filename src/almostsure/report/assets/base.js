// ------------------------------------------------------------------ the data, and helper functions

const DATA = JSON.parse(document.getElementById("data").textContent);
const INFINITE = 2147483647;
const TYPES = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array };
const SVG = "http://www.w3.org/2000/svg";

// An array of the model: little-endian bytes in base64.
function unpack(packed) {
  if (!packed) return null;
  const text = atob(packed.bytes);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[packed.type](bytes.buffer);
}

const byId = (id) => document.getElementById(id);

// All elements are made here; strings become text, never markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
// Draw a part again without losing the focus: it goes to the element with the same key, or to the part's heading.
function keepFocus(part, render) {
  const active = document.activeElement, inside = active && active !== part && part.contains(active);
  const key = inside ? active.getAttribute("data-key") : null;
  render();
  if (!inside) return;
  const again = (key && [...part.querySelectorAll("[data-key]")].find((e) => e.getAttribute("data-key") === key)) || part.querySelector("h3");
  if (again) again.focus({ preventScroll: true });
}
const put = (element, ...children) => { element.replaceChildren(); return fill(element, null, children); };

// A number of the data: a number, "inf", "-inf", or null for NaN.
const toNumber = (x) => (x === null || x === undefined ? NaN : x === "inf" ? Infinity : x === "-inf" ? -Infinity : x);

function show(value) {
  const x = toNumber(value);
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  let text;
  if (size !== 0 && (size < 0.001 || size >= 1e7)) text = x.toExponential(2);
  else text = x.toLocaleString("en", { maximumFractionDigits: size < 1 ? 4 : 2 });
  return text.replace("-", "−");
}
// Text of users, with escapes for characters that change the direction of text or break a line.
const plain = (text) => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => (c === "\n" ? "\\n" : `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`));
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const LONGEST_NAME = 120;
const nameOf = (text) => shorten(plain(text.length > LONGEST_NAME ? text.slice(0, LONGEST_NAME + 1) : text), LONGEST_NAME);
const NEVER = DATA.model.hasUnknown ? "?" : "∞"; // in a learned model, more outcomes may show that a budget suffices
const showNeed = (need) => (need === INFINITE || need === null ? NEVER : String(need));
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

function percent(p) {
  const x = toNumber(p);
  if (Number.isNaN(x)) return "–";
  if (x <= 0) return "0\u00a0%";
  if (x >= 1 - 1e-12) return "100\u00a0%";
  if (x <= 5e-7 || x >= 1 - 5e-7) return `almost ${100 * Math.round(x)}\u00a0%`;
  return `${+(100 * x).toFixed(x >= 0.001 && x <= 0.999 ? 1 : 4)}\u00a0%`; // + removes trailing zeros
}

// ------------------------------------------------------------------ colours

let palette = null;

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  palette = { needs: [0, 1, 2, 3, 4, 5, 6].map((i) => rgb(get(`need-${i}`))), hazards: [1, 2, 3, 4].map((i) => rgb(get(`hazard-${i}`))) };
  for (const name of ["paper", "card", "ink", "muted", "line", "faint", "accent", "focus", "assured", "expected",
    "chance", "harm", "wall", "never", "never-ink", "unsafe", "hatch"]) palette[name] = get(name);
}

function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// Colours from 0, close to the page's colour, to 1, of high contrast.
function shade(t) {
  const stops = palette.needs, x = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(x), stops.length - 2), part = x - low;
  return stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * part));
}
const css = (colour) => `rgb(${colour.join(",")})`;
const inkOn = (colour) => (0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? "#14181c" : "#ffffff");

const highestNeed = Math.max(4, ...DATA.levels.last);
const needShade = (need) => shade(need / highestNeed);
// The colours of damage 1, 2, 3, and 4 or more.
const hazardShade = (damage) => palette.hazards[Math.min(damage, 4) - 1];

// ------------------------------------------------------------------ shared state

const PLANS = {
  assured: { title: "Never more", short: "never more than Δ" },
  expected: { title: "On average", short: "on average" },
  chance: { title: "With a risk", short: "with a risk" },
};
const planOf = (kind) => DATA.plans.find((plan) => plan.kind === kind);

const app = { layer: 0, other: null, selected: -1, action: null, colourBy: "need", listeners: [] };
const onChange = (listener) => app.listeners.push(listener);
function change(part) {
  Object.assign(app, part);
  for (const listener of app.listeners) listener(part);
}
const remaining = () => DATA.layers[app.layer];
