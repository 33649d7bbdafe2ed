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
const DASHES = ["solid", "solid", "dash", "dot"];

/** Returns the range of quality after a tenth of the time, where curves still differ; at least a quarter of the whole. */
function flatRange(curves, furthest, target) {
  const late = curves.flatMap((curve) => curve.shown.filter((_, i) => curve.seconds[i] >= furthest / 10));
  if (!late.length) return {};
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  const [least, most] = ends(curves.flatMap((curve) => curve.shown));
  const [low, high] = ends(target === null ? late : [...late, target]);
  const middle = (low + high) / 2;
  const half = Math.max(0.56 * (high - low), (most - least) / 8);
  return half ? { range: [middle - half, middle + half] } : {};
}

/** Draws validation quality over seconds of training: named trials as lines, all others pale. */
function drawCurves(views, state, onClick) {
  const { metric } = views.objectives;
  const named = namedTrials(views, state);
  const isNamed = (row) => named.some((one) => one.index === row.index);
  const others = views.rows.filter((row) => row.curve && state.shown.has(row.index) && !isNamed(row));
  const joined = (pick) => others.flatMap((row) => [...pick(row), null]);
  const traces = [{
    type: "scatter", mode: "lines", name: `other trials (${others.length})`, hoverinfo: "skip",
    x: joined((row) => row.curve.seconds), y: joined((row) => row.curve.shown), connectgaps: false,
    line: { color: color("faint"), width: 1 },
  }];
  for (const [i, { row, index, name }] of named.entries()) {
    if (!row.curve) continue;
    traces.push({
      type: "scatter", mode: "lines+markers", name, x: row.curve.seconds, y: row.curve.shown, marker: { size: 4 },
      customdata: row.curve.seconds.map(() => index),
      line: { color: color(LINES[i]), width: 2.5, dash: DASHES[i] },
      hovertemplate: "%{x:.3g} s: %{y:.4g}<extra></extra>",
    });
  }
  const shapes = [];
  const rule = (name, line, place) => {
    traces.push({ type: "scatter", mode: "lines", x: [null], y: [null], line, name });
    shapes.push({ type: "line", line, ...place });
  };
  if (metric.target !== null) {
    const line = { color: color("danger"), dash: "dash", width: 1 };
    rule(`target ${digits(metric.target, 4)}${metric.unit === "%" ? "%" : ""}`, line, { xref: "paper", x0: 0, x1: 1, y0: metric.target, y1: metric.target });
  }
  const budget = views.objectives.default_budget_s;
  if (budget !== null) {
    const line = { color: color("pale"), dash: "dot", width: 1 };
    const name = `training time compared (${digits(budget)} s)`;
    rule(name, line, { yref: "paper", y0: 0, y1: 1, x0: budget, x1: budget });
  }
  const curves = named.map((one) => one.row.curve).filter(Boolean);
  const furthest = Math.max(budget ?? 0, ...curves.map((one) => one.seconds.at(-1)));
  draw("curves-figure", traces, {
    xaxis: {
      title: { text: "seconds of training, without evaluation" }, rangemode: "tozero",
      ...(furthest ? { range: [0, furthest * 1.05] } : {}),
    },
    yaxis: { title: { text: `validation ${metric.label} (${metric.unit})` }, ...flatRange(curves, furthest, metric.target) },
    shapes,
  }, onClick);
}

/** Draws the parts of a step of the named trials as stacked bars, and says what helps. */
function drawSteps(views, state) {
  const { parts, trials, helps } = views.steps;
  const byTrial = new Map(trials.map((one) => [one.index, one.seconds.map((seconds) => seconds * one.batches_per_epoch)]));
  const named = namedTrials(views, state).filter((one) => byTrial.has(one.index)).reverse();
  const total = (index) => byTrial.get(index).reduce((sum, seconds) => sum + seconds, 0);
  const traces = parts.map((part, i) => ({
    type: "bar", orientation: "h", name: part, marker: { color: color(`part-${i}`) },
    y: named.map((one) => one.name.replace(" (", "<br>(")),
    x: named.map((one) => 1000 * byTrial.get(one.index)[i]),
    customdata: named.map((one) => byTrial.get(one.index)[i] / total(one.index)),
    hovertemplate: `${part}: %{x:.3g} ms, %{customdata:.0%}<extra></extra>`,
  })).filter((trace) => trace.x.some((value) => value > 0));
  draw("step-figure", traces, {
    barmode: "stack", xaxis: { title: { text: "milliseconds of work per epoch" } }, yaxis: {},
    legend: { orientation: "h", x: 0, y: -0.35, yanchor: "top", traceorder: "normal" },
  });
  const said = (index) => {
    const seconds = byTrial.get(index);
    const shares = seconds.map((one, i) => [one / total(index), parts[i]]).filter(([share]) => share >= 0.02);
    return shares.sort((a, b) => b[0] - a[0]).map(([share, part]) => `${Math.round(100 * share)}% ${part}`).join(", ");
  };
  fill(byId("step-words"), ...[...named].reverse().map(({ index, name }) => {
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
  const x = (one) => (overSeconds ? one.took_s : one.index);
  draw("regret-figure", [
    {
      type: "scatter", mode: "lines", name: "regret of the best so far", hoverinfo: "skip",
      x: known.map(x), y: known.map((one) => one.regret), line: { shape: "hv", color: color("line-1"), width: 2 },
    },
    {
      type: "scatter", mode: "markers", name: "new best", marker: { size: 8, color: color("line-1") },
      x: better.map(x), y: better.map((one) => one.regret), customdata: better.map((one) => one.index),
      text: better.map((one) => hoverText(views.rows[one.index], views)), hoverinfo: "text",
    },
  ], {
    xaxis: {
      title: { text: overSeconds ? "seconds of trials" : "trial" }, rangemode: "tozero",
      ...(overSeconds || known.length > 12 ? {} : { dtick: 1 }),
    },
    yaxis: { title: { text: "regret (weighted doublings)" }, rangemode: "tozero" },
  }, onClick);
}
