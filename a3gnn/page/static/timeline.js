// The timeline: when each trial ran, how long, and how it ended.

/** Pixels of a row, of the axis above and of the names; seconds of a pause that is drawn shorter. The seconds are a guess. */
const ROW = 20, AXIS = 20, NAMES = 92, LONG_PAUSE_S = 600;

/** Returns how a trial ended: a class, and words. */
function endOf(row, views) {
  if (row.failure) return ["failed", row.failure.said];
  if (row.index === views.best) return ["best", isChosen(views) ? "chosen" : "best measured so far"];
  if (row.index === views.default) return ["baseline", "baseline"];
  if (row.stopped) return ["late", row.stopped];
  return row.feasible ? ["kept", "keeps the limits"] : ["broken", row.broken.join(", ") || "breaks a limit"];
}

/** Returns the spans of the trials in seconds since the first, without the long pauses of a study that was continued. */
function spansOf(rows) {
  const begun = rows.map((row) => Date.parse(row.created) / 1000);
  const spans = [];
  let shift = begun[0], latest = begun[0];
  rows.forEach((row, i) => {
    const pause = begun[i] - latest;
    const cut = pause > LONG_PAUSE_S;
    if (cut) shift += pause - 0.1 * LONG_PAUSE_S;
    spans.push({ row, from: begun[i] - shift, to: begun[i] - shift + row.took_s, pause: cut ? pause : 0 });
    latest = Math.max(latest, begun[i] + row.took_s);
  });
  return spans;
}

function drawTimeline(views, state, onClick) {
  const element = byId("timeline-figure");
  const width = element.clientWidth;
  if (!width || !views.rows.length) return;
  const spans = spansOf(views.rows);
  const last = Math.max(...spans.map((one) => one.to)) || 1;
  const x = (seconds) => NAMES + ((width - NAMES - 56) * seconds) / last;
  const height = AXIS + spans.length * ROW + 4;
  const picture = svg("svg", { class: "chart timeline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "When each trial ran; the table of trials has the same figures" });
  for (const tick of roundTicks(0, last, Math.floor(width / 110))) {
    picture.append(svg("line", { x1: x(tick), x2: x(tick), y1: AXIS, y2: height, class: "grid" }));
    picture.append(svg("text", { x: x(tick), y: 13, class: "tick middle" }, `${digits(tick, 4)} s`));
  }
  spans.forEach(({ row, from, to, pause }, i) => {
    const [kind, words] = endOf(row, views);
    const y = AXIS + i * ROW + 3;
    const group = svg("g", { class: `span ${kind}${row.index === state.selected ? " selected" : ""}`, onclick: () => onClick(row.index) });
    group.append(
      svg("rect", { x: 0, width, y: y - 3, height: ROW, class: "reach" }),
      svg("text", { x: NAMES - 8, y: y + 11, class: "tick end" }, row.name),
      svg("rect", { x: x(from), width: Math.max(x(to) - x(from), 2), y, height: ROW - 6, rx: 2, class: "bar" }),
      svg("text", { x: x(to) + 5, y: y + 11, class: "tick" }, `${digits(row.took_s, 2)} s${row.failure ? " ✕" : row.index === views.best ? " ★" : ""}`),
      svg("title", {}, `${row.name}: ${words}; ${digits(row.took_s)} s from ${digits(from, 4)} s on; ${row.describe}`),
    );
    if (pause) group.append(svg("line", { x1: x(from) - 4, x2: x(from) - 4, y1: y - 3, y2: y + ROW - 3, class: "pause" }));
    picture.append(group);
  });
  fill(element, picture);
  const kinds = [["baseline", "baseline"], ["kept", "keeps the limits"], ["best", isChosen(views) ? "chosen ★" : "best so far ★"], ["late", "stopped: too late or too inaccurate"], ["broken", "breaks a limit or misses the target"], ["failed", "failed ✕"]];
  const used = kinds.filter(([kind]) => spans.some((one) => endOf(one.row, views)[0] === kind));
  fill(byId("timeline-key"), ...used.map(([kind, text]) => make("li", {}, make("span", { class: `swatch ${kind}` }), text)));
  const pauses = spans.filter((one) => one.pause).length;
  byId("timeline-words").textContent = pauses ? `${countOf(pauses, "pause")} of over ${LONG_PAUSE_S / 60} min are drawn shorter.` : "";
}
