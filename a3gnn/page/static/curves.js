// Learning curves over seconds, where the time of a step goes, and the regret over the trials.

/** Returns the named trials of the study: default, best, picked and selected, each once. */
function namedTrials(views, state) {
  const best = isChosen(views) ? "chosen" : "best measured so far";
  const named = [["baseline", views.default], [best, views.best], ["picked", state.picked === views.best ? null : state.picked], ["selected", state.selected]];
  const found = new Map();
  for (const [name, index] of named) {
    if (index === null || index === undefined || views.rows[index].failure) continue;
    found.set(index, [...(found.get(index) ?? []), name]);
  }
  return [...found].map(([index, names]) => {
    const row = views.rows[index];
    const own = row.name.startsWith("trial") ? ` (${row.name})` : "";
    return { index, row, name: `${names.join(", ")}${own}` };
  });
}

const LINES = ["line-0", "line-1", "line-2", "line-3"];
const DASHES = [null, null, "dash", "dot"];

/** Returns the range of quality after a tenth of the time, where curves still differ; at least a quarter of the whole. */
function flatRange(curves, others, furthest, target) {
  const late = curves.flatMap((curve) => curve.shown.filter((_, i) => curve.seconds[i] >= furthest / 10));
  if (!late.length) return null;
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  const [least, most] = ends(curves.flatMap((curve) => curve.shown));
  const [low, high] = ends(target === null ? late : [...late, target]);
  const middle = (low + high) / 2;
  const half = Math.max(0.56 * (high - low), (most - least) / 8);
  const all = [...curves, ...others].flatMap((curve) => curve.shown);
  const [floor, top] = ends(target === null ? all : [...all, target]);
  return half ? [Math.max(middle - half, floor - half / 8), Math.min(middle + half, top + half / 8)] : null;
}

/** Draws validation quality over seconds of training: named trials as lines, all others pale. */
function drawCurves(views, state, onClick) {
  const { metric, default_budget_s: budget } = views.objectives;
  const named = namedTrials(views, state).filter((one) => one.row.curve);
  const isNamed = (row) => named.some((one) => one.index === row.index);
  const others = views.rows.filter((row) => row.curve && state.shown.has(row.index) && !isNamed(row));
  const pointsOf = (row, text) => row.curve.seconds.map((seconds, i) => ({
    x: seconds, y: row.curve.shown[i], trial: row.index,
    text: text && [text, `${digits(row.curve.shown[i], 4)} ${metric.unit} after ${digits(seconds)} s`],
  }));
  const series = others.length ? [{
    name: `other trials (${others.length})`, key: "others", line: { color: "faint", width: 1 },
    points: others.flatMap((row) => [...pointsOf(row, row.name), null]),
  }] : [];
  for (const [i, { row, name }] of named.entries()) {
    const points = pointsOf(row, name);
    const mark = points.length < 40 ? { shape: "circle", size: 2, color: LINES[i] } : null;
    series.push({ name, key: name.replace(/ \(.*/, ""), points, mark, line: { color: LINES[i], width: 2.5, dash: DASHES[i] } });
  }
  const rules = [];
  if (metric.target !== null) {
    const name = `target ${digits(metric.target, 4)}${metric.unit === "%" ? "%" : ""}`;
    rules.push({ y: metric.target, within: true, name, key: "target", color: "danger", dash: "dash" });
  }
  if (budget !== null) {
    const name = `training time compared (${digits(budget)} s)`;
    rules.push({ x: budget, within: true, name, key: "compared", color: "pale", dash: "dot" });
  }
  const curves = named.map((one) => one.row.curve);
  const furthest = Math.max(budget ?? 0, ...curves.map((one) => one.seconds.at(-1)));
  const range = state.wholeCurves ? null : flatRange(curves, others.map((row) => row.curve), furthest, metric.target);
  draw("curves-figure", {
    x: { title: "seconds of training, without evaluation", range: furthest ? [0, furthest * 1.05] : null },
    y: { title: `validation ${metric.label} (${metric.unit})`, range, share: metric.unit === "%" }, series, rules,
  }, onClick);
}

/** Draws the parts of a step of the named trials as stacked bars, and says what helps. */
function drawSteps(views, state) {
  const { parts, trials, helps } = views.steps;
  const byTrial = new Map(trials.map((one) => [one.index, one.seconds.map((seconds) => seconds * one.batches_per_epoch)]));
  const total = (index) => byTrial.get(index).reduce((sum, seconds) => sum + seconds, 0);
  const named = namedTrials(views, state).filter((one) => byTrial.has(one.index) && total(one.index) > 0);
  byId("step").hidden = byId("step-link").hidden = !named.length; // a client's trials have no stages
  if (!named.length) return;
  const most = Math.max(...named.map((one) => total(one.index)));
  const used = parts.map((part, i) => [part, i]).filter(([, i]) => named.some((one) => byTrial.get(one.index)[i] > 0));
  const segment = (index, [part, i]) => {
    const own = byTrial.get(index)[i];
    const piece = make("span", { title: `${part}: ${digits(1000 * own)} ms, ${Math.round((100 * own) / total(index))}%` });
    piece.style.cssText = `width: ${(100 * own) / most}%; background: var(--part-${i})`;
    return piece;
  };
  const bars = named.flatMap(({ index, name }) => [
    make("dt", {}, name),
    make("dd", {}, make("span", { class: "stack" }, ...used.map((part) => segment(index, part))), make("b", {}, `${digits(1000 * total(index))} ms`)),
  ]);
  const key = ([part, i]) => {
    const sign = make("span", { class: "swatch" });
    sign.style.background = `var(--part-${i})`;
    return make("li", {}, sign, part);
  };
  fill(byId("step-figure"), make("p", { class: "pale" }, "Milliseconds of work per epoch"), make("dl", { class: "bars" }, ...bars), make("ul", { class: "swatches" }, ...used.map(key)));
  const said = (index) => {
    const seconds = byTrial.get(index);
    const shares = seconds.map((one, i) => [one / total(index), parts[i]]).filter(([share]) => share >= 0.02);
    return shares.sort((a, b) => b[0] - a[0]).map(([share, part]) => `${Math.round(100 * share)}% ${part}`).join(", ");
  };
  fill(byId("step-words"), ...named.map(({ index, name }) => {
    const own = helps.find((one) => one.index === index);
    const knobs = own?.knobs.map((one) => `${one.words} (${digits(one.gain, 2)}x)`).join(", ");
    const helping = knobs
      ? ` Predicted gain in epochs per second of one change: ${knobs}.`
      : " No single change is predicted to help much.";
    return make("li", {}, make("b", {}, `${name}: `), `${said(index)}.${own ? helping : ""}`);
  }));
}

/** Draws the regret of the best measured so far over seconds of trials, or over the trials. */
function drawRegret(views, state, onClick) {
  const known = views.regret.filter((one) => one.regret !== null);
  const overSeconds = state.regretOver === "seconds";
  const better = known.filter((one, i) => i === 0 || one.best !== known[i - 1].best);
  const pointOf = (one) => ({ x: overSeconds ? one.took_s : one.index, y: one.regret });
  const marked = (one) => ({ ...pointOf(one), trial: one.best, text: tipOf(views.rows[one.best], views) });
  draw("regret-figure", {
    x: { title: overSeconds ? "seconds of trials" : "trial", zero: true, whole: !overSeconds },
    y: { title: "regret (weighted doublings)", zero: true },
    series: [
      { name: "regret of the best so far", points: known.map(pointOf), line: { color: "line-1", step: true } },
      { name: "new best", points: better.map(marked), mark: { shape: "circle", size: 4, color: "line-1", fill: "var(--line-1)" } },
    ],
    rules: [],
  }, onClick);
}
