// The measured front: speed against peak memory, color by validation quality.

const MARKS = ["circle-open", "triangle-down-open", "square-open", "diamond-open", "cross-open"];

/** Returns what the speed axis shows of a row: epochs per second, or seconds to the target; null where it is not reached. */
function speedOf(row, bySeconds) {
  return bySeconds ? row.figures.seconds_to_accuracy : row.figures.throughput_epochs_per_s;
}

/** Returns the bars from each row's speed to the least and the largest of its replicates. */
function errorBars(rows, bySeconds) {
  const range = (row) => {
    const at = speedOf(row, bySeconds);
    const of = bySeconds ? "seconds" : "throughput";
    const low = row.figures[`${of}_low`], high = row.figures[`${of}_high`];
    return low === null || high === null ? [0, 0] : [Math.max(high - at, 0), Math.max(at - low, 0)];
  };
  const ranges = rows.map(range);
  return {
    type: "data", symmetric: false, array: ranges.map((one) => one[0]), arrayminus: ranges.map((one) => one[1]),
    color: color("pale"), thickness: 1, width: 0,
  };
}

/** Returns what is said of a row where the pointer is on it. */
function hoverText(row, views) {
  const { text } = row;
  const lines = [
    `<b>${row.name}</b> ${labelsOf(row)}`,
    row.describe.replaceAll(" · ", "<br>"),
    `${text.throughput} epochs/s`,
  ];
  if (views.objectives.times_accuracy) lines.push(`${views.objectives.seconds_heading}: ${text.seconds}`);
  lines.push(`${text.memory} · ${views.objectives.metric.label} ${text.quality}`, ...row.broken);
  return lines.map((line) => line.replaceAll("&", "&amp;").replace(/<(?!\/?b>|br>)/g, "&lt;")).join("<br>");
}

function pointsOf(rows, views, bySeconds, more) {
  return {
    type: "scatter", mode: "markers",
    x: rows.map((row) => mib(row.figures[views.objectives.memory])), y: rows.map((row) => speedOf(row, bySeconds)),
    customdata: rows.map((row) => row.index), text: rows.map((row) => hoverText(row, views)), hoverinfo: "text",
    ...more,
  };
}

/** Returns the front's edge in the plane of memory and speed, as steps. */
function edgeOf(points, bySeconds) {
  const better = (one, other) => (bySeconds ? one < other : one > other);
  const edge = [];
  for (const point of [...points].sort((a, b) => a[0] - b[0])) {
    if (!edge.length || better(point[1], edge.at(-1)[1])) edge.push(point);
  }
  return edge;
}

function lineOf(edge, name, line) {
  return {
    type: "scatter", mode: "lines", x: edge.map((point) => point[0]), y: edge.map((point) => point[1]),
    line: { shape: "hv", width: 1.5, ...line }, name, hoverinfo: "skip",
  };
}

/** Returns the traces of the rows that break limits, one per set of limits. */
function brokenTraces(rows, views, bySeconds) {
  const kinds = new Map();
  for (const row of rows.filter((one) => !one.feasible)) {
    const kind = row.broken_limits.join(" and ");
    kinds.set(kind, [...(kinds.get(kind) ?? []), row]);
  }
  return [...kinds].map(([kind, own], i) =>
    pointsOf(own, views, bySeconds, {
      name: `breaks a limit${kind ? `: ${kind}` : ""} (${own.length})`,
      marker: { symbol: MARKS[i % MARKS.length], size: 8, color: color("pale") },
    }));
}

/** Draws the front; `state` says which speed, whether predictions are shown, and which trials are picked and selected. */
function drawFront(views, state, onClick) {
  const bySeconds = state.speed === "seconds_to_accuracy";
  const measured = views.rows.filter((row) => !row.failure);
  const placed = measured.filter((row) => speedOf(row, bySeconds) !== null && state.shown.has(row.index));
  const within = placed.filter((row) => row.compared), others = placed.filter((row) => row.feasible && !row.compared);
  const { metric, memory, memory_name: memoryName } = views.objectives;
  const speedTitle = bySeconds ? views.objectives.seconds_heading : "throughput (epochs/s)";
  const qualities = within.map((row) => (row.figures.val_accuracy === null ? null : row.shown_quality));
  const narrow = isNarrow();
  const bar = narrow
    ? { orientation: "h", y: 1.02, yanchor: "bottom", x: 0.5, thickness: 10, len: 1, title: { side: "top" } }
    : { thickness: 14, title: { side: "right" } };
  bar.title.text = `validation ${metric.label} (${metric.unit})`;
  const traces = [...predictedTrace(views, state, bySeconds), ...brokenTraces(placed, views, bySeconds)];
  const point = (row) => [mib(row.figures[memory]), speedOf(row, bySeconds)];
  const edge = edgeOf(within.filter((row) => row.on_front).map(point), bySeconds);
  if (edge.length) traces.push(lineOf(edge, "measured front", { color: color("text") }));
  traces.push(pointsOf(within, views, bySeconds, {
    name: `compared (${within.length}), large: on the front`,
    error_y: errorBars(within, bySeconds),
    marker: {
      opacity: 1, size: within.map((row) => (row.on_front ? 12 : 7)), color: qualities, colorscale: "Viridis", showscale: true,
      reversescale: !metric.larger_is_better, colorbar: bar, line: { color: color("text"), width: 1 },
    },
  }));
  if (others.length) {
    const marker = { symbol: "x-thin-open", size: 7, color: color("pale") };
    traces.push(pointsOf(others, views, bySeconds, { name: `${views.objectives.uncompared} (${others.length})`, marker }));
  }
  traces.push(...markTraces(placed, views, state, bySeconds));
  const missed = measured.filter((row) => speedOf(row, bySeconds) === null).length;
  if (missed) {
    const name = `target not reached, not drawn (${missed})`;
    traces.push({ type: "scatter", x: [null], y: [null], mode: "markers", marker: { color: "rgba(0,0,0,0)" }, name });
  }
  const speeds = placed.map((row) => speedOf(row, bySeconds));
  const memories = placed.map((row) => mib(row.figures[memory]));
  const limit = limitOf(views, Math.max(...memories, 0));
  traces.push(...limit.traces);
  draw("front-figure", traces, {
    xaxis: { title: { text: `peak ${memoryName} (MiB)` }, nticks: narrow ? 5 : 10 },
    yaxis: {
      title: { text: speedTitle }, type: "log", ...(speeds.length ? logTicks(speeds) : {}),
      autorange: bySeconds ? "reversed" : true,
    },
    shapes: limit.shapes, annotations: limit.annotations,
    legend: { orientation: "h", x: 0, y: -0.2, yanchor: "top" },
    margin: { l: 8, r: 8, t: narrow ? 50 : 12, b: 8 },
  }, onClick);
  byId("front-words").textContent =
    `Drawn: ${placed.length} of ${countOf(measured.length, "measured trial")}. ` +
    `Within the limits: ${within.length + others.length}, compared: ${within.length}. ` +
    `On the front: ${within.filter((row) => row.on_front).length}.`;
}

function predictedTrace(views, state, bySeconds) {
  const { name, points: rows } = views.predicted_front;
  if (!state.predicted || !rows.length) return [];
  const { memory } = views.objectives;
  const metric = bySeconds ? "seconds_to_accuracy" : "throughput_epochs_per_s";
  const points = rows.filter((one) => one[metric]).map((one) => [mib(one[memory].mean), one[metric].mean]);
  return [lineOf(edgeOf(points, bySeconds), name, { color: color("accent"), dash: "dot" })];
}

/** Returns the marks around the default, the choice, what is picked and what is selected. */
function markTraces(rows, views, state, bySeconds) {
  const marks = [
    ["baseline", views.default, { symbol: "diamond-open", size: 15, line: { width: 2 } }],
    [isChosen(views) ? "chosen" : "best measured so far", views.best, { symbol: "star-open", size: 20, line: { width: 2 } }],
    ["picked below", state.picked === views.best ? null : state.picked, { symbol: "circle-open", size: 24, color: color("accent"), line: { width: 3 } }],
    ["selected", state.selected, { symbol: "x-thin-open", size: 16, color: color("accent"), line: { width: 3 } }],
  ];
  return marks.flatMap(([name, index, marker]) => {
    const own = rows.filter((row) => row.index === index);
    return own.length ? [pointsOf(own, views, bySeconds, { name, marker: { color: color("text"), ...marker } })] : [];
  });
}

/** Returns the memory limit as a line; one that is far off as an arrow at the edge, so that the points stay apart. */
function limitOf(views, most) {
  const bytes = views.objectives.memory_limit;
  if (bytes === null) return { traces: [], shapes: [], annotations: [] };
  const line = { color: color("danger"), dash: "dash", width: 1.5 };
  const traces = [{ type: "scatter", mode: "lines", x: [null], y: [null], line, name: `limit ${digits(mib(bytes), 4)} MiB` }];
  if (mib(bytes) <= 1.4 * most) {
    return { traces, shapes: [{ type: "line", x0: mib(bytes), x1: mib(bytes), yref: "paper", y0: 0, y1: 1, line }], annotations: [] };
  }
  const text = `limit ${digits(mib(bytes), 4)} MiB →`;
  const place = { xref: "paper", yref: "paper", x: 1, y: 0, xanchor: "right", yanchor: "bottom", showarrow: false };
  return { traces: [], shapes: [], annotations: [{ ...place, text, font: { color: color("danger") } }] };
}
