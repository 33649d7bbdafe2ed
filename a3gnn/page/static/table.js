// The table of trials with its filters, and the failures with their reasons.

/** Returns the labels of a row; files name the baseline `default`. */
const labelsOf = (row) => (row.labels ?? []).map((label) => (label === "default" ? "baseline" : label)).join(", ");

/** Returns the table's columns: a heading, what is sorted by, and the text of a cell. */
function columnsOf(views) {
  const { objectives } = views;
  const figure = (pick) => (row) => (row.failure ? null : pick(row));
  const words = (name) => (row) => (row.failure ? "" : row.text[name]);
  const columns = [
    ["trial", (row) => row.index, (row) => row.name],
    ["", labelsOf, labelsOf],
    ["epochs/s", figure((row) => row.figures.throughput_epochs_per_s), words("throughput")],
    [objectives.memory_name, figure((row) => row.figures[objectives.memory]), words("memory")],
    [`validation ${objectives.metric.label}`, figure((row) => row.figures.val_accuracy), words("quality")],
    ["ran for", (row) => row.took_s, (row) => `${digits(row.took_s)} s`],
    ["configuration", (row) => row.describe, (row) => row.describe],
    ["why not", (row) => whyNot(row), (row) => whyNot(row)],
  ];
  const seconds = [objectives.seconds_heading, figure((row) => row.figures.seconds_to_accuracy), words("seconds")];
  if (objectives.times_accuracy) columns.splice(objectives.speed === "seconds_to_accuracy" ? 2 : 3, 0, seconds);
  return columns;
}

/** Returns which limits a row breaks, or why it failed or was not chosen. */
const whyNot = (row) => (row.failure ? row.failure.said : [...row.broken, row.note].filter(Boolean).join(", "));

const KINDS = {
  all: () => true,
  front: (row) => row.on_front,
  feasible: (row) => row.feasible,
  broken: (row) => !row.failure && !row.feasible,
  failed: (row) => Boolean(row.failure),
};

/** Returns the rows that the filters above the table leave. */
function filteredRows(views, state) {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const knobsKeep = (row) => views.knobs.every((knob) => !state.hidden.get(knob.name)?.has(knob.values.indexOf(row.values[knob.name])));
  return views.rows.filter((row) => {
    const text = [row.name, row.describe, whyNot(row), labelsOf(row)].join(" ").toLowerCase();
    return KINDS[state.kind](row) && words.every((word) => text.includes(word)) && knobsKeep(row) && passes(row, state.axes, state.brushes);
  });
}

function sorted(rows, columns, { column, down }) {
  const keyOf = columns[column][1];
  const order = (a, b) => {
    const [one, other] = [keyOf(a), keyOf(b)];
    if (one === null || other === null) return (one === null) - (other === null); // what is not known comes last
    return (typeof one === "string" ? one.localeCompare(other) : one - other) * (down ? -1 : 1);
  };
  return [...rows].sort(order);
}

/** Draws the table; `onSort` and `onSelect` get the column, and the trial. */
function drawTable(views, state, onSort, onSelect) {
  const columns = columnsOf(views);
  const rows = sorted(filteredRows(views, state), columns, state.sort);
  const isNumber = (i) => i > 1 && i < columns.length - 2;
  const heads = columns.map(([heading], i) => {
    const now = state.sort.column === i ? (state.sort.down ? "descending" : "ascending") : null;
    const arrow = now === null ? "" : state.sort.down ? " ▼" : " ▲";
    const button = make("button", { type: "button", onclick: () => onSort(i), "data-key": `sort-${i}` }, (heading || "label") + arrow);
    return make("th", { scope: "col", class: isNumber(i) ? "number" : null, "aria-sort": now }, button);
  });
  const cellOf = (row, [, , text], i) => {
    if (i === 0) {
      const pressed = String(row.index === state.selected);
      const onclick = () => onSelect(row.index);
      return make("th", { scope: "row" }, make("button", { type: "button", "aria-pressed": pressed, onclick, "data-key": `trial-${row.index}` }, row.name));
    }
    return make("td", { class: isNumber(i) ? "number" : i === columns.length - 2 ? "wide" : null }, text(row));
  };
  const kind = (row) => {
    const own = row.failure ? "failed" : row.feasible ? "" : "broken";
    return `${own} ${row.index === state.selected ? "selected" : ""}`.trim() || null;
  };
  const body = rows.map((row) => make("tr", { class: kind(row) }, ...columns.map((column, i) => cellOf(row, column, i))));
  fill(byId("trial-table"), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  byId("trial-words").textContent = `${rows.length} of ${countOf(views.rows.length, "trial")}`;
}

/** Lists the trials that failed, by kind, each with its detail. */
function drawFailures(views) {
  const failed = views.rows.filter((row) => row.failure);
  byId("failures").hidden = !failed.length;
  byId("failures-link").hidden = !failed.length;
  fill(byId("failure-list"), ...failed.map((row) => {
    const said = make("summary", { "data-key": `failed-${row.index}` }, make("b", {}, `${row.name}: ${row.failure.said}`), make("br"), row.describe);
    return make("details", { "data-key": `failure-${row.index}` }, said, make("pre", { tabindex: 0, "data-key": `detail-${row.index}` }, row.failure.detail));
  }));
}
