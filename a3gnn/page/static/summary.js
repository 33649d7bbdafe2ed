// The summary: how the study stands, what its best configuration gains, and what was asked.

const signed = (points) => `${points >= 0 ? "+" : ""}${digits(points, 2)}`;

/** Returns a figure with its range and what it is of, as an item of a list; null where it is not known. */
function gainItem(figure, shown, words) {
  if (!figure) return null;
  const ranges = figure.low !== undefined && figure.repeats !== 1;
  const range = ranges ? ` (${shown(figure.low)} to ${shown(figure.high)})` : "";
  const times = shown === signed ? "" : "x";
  return make("li", {}, make("b", {}, `${shown(figure.median)}${times}`), `${range} ${words}`);
}

/** Returns the gains of the best over the baseline, as a list; null where they are not known. */
function gainList(gain, label) {
  if (!gain) return null;
  const how = gain.in_turns
    ? "measured in turns with the baseline"
    : "from single trials; the verification measures them in turns";
  const items = [
    gainItem(gain.throughput, digits, "the baseline's epochs per second"),
    gainItem(gain.time, digits, `${gain.time?.median < 1 ? "as fast" : "sooner"} at the target${gain.time_at_least ? ", or more" : ""}`),
    gain.missed ? make("li", {}, `${gain.missed === 1 ? "1 seed" : `${gain.missed} seeds`} missed the target`) : null,
    gainItem({ median: gain.memory }, digits, "the baseline's memory"),
    gainItem(gain.accuracy, signed, `points of validation ${label}`),
    make("li", { class: "pale" }, how),
  ];
  return make("ul", { class: "gains" }, ...items.filter((one) => one !== null));
}

/** Returns what is said of the best configuration. */
function bestWords(views) {
  if (!views.summary.best) return views.rows.length ? "No measured configuration keeps the limits yet." : "No trial is done yet.";
  return `${views.rows[views.best].describe} — ${views.summary.best}`;
}

/** Returns `text` as parts that do not break options such as --budget over lines. */
const wholeOptions = (text) =>
  text.split(/(--[a-z-]+)/).map((part, i) => (i % 2 ? make("span", { class: "option" }, part) : part));

/** Returns the summary of a finished tune, as the command prints it. */
function answerParts(answer) {
  const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, {}, text)));
  const labeled = (label, text) => (text ? make("p", {}, make("b", {}, `${label} `), ...wholeOptions(text)) : null);
  return [
    make("p", { class: "headline" }, make("b", {}, answer.headline)),
    answer.verified ? make("p", { class: "pale" }, answer.verified) : null,
    make(
      "div",
      { class: "scroll" },
      make(
        "table",
        { class: "answer" },
        make("thead", {}, cells("th", ["", "baseline", answer.other, "change"])),
        make("tbody", {}, ...answer.table.map((line) => cells("td", line))),
      ),
    ),
    labeled("Changed", answer.changed),
    labeled("See also", answer.others.join("; ")),
    ...[...answer.warnings, ...answer.notes].map((text) => labeled("Note", text)),
  ];
}

/** Says how the study stands (on a server its `head` does), what was asked, and what the best gains. */
function drawSummary(views, head) {
  const { summary, time } = views;
  if (head) {
    drawHead(head, views);
  } else {
    document.title = `${views.title}: a3gnn study`;
    byId("title").textContent = views.title;
    const left = isChosen(views) ? "" : time.left_s === null || time.left_s > 0 ? `, ${time.left}` : ", the budget is spent";
    byId("status").textContent =
      `${views.status}: ${time.elapsed} taken, ${countOf(time.trials, "trial")} after the baseline${left}`;
  }
  const named = summary.best ? make("b", {}, isChosen(views) ? "Chosen: " : "Best measured so far: ") : null;
  const answer = summary.answer
    ? answerParts(summary.answer)
    : [
        make("p", {}, named, bestWords(views)),
        gainList(summary.gain, views.objectives?.metric.label),
        summary.default ? make("p", {}, make("b", {}, "Baseline: "), summary.default) : null,
      ];
  fill(
    byId("summary-words"),
    ...answer,
    time.failures ? make("p", { class: "pale" }, `${countOf(time.failures, "trial")} failed`) : null,
  );
  fill(byId("asked"), ...views.asked.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  fill(byId("place"), ...views.place.map((line) => make("li", {}, line)));
}

/** Says which trial is selected, and what it reached. */
function drawSelected(views, row) {
  const reached = (found) => {
    const { throughput, memory, quality } = found.text;
    return `${throughput} epochs/s · ${memory} · ${views.objectives.metric.label} ${quality}`;
  };
  const parts = row ? [row.failure ? null : reached(row), whyNot(row)].filter(Boolean) : [];
  byId("selected-words").textContent = row ? `Selected: ${row.name}, ${row.describe}: ${parts.join(" · ")}` : "";
}
