// Parallel coordinates over the knobs and the figures; dragging along an axis keeps what crosses it there.

const HEIGHT = 330, TOP = 52, BOTTOM = 26;
/** Pixels between two axes: the least, so that labels do not touch, and the most. */
const LEAST_GAP = 72, MOST_GAP = 150;

/** Returns the axes: of knobs, those that the best changes first, then of figures. `which` is changed, tried or all. */
function axesOf(views, which) {
  const { objectives } = views;
  const changed = new Set(views.summary.changes.map((one) => one.name));
  const rest = views.knobs.filter((knob) => !changed.has(knob.name) && (which === "all" || knob.differs));
  const first = views.summary.changes.map(({ name }) => views.knobs.find((knob) => knob.name === name));
  const shown = which === "changed" && first.length ? first : [...first, ...rest];
  const knobs = shown.map((knob) => ({
    name: knob.name, help: knob.help,
    ticks: knob.texts.map((text, i) => [i, text]), ends: [0, Math.max(knob.values.length - 1, 1)],
    of: (row) => knob.values.indexOf(row.values[knob.name]),
  }));
  const figures = [
    ["epochs/s", (row) => row.figures.throughput_epochs_per_s, true],
    [objectives.seconds_heading, (row) => row.figures.seconds_to_accuracy, true],
    [`${objectives.memory_name} (MiB)`, (row) => mib(row.figures[objectives.memory]), false],
    [objectives.metric.label, (row) => row.shown_quality, false],
  ];
  return [...knobs, ...figures.map((one) => figureAxis(views, ...one)).filter((axis) => axis !== null)];
}

/** Returns the axis of a figure; null where no trial has it. */
function figureAxis(views, name, of, isLog) {
  const values = views.rows.filter((row) => !row.failure).map(of).filter((value) => value !== null);
  if (!values.length) return null;
  const scale = isLog ? Math.log2 : (value) => value;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const middle = isLog ? Math.sqrt(low * high) : (low + high) / 2;
  const ticks = (low === high ? [low] : [low, middle, high]).map((value) => [scale(value), digits(value)]);
  const ends = low === high ? [scale(low) - 1, scale(low) + 1] : [scale(low), scale(high)];
  return { name, help: name, ticks, ends, of: (row) => (of(row) === null ? null : scale(of(row))) };
}

const heightOf = (axis, value) => {
  const share = (value - axis.ends[0]) / (axis.ends[1] - axis.ends[0]);
  return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
};

/** Returns whether a row crosses every axis where its brush is; `brushes` maps an axis's name to heights [high, low]. */
function passes(row, axes, brushes) {
  return axes.every((axis) => {
    const brush = brushes.get(axis.name);
    if (!brush) return true;
    const value = row.failure ? null : axis.of(row);
    return value !== null && heightOf(axis, value) >= brush[0] && heightOf(axis, value) <= brush[1];
  });
}

/** Draws the axes and a line per measured trial; `onBrush` is called when a brush has changed. */
function drawParallel(views, state, onBrush, onClick) {
  const axes = axesOf(views, state.knobsShown);
  const count = Math.max(axes.length, 2);
  const gap = Math.min(Math.max(byId("parallel-figure").clientWidth / count, LEAST_GAP), MOST_GAP);
  const width = count * gap;
  const size = { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT };
  const svg = make("svg", { svg: true, ...size, "aria-hidden": "true", class: "parallel" });
  const x = (i) => gap / 2 - 12 + i * gap;
  const rows = views.rows.filter((row) => !row.failure);
  const marked = new Set([state.picked, state.selected, views.best, views.default]);
  const rank = (row) => (!state.shown.has(row.index) ? 0 : !row.feasible ? 1 : marked.has(row.index) ? 3 : 2);
  for (const row of [...rows].sort((a, b) => rank(a) - rank(b))) {
    const points = axes.map((axis, i) => [axis.of(row), i]).filter(([value]) => value !== null);
    const d = points.map(([value, i], n) => `${n ? "L" : "M"}${x(i)},${heightOf(axes[i], value).toFixed(1)}`).join("");
    const title = make("title", { svg: true }, `${row.name}: ${row.describe}`);
    const onclick = () => onClick(row.index);
    svg.append(make("path", { svg: true, d, class: `line ${kindOf(row, views, state)}`, onclick }, title));
  }
  axes.forEach((axis, i) => svg.append(drawAxis(axis, x(i), state.brushes, onBrush)));
  fill(byId("parallel-figure"), svg);
  const hidden = width - byId("parallel-figure").clientWidth;
  byId("knobs-hint").textContent = hidden > 1 ? `${axes.length} axes; scroll sideways to see all.` : "";
  fill(byId("knob-choices"), ...views.knobs.filter((knob) => knob.differs).map((knob) => choicesOf(knob, state, onBrush)));
}

/** Returns how the line of a row is drawn. */
function kindOf(row, views, state) {
  if (!state.shown.has(row.index)) return "out";
  if (row.index === state.selected) return "picked";
  if (row.index === views.best) return "best";
  if (row.index === state.picked) return "picked";
  if (row.index === views.default) return "default";
  if (!row.feasible) return "broken";
  return row.on_front ? "front" : "kept";
}

function drawAxis(axis, x, brushes, onBrush) {
  const group = make("g", { svg: true, class: "axis" });
  const words = axis.name.replaceAll("_", " ").split(" ");
  const half = Math.ceil(words.length / 2);
  const lines = words.length > 1 ? [words.slice(0, half).join(" "), words.slice(half).join(" ")] : words;
  lines.forEach((line, i) => group.append(make("text", { svg: true, x, y: 14 + 14 * i, class: "name" }, line)));
  group.append(make("line", { svg: true, x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
  for (const [value, text] of axis.ticks) {
    const y = heightOf(axis, value);
    const back = { x: x + 4, y: y - 8, width: 4 + 6 * text.length, height: 15, class: "back" };
    group.append(make("rect", { svg: true, ...back }), make("text", { svg: true, x: x + 6, y: y + 4, class: "tick" }, text));
    group.append(make("line", { svg: true, x1: x - 3, x2: x + 3, y1: y, y2: y }));
  }
  const brush = brushes.get(axis.name);
  const [high, low] = brush ?? [TOP, TOP];
  const box = make("rect", { svg: true, x: x - 9, width: 18, y: high, height: low - high, class: "brush" });
  const reach = { x: x - 16, width: 32, y: TOP - 12, height: HEIGHT - TOP - BOTTOM + 24 };
  const handle = make("rect", { svg: true, ...reach, class: "handle" });
  handle.append(make("title", { svg: true }, `${axis.help} Drag to keep a range; click to keep all.`));
  handle.addEventListener("pointerdown", (down) => {
    const frame = handle.ownerSVGElement.getBoundingClientRect();
    const at = (event) => (event.clientY - frame.top) * (HEIGHT / frame.height);
    const from = at(down);
    handle.setPointerCapture(down.pointerId);
    const range = (event) => [Math.min(from, at(event)), Math.max(from, at(event))];
    handle.onpointermove = (event) => {
      const [high, low] = range(event);
      box.setAttribute("y", high);
      box.setAttribute("height", low - high);
    };
    handle.onpointerup = (event) => {
      handle.onpointermove = handle.onpointerup = null;
      const [high, low] = range(event);
      if (low - high < 4) brushes.delete(axis.name);
      else brushes.set(axis.name, [high, low]);
      onBrush();
    };
  });
  group.append(box, handle);
  return group;
}

/** Returns a knob's values as boxes to tick, which do by keyboard what brushes do by pointer. */
function choicesOf(knob, state, onBrush) {
  const off = state.hidden.get(knob.name) ?? new Set();
  const boxes = knob.values.map((value, i) => {
    const box = make("input", { type: "checkbox", checked: !off.has(i), "data-key": `${knob.name}-${i}` });
    box.addEventListener("change", () => {
      if (box.checked) off.delete(i);
      else off.add(i);
      state.hidden.set(knob.name, off);
      onBrush();
    });
    return make("label", { class: "box" }, box, ` ${knob.texts[i]}`);
  });
  return make("fieldset", {}, make("legend", { title: knob.help }, knob.name), ...boxes);
}
