// Charts of lines and points as SVG: axes, a legend whose entries hide series, a tip at the pointer, zoom by dragging.

/** Pixels: around the plot, of a letter, between ticks, and from the pointer to a point that it means. */
const EDGE = { top: 26, right: 14, bottom: 40 }, LETTER = 7, TICK_GAP = { x: 84, y: 44 }, REACH = 26;
/** Colors of matplotlib's viridis, evenly spaced. */
const VIRIDIS = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
/** Paths of the marks for a radius of 1. */
const SHAPES = {
  circle: "M-1,0A1,1 0 1 1 1,0A1,1 0 1 1 -1,0Z",
  square: "M-.85,-.85H.85V.85H-.85Z",
  diamond: "M0,-1.2L1,0L0,1.2L-1,0Z",
  triangle: "M-1,-.8H1L0,1Z",
  plus: "M-1,0H1M0,-1V1",
  x: "M-.8,-.8L.8,.8M-.8,.8L.8,-.8",
  star: "M0,-1.1L.27,-.37L1.05,-.34L.43,.14L.65,.89L0,.45L-.65,.89L-.43,.14L-1.05,-.34L-.27,-.37Z",
};
const DASHED = { dash: "7 4", dot: "2 4" };

/** What each chart shows, by its id: its last description, the series that are hidden, and the ranges of a zoom. */
const charts = new Map();

const svg = (tag, attributes, ...children) => make(tag, { svg: true, ...attributes }, ...children);

/** Returns the color at a share in [0, 1] of the viridis scale. */
function viridis(share) {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const [low, high] = [Math.floor(at), Math.ceil(at)].map((i) => [1, 3, 5].map((k) => parseInt(VIRIDIS[i].slice(k, k + 2), 16)));
  return `rgb(${low.map((value, i) => Math.round(value + (high[i] - value) * (at % 1))).join(",")})`;
}

/** Returns round numbers in [low, high], about `count` of them. */
function roundTicks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= raw) * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

/** Returns at most `count` ticks of a logarithmic axis, at round numbers. */
function logTicks(low, high, count) {
  const steps = [[1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 4, 5, 7], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]];
  let found = [];
  for (const own of steps) {
    found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      found.push(...own.map((step) => step * 10 ** power).filter((tick) => tick >= low * 0.999 && tick <= high * 1.001));
    }
    if (found.length <= count) break;
  }
  return found;
}

/**
 * Returns the scale of an axis over `values`: its ends, and the place of a value as a share in [0, 1].
 *
 * axis: {title, log, reversed, zero (starts at 0), range (ends, unless zoomed), whole (steps of at least 1), share (a
 * percentage, so between 0 and 100)}
 */
function scaleOf(axis, values, zoomed) {
  const to = axis.log ? Math.log : (value) => value, from = axis.log ? Math.exp : (value) => value;
  let [low, high] = zoomed ?? axis.range ?? [Math.min(...values), Math.max(...values)];
  if (!zoomed && !axis.range) {
    if (axis.zero) low = Math.min(0, low);
    const [a, b] = [to(low), to(high)];
    const room = b > a ? (b - a) * 0.06 : axis.log ? 0.1 : Math.abs(b) * 0.06 || 1;
    [low, high] = [axis.zero && low === 0 ? 0 : from(a - room), from(b + room)];
  }
  if (axis.share) [low, high] = [Math.max(low, 0), Math.min(high, 100)];
  const share = (value) => (to(value) - to(low)) / (to(high) - to(low));
  const flip = (at) => (axis.reversed ? 1 - at : at);
  const ticks = (count) => {
    const found = axis.log && high > 2.5 * low ? logTicks(low, high, count) : roundTicks(low, high, count);
    return axis.whole ? found.filter(Number.isInteger) : found;
  };
  return { low, high, ticks, at: (value) => flip(share(value)), value: (at) => from(to(low) + flip(at) * (to(high) - to(low))) };
}

/** Returns texts of ticks, with as many digits as round numbers need. */
function tickTexts(ticks) {
  const isExact = (n) => ticks.every((tick) => Math.abs(Number(tick.toPrecision(n)) - tick) <= 1e-6 * Math.abs(tick));
  const count = [2, 3, 4, 5].find(isExact) ?? 6;
  return ticks.map((tick) => (tick === 0 ? "0" : digits(tick, count)));
}

/**
 * Draws a chart into the element of `id`, which has its description as data-label.
 *
 * @param chart {x, y: axes (`scaleOf`); series; rules: [{x or y, name, color, dash}]; scale: {title, low, high, turned}}.
 *   A series is {name, key, points, line: {color, width, dash, step}, mark: {shape, size, color, fill, width}}. A point
 *   is {x, y, low, high, trial, text: lines of the tip, size, fill}; null breaks the line.
 * @param onClick Gets the trial of a point that was clicked.
 */
function draw(id, chart, onClick = null) {
  const known = charts.get(id) ?? { hidden: new Set(), zoom: null };
  charts.set(id, Object.assign(known, { chart, onClick }));
  if (!known.watcher) {
    known.watcher = new ResizeObserver(() => { if (byId(id).clientWidth !== known.width) redraw(id); });
    known.watcher.observe(byId(id));
  }
  redraw(id);
}

function redraw(id) {
  const element = byId(id), known = charts.get(id);
  const { chart, hidden, zoom } = known;
  known.width = element.clientWidth;
  if (!known.width) return;
  const shown = chart.series.filter((one) => !hidden.has(one.key ?? one.name));
  const rules = chart.rules.filter((one) => !hidden.has(one.key ?? one.name));
  const points = shown.flatMap((one) => one.points.filter(Boolean));
  const legend = legendOf(id, chart, hidden, zoom);
  if (!points.length) return fill(element, legend, make("p", { class: "pale" }, "Nothing to draw."));
  const height = element.classList.contains("tall") ? 440 : 320;
  const values = (axis) => [
    ...points.flatMap((one) => [one[axis], axis === "y" ? one.low : null, axis === "y" ? one.high : null]),
    ...rules.filter((one) => one.within).map((one) => one[axis]),
  ].filter((value) => value !== null && value !== undefined);
  const y = scaleOf(chart.y, values("y"), zoom?.y), x = scaleOf(chart.x, values("x"), zoom?.x);
  const ticks = { y: y.ticks(Math.floor(height / TICK_GAP.y)) };
  const texts = tickTexts(ticks.y);
  const left = 14 + LETTER * Math.max(...texts.map((text) => text.length), 1);
  const box = { left, top: EDGE.top, width: known.width - left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  ticks.x = x.ticks(Math.floor(box.width / TICK_GAP.x));
  const place = {
    x: (value) => box.left + box.width * x.at(value), y: (value) => box.top + box.height * (1 - y.at(value)),
    value: (px, py) => [x.value((px - box.left) / box.width), y.value(1 - (py - box.top) / box.height)],
  };
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${known.width} ${height}`, height, role: "img", "aria-label": element.dataset.label });
  picture.append(...gridOf(chart, ticks, texts, place, box));
  const clip = `clip-${id}`;
  picture.append(svg("clipPath", { id: clip }, svg("rect", { x: box.left - 6, y: box.top - 4, width: box.width + 14, height: box.height + 6 })));
  const inside = svg("g", { "clip-path": `url(#${clip})` });
  for (const rule of rules) inside.append(ruleOf(rule, place, box));
  for (const one of shown) inside.append(...seriesOf(one, place));
  const ring = svg("path", { d: SHAPES.circle, class: "ring", visibility: "hidden" });
  picture.append(inside, ring);
  const tip = make("div", { class: "tip", hidden: true });
  fill(element, legend, picture, tip);
  listenToChart(id, { picture, tip, ring, place, box, points: points.filter((one) => one.text) });
}

/** Returns the grid, the texts of the ticks and the titles of the axes. */
function gridOf(chart, ticks, texts, place, box) {
  const bottom = box.top + box.height, right = box.left + box.width;
  const across = ticks.y.flatMap((tick, i) => [
    svg("line", { x1: box.left, x2: right, y1: place.y(tick), y2: place.y(tick), class: "grid" }),
    svg("text", { x: box.left - 8, y: place.y(tick) + 4, class: "tick end" }, texts[i]),
  ]);
  const named = tickTexts(ticks.x);
  const down = ticks.x.flatMap((tick, i) => [
    svg("line", { x1: place.x(tick), x2: place.x(tick), y1: box.top, y2: bottom, class: "grid" }),
    svg("text", { x: place.x(tick), y: bottom + 16, class: "tick middle" }, named[i]),
  ]);
  return [
    ...across, ...down,
    svg("text", { x: 2, y: 12, class: "axis-title" }, chart.y.title),
    svg("text", { x: right, y: bottom + 34, class: "axis-title end" }, chart.x.title),
  ];
}

function ruleOf(rule, place, box) {
  const at = rule.x === undefined
    ? { x1: box.left, x2: box.left + box.width, y1: place.y(rule.y), y2: place.y(rule.y) }
    : { x1: place.x(rule.x), x2: place.x(rule.x), y1: box.top, y2: box.top + box.height };
  return svg("line", { ...at, stroke: `var(--${rule.color})`, "stroke-dasharray": DASHED[rule.dash] ?? null, "stroke-width": 1.5 });
}

/** Returns the elements of a series: its line, the bars of its points' ranges, and the marks. */
function seriesOf(one, place) {
  const found = [];
  if (one.line) {
    let d = "", before = null;
    for (const point of one.points) {
      if (point) {
        const [px, py] = [place.x(point.x).toFixed(1), place.y(point.y).toFixed(1)];
        d += before === null ? `M${px},${py}` : one.line.step ? `H${px}V${py}` : `L${px},${py}`;
      }
      before = point;
    }
    const { color: tone, width, dash } = one.line;
    found.push(svg("path", { d, fill: "none", stroke: `var(--${tone})`, "stroke-width": width ?? 2, "stroke-dasharray": DASHED[dash] ?? null, "stroke-linejoin": "round" }));
  }
  for (const point of one.points.filter((each) => each && each.low !== undefined && each.low !== null)) {
    const px = place.x(point.x);
    found.push(svg("line", { x1: px, x2: px, y1: place.y(point.low), y2: place.y(point.high), class: "range" }));
  }
  if (one.mark) for (const point of one.points.filter(Boolean)) found.push(markOf({ ...one.mark, ...point }, place));
  return found;
}

function markOf(mark, place) {
  return svg("path", {
    d: SHAPES[mark.shape], transform: `translate(${place.x(mark.x).toFixed(1)},${place.y(mark.y).toFixed(1)}) scale(${mark.size})`,
    fill: mark.fill ?? "none", stroke: `var(--${mark.color})`, "stroke-width": mark.width ?? 1.3, "vector-effect": "non-scaling-stroke",
  });
}

/** Returns the legend: a button per series and rule, which hides or shows it, and the color scale. */
function legendOf(id, chart, hidden, zoom) {
  const entry = (one) => {
    const key = one.key ?? one.name;
    const toggle = () => { if (!hidden.delete(key)) hidden.add(key); redraw(id); };
    const line = one.line ?? (one.x !== undefined || one.y !== undefined ? one : null);
    const sign = svg("svg", { viewBox: "0 0 24 14", width: 24, height: 14, "aria-hidden": "true" });
    if (line) sign.append(svg("path", { d: "M0,7H24", stroke: `var(--${line.color})`, "stroke-width": line.width ?? 1.5, "stroke-dasharray": DASHED[line.dash] ?? null }));
    if (one.mark) sign.append(svg("path", { d: SHAPES[one.mark.shape], transform: `translate(12,7) scale(${Math.min(one.mark.size, 5.5)})`, fill: one.mark.fill ?? "none", stroke: `var(--${one.mark.color})`, "stroke-width": one.mark.width ?? 1.3, "vector-effect": "non-scaling-stroke" }));
    return make("button", { type: "button", onclick: toggle, "aria-pressed": String(!hidden.has(key)), "data-key": `series-${key}` }, sign, one.name);
  };
  const entries = [...chart.series, ...chart.rules].filter((one) => one.name).map(entry);
  if (zoom) {
    const reset = () => { charts.get(id).zoom = null; redraw(id); };
    entries.push(make("button", { type: "button", onclick: reset, class: "reset" }, "Reset zoom"));
  }
  return make("div", { class: "series", role: "group", "aria-label": "Series" }, ...entries, chart.scale ? colorBar(chart.scale) : null);
}

function colorBar({ title, low, high, turned }) {
  const colors = turned ? [...VIRIDIS].reverse() : VIRIDIS;
  const bar = make("span", { class: "bar" });
  bar.style.background = `linear-gradient(90deg, ${colors.join(", ")})`;
  const count = [2, 3, 4, 5].find((n) => low === high || digits(low, n) !== digits(high, n)) ?? 6;
  const [from, to] = [low, high].map((value) => digits(value, Math.max(count, 3)));
  return make("span", { class: "scale" }, `${title}: ${from} `, bar, ` ${to}`);
}

/** Shows the tip of the point next to the pointer; a drag zooms, and a double click shows everything again. */
function listenToChart(id, { picture, tip, ring, place, box, points }) {
  const known = charts.get(id);
  const at = (event) => {
    const frame = picture.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  const clamp = ([px, py]) => [
    Math.min(Math.max(px, box.left), box.left + box.width), Math.min(Math.max(py, box.top), box.top + box.height),
  ];
  const near = (event) => {
    const [px, py] = at(event);
    const far = (one) => Math.hypot(place.x(one.x) - px, place.y(one.y) - py);
    const found = points.reduce((best, one) => (best === null || far(one) <= far(best) ? one : best), null);
    return found && far(found) <= REACH ? found : null;
  };
  let from = null;
  const frame = svg("rect", { class: "zoom", visibility: "hidden" });
  picture.append(frame);
  const show = (point) => {
    tip.hidden = !point;
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    picture.style.cursor = point && known.onClick && Number.isInteger(point.trial) ? "pointer" : "";
    if (!point) return;
    const [px, py] = [place.x(point.x), place.y(point.y)];
    ring.setAttribute("transform", `translate(${px},${py}) scale(9)`);
    fill(tip, ...point.text.map((line, i) => make(i ? "div" : "b", {}, line)));
    tip.style.left = `${Math.max(0, Math.min(px + 14, known.width - tip.offsetWidth))}px`;
    tip.style.top = `${picture.offsetTop + (py > tip.offsetHeight + 18 ? py - tip.offsetHeight - 14 : py + 16)}px`;
  };
  picture.addEventListener("pointermove", (event) => {
    if (!from) return show(near(event));
    const [a, b] = [from, clamp(at(event))];
    const size = { x: Math.min(a[0], b[0]), y: Math.min(a[1], b[1]), width: Math.abs(a[0] - b[0]), height: Math.abs(a[1] - b[1]) };
    for (const [name, value] of Object.entries(size)) frame.setAttribute(name, value);
    frame.setAttribute("visibility", "visible");
  });
  picture.addEventListener("pointerleave", () => show(null));
  picture.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return; // a finger scrolls the page
    from = clamp(at(event));
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointerup", (event) => {
    const [a, b] = [from, clamp(at(event))];
    from = null;
    if (a && Math.abs(a[0] - b[0]) > 8 && Math.abs(a[1] - b[1]) > 8) {
      const [one, other] = [place.value(...a), place.value(...b)];
      const ends = (i) => [Math.min(one[i], other[i]), Math.max(one[i], other[i])];
      known.zoom = { x: ends(0), y: ends(1) };
      return redraw(id);
    }
    frame.setAttribute("visibility", "hidden");
    const point = near(event);
    if (point && known.onClick && Number.isInteger(point.trial)) known.onClick(point.trial);
  });
  picture.addEventListener("dblclick", () => { known.zoom = null; redraw(id); });
}
