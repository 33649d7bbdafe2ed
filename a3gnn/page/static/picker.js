// The picker: limits and weights, and what of the measured configurations answers them.

/** Sets the picker's inputs to what the study was asked for. */
function resetPicker(views) {
  const { law, objectives } = views;
  const preset = Object.entries(objectives.presets).find(([, one]) => samePriority(one, law.priority));
  byId("pick-priority").value = preset ? preset[0] : law.priority.time ? "time" : "weights";
  ["throughput", "memory", "accuracy"].forEach((name) => (byId(`weight-${name}`).value = Math.round(100 * law.priority[name])));
  const limit = objectives.memory_limit === null ? null : mib(objectives.memory_limit);
  const measured = law.candidates.map((one) => mib(one[law.memory]));
  const memories = measured.length ? measured : [limit ?? 1];
  const range = byId("pick-memory-range");
  range.min = Math.floor(Math.min(...memories, limit ?? memories[0]));
  range.max = Math.ceil(Math.max(...memories, limit !== null && limit < 4 * Math.max(...memories) ? limit : 0)) + 1;
  byId("pick-memory").value = limit === null ? "" : digits(limit, 6).replaceAll(",", "");
  range.value = limit ?? range.max;
  const drop = law.reference_quality === null || law.least === null ? "" : 100 * (law.reference_quality - law.least);
  byId("pick-drop").value = drop === "" ? "" : Number(drop.toFixed(4));
  byId("pick-drop-range").value = drop === "" ? 0 : drop;
  for (const id of ["pick-drop", "pick-drop-range"]) byId(id).disabled = law.reference_quality === null;
  const own = ["pick-memory", "pick-drop", "weight-throughput", "weight-memory", "weight-accuracy"];
  for (const id of own) byId(id).dataset.own = byId(id).value;
}

const isOwn = (id) => byId(id).value === byId(id).dataset.own;

/** Returns what the inputs ask: the priority, the least quality, and the memory in bytes, null for no limit, or "own". */
function askedOf(views) {
  const { law, objectives } = views;
  const name = byId("pick-priority").value;
  const ids = ["weight-throughput", "weight-memory", "weight-accuracy"];
  const weights = ids.map((id) => Number(byId(id).value));
  const sum = weights.reduce((a, b) => a + b, 0);
  const own = { throughput: weights[0] / sum, memory: weights[1] / sum, accuracy: weights[2] / sum, time: false };
  const memory = byId("pick-memory");
  const drop = byId("pick-drop");
  return {
    name, weights, sum,
    priority: name !== "weights" ? objectives.presets[name] : ids.every(isOwn) && !law.priority.time ? law.priority : own,
    memory: isOwn("pick-memory") ? "own" : memory.value === "" ? null : Math.round(Number(memory.value) * MIB),
    least: isOwn("pick-drop") || drop.value === "" ? law.least : law.reference_quality - Number(drop.value) / 100,
    drop: isOwn("pick-drop") || drop.value === "" ? null : Number(drop.value),
  };
}

/** Returns `text` as a shell takes it. */
const quoted = (text) => (/^[\w./:=,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Returns what the pick changes of the study's request, by the names of options in Python. */
function changesOf(views, asked) {
  const changes = {};
  if (!samePriority(asked.priority, views.law.priority)) changes.priority = asked.name === "weights" ? asked.weights.join(",") : asked.name;
  if (asked.memory !== "own") changes.memory_limit = asked.memory === null ? "none" : asked.memory;
  if (asked.drop !== null) changes.max_accuracy_drop = asked.drop;
  return changes;
}

/** Returns `template` with its {parts}. */
const filled = (template, parts) => template.replace(/\{(\w+)\}/g, (_, name) => parts[name]);

/** Returns the code that picks the same, by language: `PICK_SNIPPETS` of a3gnn/page/snippets.py with its parts. */
function codeOf(views, asked) {
  const changes = Object.entries(changesOf(views, asked));
  const live = document.body.dataset.live;
  const { origin } = window.location;
  const flags = { memory_limit: "max-memory" };
  const size = (name, value) => (name === "memory_limit" && typeof value === "number" ? `${value}B` : value);
  const named = changes.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ");
  const hasToken = document.querySelector("form[action='/logout']") !== null;
  const parts = {
    place: quoted(live ? `${origin}${live}` : views.folder),
    flags: changes.map(([name, value]) => ` --${flags[name] ?? name.replaceAll("_", "-")} ${size(name, value)}`).join(""),
    folder: JSON.stringify(views.folder),
    arguments: live || !named ? named : `, ${named}`,
    origin: JSON.stringify(origin),
    number: (live ?? "").split("/").at(-1),
    body: quoted(JSON.stringify(Object.fromEntries(changes))),
    imports: hasToken ? "os, " : "",
    token: hasToken ? ', os.environ["A3GNN_TOKEN"]' : "",
    header: hasToken ? ' -H "Authorization: Bearer $A3GNN_TOKEN"' : "",
  };
  const templates = Object.entries(PICK_SNIPPETS[live ? "live" : "file"]);
  return Object.fromEntries(templates.map(([language, template]) => [language, filled(template, parts)]));
}

/** The elements with the code of a pick. */
const PICK_CODE = { "Command line": "pick-command", Python: "pick-python", curl: "pick-curl" };

/** Shows the code of the pick, each language with a button that copies it. */
function drawCode(code) {
  const element = byId("pick-code");
  if (!element.childElementCount) {
    element.append(...Object.keys(code).map((language) => make("div", { class: "snippet" },
      make("h3", {}, language), make("button", { type: "button", "data-copy": PICK_CODE[language], "aria-label": `Copy ${language}` }, "Copy"),
      make("pre", { id: PICK_CODE[language], tabindex: 0, role: "region", "aria-label": `${language} of the pick` }))));
  }
  for (const [language, text] of Object.entries(code)) byId(PICK_CODE[language]).textContent = text;
}

/** Returns the content of the tuned.json of a candidate. */
function tunedOf(views, candidate, asked) {
  const { law, tuned } = views;
  const isChoice = candidate.index === law.choice;
  const limits = asked.memory === "own" ? candidate.training_limits : limitsOf(asked.memory, law);
  return {
    ...tuned, config: views.rows[candidate.index].config, predicted: candidate.predicted, measured: candidate.measured,
    trained: trainedOf(candidate.measured),
    limits: { ...limits, least_accuracy: asked.least, metric: law.metric },
    target_accuracy: asked.least,
    seconds_to_accuracy:
      asked.least !== law.least ? secondsRange(candidate, asked.least, law)
      : isChoice ? tuned.seconds_to_accuracy
      : candidate.seconds_range,
    against_default: isChoice && asked.least === law.least ? tuned.against_default : null,
    left_out: isChoice ? tuned.left_out : [],
    no_gain: isChoice && asked.least === law.least ? tuned.no_gain : null,
    final: isChoice ? tuned.final : null,
  };
}

function download(name, content) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2) + "\n"], { type: "application/json" }));
  const link = make("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Picks by the inputs and shows it; `state.picked` is its trial, or null. */
function drawPick(views, state) {
  const asked = askedOf(views);
  byId("weights").hidden = asked.name !== "weights";
  if (asked.name === "weights" && !asked.sum) {
    state.picked = null;
    return sayPick(views, "At least one weight must be above 0.", null, asked);
  }
  const { candidate, kept } = pick(views.law, asked);
  state.picked = candidate ? candidate.index : null;
  const all = views.law.candidates.length;
  if (!candidate) return sayPick(views, `None of the ${countOf(all, "measured configuration")} keeps these limits.`, null, asked);
  const row = views.rows[candidate.index];
  const own = candidate.index === views.law.choice ? ", the tune's own choice" : "";
  const seconds = secondsTo(candidate, asked.least, views.law);
  const said = [
    `${row.name}${own}: ${digits(candidate.throughput_epochs_per_s)} epochs/s`,
    asked.least === null ? null : Number.isFinite(seconds) ? `${digits(seconds)} s to the target` : "target not reached",
    `${digits(mib(candidate[views.law.memory]))} MiB`,
    `validation ${views.objectives.metric.label} ${row.text.quality}`,
  ];
  const words = said.filter((one) => one !== null).join(" · ");
  return sayPick(views, `${words}. ${kept.length} of ${all} qualify.`, candidate, asked);
}

function sayPick(views, words, candidate, asked) {
  byId("pick-words").textContent = words;
  byId("pick-config").textContent = candidate ? views.rows[candidate.index].describe : "";
  drawCode(codeOf(views, asked));
  const button = byId("pick-download");
  button.disabled = !candidate;
  button.onclick = () => download("tuned.json", tunedOf(views, candidate, asked));
}

/** Has the inputs call `onChange` with whether they ask something of their own; a number and its slider follow each other. */
function listenToPicker(views, onChange) {
  const changed = () => onChange(true);
  for (const name of ["memory", "drop"]) {
    const [number, range] = [byId(`pick-${name}`), byId(`pick-${name}-range`)];
    number.addEventListener("input", () => { if (number.value !== "") range.value = number.value; changed(); });
    range.addEventListener("input", () => { number.value = range.value; changed(); });
  }
  byId("pick-no-memory").addEventListener("click", () => { byId("pick-memory").value = ""; changed(); });
  for (const id of ["pick-priority", "weight-throughput", "weight-memory", "weight-accuracy"]) byId(id).addEventListener("input", changed);
  byId("pick-reset").addEventListener("click", () => { resetPicker(views()); onChange(false); });
}
