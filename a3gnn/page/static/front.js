// The measured front: speed or quality against peak memory; color by the figure that neither axis has.

const BROKEN = ["circle", "triangle", "square", "diamond", "plus"];
/** What the vertical axis may show. */
const QUALITY = "quality", SECONDS = "seconds_to_accuracy", THROUGHPUT = "throughput_epochs_per_s";

/** Returns the vertical axis that a priority asks for: quality if that weighs the most, else the objectives' speed. */
function ownAxis(views) {
  const { throughput, memory, accuracy } = views.law.priority;
  return accuracy > Math.max(throughput, memory) ? QUALITY : views.objectives.speed;
}

/** Returns what the axis shows of a row; null where the target is not reached, or nothing was validated. */
const heightIn = (row, axis) => (axis === QUALITY ? row.shown_quality : row.figures[axis]);

/** Returns the least and the largest of a row's repeats. */
function rangeIn(row, axis) {
  if (axis === QUALITY) return {};
  const of = axis === SECONDS ? "seconds" : "throughput";
  return { low: row.figures[`${of}_low`], high: row.figures[`${of}_high`] };
}

/** Returns the lines of a row's tip. */
function tipOf(row, views) {
  const { text } = row;
  const lines = [[row.name, labelsOf(row)].filter(Boolean).join(": "), row.describe, `${text.throughput} epochs/s`];
  if (views.objectives.times_accuracy) lines.push(`${views.objectives.seconds_heading}: ${text.seconds}`);
  return [...lines, `${text.memory} · ${views.objectives.metric.label} ${text.quality}`, ...row.broken];
}

/** Returns the front's edge in the plane of memory and the vertical axis, as points of a step line. */
function edgeOf(points, smallIsBetter) {
  const better = (one, other) => (smallIsBetter ? one < other : one > other);
  const edge = [];
  for (const point of [...points].sort((a, b) => a.x - b.x)) {
    if (!edge.length || better(point.y, edge.at(-1).y)) edge.push({ x: point.x, y: point.y });
  }
  return edge;
}

/** Returns the series of the rows that miss the target (of the metric's `label`) or break limits, one per reason. */
function brokenSeries(rows, pointOf, label) {
  const kinds = new Map();
  for (const row of rows.filter((one) => !one.feasible)) {
    const kind = row.broken_limits.join(" and ");
    kinds.set(kind, [...(kinds.get(kind) ?? []), row]);
  }
  const nameOf = (kind) => (kind.startsWith("stopped") ? kind : kind === label ? "misses the target" : `breaks a limit${kind ? `: ${kind}` : ""}`);
  return [...kinds].map(([kind, own], i) => ({
    name: `${nameOf(kind)} (${own.length})`, key: `broken ${kind}`,
    points: own.map(pointOf), mark: { shape: BROKEN[i % BROKEN.length], size: 4, color: "pale" },
  }));
}

/** Draws the front; `state` says which axis, whether predictions are shown, and which trials are picked and selected. */
function drawFront(views, state, onClick) {
  const axis = state.speed;
  const { metric, memory, memory_name: memoryName, seconds_heading: secondsHeading } = views.objectives;
  const smallIsBetter = axis === SECONDS || (axis === QUALITY && !metric.larger_is_better);
  const measured = views.rows.filter((row) => !row.failure);
  const placed = measured.filter((row) => heightIn(row, axis) !== null && state.shown.has(row.index));
  const within = placed.filter((row) => row.compared), others = placed.filter((row) => row.feasible && !row.compared);
  const pointOf = (row) => ({
    x: mib(row.figures[memory]), y: heightIn(row, axis), ...rangeIn(row, axis), trial: row.index, text: tipOf(row, views),
  });
  const bare = (row) => ({ ...pointOf(row), low: null, high: null, text: null });
  const colored = coloring(views, within, axis);
  const series = [...predictedSeries(views, state, axis, smallIsBetter), ...brokenSeries(placed, (row) => ({ ...pointOf(row), low: null, high: null }), metric.label)];
  const edge = edgeOf(within.filter((row) => row.on_front).map(pointOf), smallIsBetter);
  if (edge.length) series.push({ name: "measured front", points: edge, line: { color: "text", width: 1.5, step: true } });
  series.push({
    name: `compared (${within.length}), large: on the front`, key: "compared", mark: { shape: "circle", size: 5, color: "text", fill: "var(--faint)" },
    points: within.map((row) => ({ ...pointOf(row), size: row.on_front ? 6.5 : 4, fill: colored.of(row) })),
  });
  if (others.length) {
    const name = `${views.objectives.uncompared} (${others.length})`;
    series.push({ name, key: "uncompared", points: others.map(pointOf), mark: { shape: "x", size: 4, color: "pale" } });
  }
  for (const [name, index, mark] of marksOf(views, state)) {
    const own = placed.filter((row) => row.index === index);
    if (own.length) series.push({ name, points: own.map(bare), mark });
  }
  const most = Math.max(...placed.map((row) => mib(row.figures[memory])), 0);
  const heading = { [QUALITY]: `validation ${metric.label} (${metric.unit})`, [SECONDS]: secondsHeading, [THROUGHPUT]: "epochs per second" }[axis];
  draw("front-figure", {
    x: { title: `peak ${memoryName} (MiB)` },
    y: { title: `${heading}${smallIsBetter ? ", better upwards" : ""}`, log: axis !== QUALITY, reversed: smallIsBetter, share: axis === QUALITY && metric.unit === "%" },
    series, rules: limitRules(views, most), scale: colored.scale,
  }, onClick);
  const missed = measured.filter((row) => heightIn(row, axis) === null).length;
  byId("front-words").textContent =
    `Drawn: ${placed.length} of ${countOf(measured.length, "measured trial")}` +
    `${missed ? `; ${missed} did not reach the target` : ""}. ` +
    `Within the limits: ${within.length + others.length}, compared: ${within.length}. ` +
    `On the front: ${within.filter((row) => row.on_front).length}.${limitWords(views, most)}`;
}

/** Returns the fill of a row, and the scale: by validation quality, or by speed where quality is the vertical axis. */
function coloring(views, rows, axis) {
  const { metric } = views.objectives;
  const bySpeed = axis === QUALITY;
  const of = bySpeed ? (row) => row.figures[THROUGHPUT] : (row) => row.shown_quality;
  const values = rows.map(of).filter((value) => value !== null);
  if (!values.length) return { of: () => "var(--faint)", scale: null };
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const turned = !bySpeed && !metric.larger_is_better;
  const share = (value) => (high > low ? (value - low) / (high - low) : 1);
  const title = bySpeed ? "epochs per second" : `validation ${metric.label} (${metric.unit})`;
  return {
    of: (row) => (of(row) === null ? "var(--faint)" : viridis(turned ? 1 - share(of(row)) : share(of(row)))),
    scale: high > low ? { title, low, high, turned } : null,
  };
}

function predictedSeries(views, state, axis, smallIsBetter) {
  const { name, points: rows } = views.predicted_front;
  if (!state.predicted || !rows.length) return [];
  const { memory, metric } = views.objectives;
  const height = (one) => (axis === QUALITY ? one.val_accuracy && one.val_accuracy.mean * (metric.unit === "%" ? 100 : 1) : one[axis]?.mean);
  const points = rows.filter(height).map((one) => ({ x: mib(one[memory].mean), y: height(one) }));
  return points.length ? [{ name, points: edgeOf(points, smallIsBetter), line: { color: "accent", dash: "dot", step: true } }] : [];
}

/** Returns the marks around the baseline, the choice, what is picked and what is selected. */
const marksOf = (views, state) => [
  ["baseline", views.default, { shape: "diamond", size: 9, color: "text", width: 2 }],
  [isChosen(views) ? "chosen" : "best measured so far", views.best, { shape: "star", size: 12, color: "text", width: 2 }],
  ["picked below", state.picked === views.best ? null : state.picked, { shape: "circle", size: 13, color: "accent", width: 3 }],
  ["selected", state.selected, { shape: "x", size: 9, color: "accent", width: 3 }],
];

/** Returns whether the memory limit is so far off that it would squeeze the points. */
const isFar = (limit, most) => mib(limit) > 1.4 * most;

/** Returns the memory limit as a line. */
function limitRules(views, most) {
  const limit = views.objectives.memory_limit;
  if (limit === null || isFar(limit, most)) return [];
  return [{ x: mib(limit), within: true, color: "danger", dash: "dash", name: `limit ${digits(mib(limit), 4)} MiB`, key: "limit" }];
}

function limitWords(views, most) {
  const limit = views.objectives.memory_limit;
  return limit !== null && isFar(limit, most) ? ` The limit of ${digits(mib(limit), 4)} MiB is beyond the right edge.` : "";
}
