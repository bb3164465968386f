// ------------------------------------------------------------------ the summary, the proof, and the parts left out

function drawSummary() {
  put(byId("name"), nameOf(DATA.name).split(/(?<=[/:])/).map((part) => [part, make("wbr")]));  // where the line may break
  byId("headline").textContent = DATA.headline;
  put(byId("sentences"), DATA.sentences.map((sentence) => make("p", null, plain(sentence))));
  put(byId("facts"), DATA.facts.map((fact) => make("div", null, make("dt", null, fact.label), make("dd", { class: "figure" }, fact.value), make("dd", { class: "note" }, fact.note))));
  put(byId("sections"), [["explore", "Safe states"], ["play", "Episodes"], ["returns", "Returns"], ["kinds", "Constraints"], ["figures", "Figures"], ["proof", "Proof"]]
    .filter(([id]) => !byId(id).hidden).map(([id, title]) => make("a", { href: `#${id}` }, title)));
}

function drawFigures() {
  if (!DATA.figures.length) return;
  byId("figures").hidden = false;
  put(byId("figure-list"), DATA.figures.map((figure) => make("figure", null, make("h3", null, figure.title),
    make("img", { src: `data:image/png;base64,${figure.png}`, alt: figure.title }), make("figcaption", null, figure.caption))));
}

function pairs(entries) {
  return make("dl", { class: "pairs" }, entries.map(([name, value]) => [make("dt", null, name), make("dd", null, value)]));
}

function drawProof() {
  const p = DATA.proof, m = DATA.model;
  const verdict = p.broken
    ? [make("span", { class: "badge no" }, "✕ broken"), ` The certificate does not hold: ${plain(p.broken)}`]
    : [make("span", { class: "badge yes" }, "✓ verified"), " The minimal budgets of all states and choices have a certificate, which was verified when this report was made, by code that is independent of the solver. It proves that they are "
      + (m.ifPositive ? "not too small; smaller ones may suffice, since some intervals begin at 0" : "neither too small nor too large")
      + (m.learned ? ` for the model as it was learned. ${m.learned}` : ".")];
  put(byId("proof-body"),
    make("div", { class: "card" }, make("h3", null, "Certificate"), make("p", null, verdict),
      pairs([["Solved by", `the ${p.engine}`], ["Model", `${count(m.states, "state")}, ${count(m.choices, "choice")}, ${count(m.outcomes, "outcome")}`], ["Fingerprint", make("code", { id: "fingerprint" }, p.fingerprint)]]),
      make("p", { class: "sub" }, "To verify it yourself, with your copy of the model:"),
      make("pre", null, `import almostsure as asure\n\nminimal = asure.minimal_budget(mdp)\nasure.check_minimal_budget(mdp, minimal)  # or CertificateError\nassert mdp.fingerprint.startswith("${p.fingerprint.slice(0, 16)}")`),
      make("p", { class: "sub" }, "or with files, in a process that loads only the checker and the file readers:"),
      make("pre", null, "mdp.save(\"model.umb\"); minimal.save(\"budget.safetensors\")\n$ almostsure check model.umb budget.safetensors")),
    make("div", { class: "card" }, make("h3", null, "Reproduction"),
      pairs([["Version", `almostsure ${p.version}, Python ${p.python}, NumPy ${p.numpy}`], ["Seed", p.seed], ["Made with", make("code", null, plain(p.command))]]),
      make("p", { class: "sub" }, "The same command gives the same file, byte for byte, with the same versions."),
      DATA.notes.length ? [make("h3", null, "Left out of this report"), make("ul", { class: "notes", id: "notes" }, DATA.notes.map((note) => make("li", null, plain(note))))] : ""));
}
