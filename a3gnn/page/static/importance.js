// Importance of knobs: mean |SHAP| values of the surrogate's predictions, per objective.

/** Knobs that the list shows at first. Guess. */
const FIRST_KNOBS = 8;

/** Doublings, or points, below which an effect is left out: it would read 1x or 0. */
const LEAST_EFFECT = 0.01;

/** Draws a list of bars per objective, the most important knob first. */
function drawImportance(views) {
  const found = views.importance;
  byId("importance").hidden = !found;
  byId("importance-link").hidden = !found;
  if (!found) return;
  const { objectives } = views;
  const changed = new Set(views.summary.changes.map((one) => one.name));
  const speed = objectives.speed === "seconds_to_accuracy" ? objectives.seconds_heading : "epochs per second";
  const columns = [
    [speed, (knob) => Math.log2(knob.speed), (knob) => `${digits(knob.speed)}x`],
    [`peak ${objectives.memory_name}`, (knob) => Math.log2(knob.memory), (knob) => `${digits(knob.memory)}x`],
    [`validation ${objectives.metric.label}`, (knob) => knob.accuracy, (knob) => `${digits(knob.accuracy, 2)} points`],
  ];
  fill(byId("importance-figure"), ...columns.map(([title, of, text], i) => {
    const ranked = [...found.knobs].sort((a, b) => of(b) - of(a)).filter((knob) => of(knob) >= LEAST_EFFECT).slice(0, FIRST_KNOBS);
    const most = ranked.length ? of(ranked[0]) : 1;
    const bar = (knob) => {
      const own = make("span", { class: "bar" });
      own.style.width = `${(100 * of(knob)) / most}%`;
      const isChanged = changed.has(knob.name);
      return make("li", { title: isChanged ? `Changed by the choice. ${knob.help}` : knob.help, class: isChanged ? "changed" : null }, make("span", { class: "name" }, knob.name.replaceAll("_", " ")), make("span", { class: "rail" }, own), make("b", {}, text(knob)));
    };
    const fit = make("p", { class: "pale" }, `Explains ${Math.floor(100 * found.explained[i])}% of the predictions' variance.`);
    return make("div", {}, make("h3", {}, title), ranked.length ? make("ol", { class: "ranks" }, ...ranked.map(bar)) : make("p", {}, "No knob has an effect."), fit);
  }));
  byId("importance-words").textContent =
    `The mean change that a knob's values make to the prediction of a trial, over ${countOf(found.trials, "configuration")} of this study ` +
    "(mean |SHAP| of trees fitted to the surrogate's predictions). 2x means that a knob doubles or halves the figure on average. " +
    (changed.size ? `Knobs in color are those that the ${isChosen(views) ? "choice" : "best so far"} changes.` : "");
}
