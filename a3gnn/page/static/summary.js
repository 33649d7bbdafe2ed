// The answer: what the best configuration gains, by what knobs, and why to doubt it; then the table and the request.

/** Shares of a track: where the baseline's line stands at most to the side. */
const LEAST_SIDE = 0.12;

/** Returns the place of 1x on the tracks of `gains`, and of each value, as shares: more is better and to the right. */
function tracksOf(gains) {
  const doublings = (gain) => [gain.low ?? gain.median, gain.high ?? gain.median].map(Math.log2);
  const ratios = gains.filter((gain) => gain.unit === "x").flatMap(doublings);
  const [low, high] = [Math.min(0, ...ratios), Math.max(0, ...ratios, 0.05)];
  const line = Math.min(Math.max(-low / (high - low), LEAST_SIDE), 1 - LEAST_SIDE);
  const fit = (least, most) => 0.94 * Math.min(most > 0 ? (1 - line) / most : Infinity, least < 0 ? line / -least : Infinity);
  const scale = fit(low, high);
  return {
    line,
    at: (gain) => {
      if (gain.unit === "x") return (value) => line + scale * Math.log2(value);
      const ends = [gain.low ?? gain.median, gain.high ?? gain.median];
      const own = fit(Math.min(0, ...ends), Math.max(0, ...ends));
      return (value) => line + (value === 0 ? 0 : own * value);
    },
  };
}

/** Ratios beside 1x that a track may name, the coarsest first. */
const TICKS = [[2, 4, 8, 16, 32, 64, 128], [1.25, 1.5, 1.75], [1.05, 1.1, 1.15, 1.2]];

/** Returns the ratios to name on the tracks of ratios: those that fit, at the coarsest steps of which one does. */
function ticksOf(tracks) {
  const at = tracks.at({ unit: "x" });
  const fits = (value) => at(value) > 0.02 && at(value) < 0.98;
  const found = TICKS.map((steps) => steps.flatMap((step) => [1 / step, step]).filter(fits)).find((own) => own.length) ?? [];
  return [1, ...found].sort((a, b) => a - b).filter((value, i, all) => value === 1 || Math.abs(at(value) - at(all[i + (value < 1 ? 1 : -1)])) > 0.04);
}

const tickText = (value) => (value === 1 ? "1x" : Number.isInteger(1 / value) ? `1/${1 / value}x` : `${digits(value)}x`);

/** Returns one gain: a large figure, its range over the line of the baseline between the figures of both, its badges. */
function gainItem(gain, tracks, ticks) {
  const at = tracks.at(gain);
  const share = (value) => `${(100 * value).toFixed(2)}%`;
  const tone = gain.settled ? gain.verdict : "unclear";
  const track = make("span", { class: `track ${tone}`, "aria-hidden": "true" });
  const piece = (kind, left, width) => {
    const one = make("span", { class: kind });
    one.style.left = share(left);
    if (width !== undefined) one.style.width = share(width);
    track.append(one);
  };
  if (gain.unit === "x") for (const value of ticks) piece("tick", at(value));
  piece("one", tracks.line);
  if (gain.low !== null) piece("span", at(gain.low), Math.max(at(gain.high) - at(gain.low), 0.004));
  else piece("reach", Math.min(tracks.line, at(gain.median)), Math.abs(at(gain.median) - tracks.line));
  piece("dot", at(gain.median));
  const [before, after] = gain.ends ?? ["", ""];
  return make(
    "li", { class: `gain ${tone}` },
    make("b", {}, gain.text), make("span", { class: "what" }, gain.label),
    make("span", { class: "pale range" }, gain.range),
    make("span", { class: "end before", title: "baseline" }, before), track,
    make("span", { class: "end after" }, after ? make("span", { class: "unseen" }, "to ") : null, after),
    make("span", { class: "badges" }, ...gain.badges.map((text) => make("span", { class: "badge" }, text))),
  );
}

/** Returns the gains over the baseline, each over its line. */
function gainList(gains) {
  if (!gains.length) return null;
  const tracks = tracksOf(gains), ticks = ticksOf(tracks);
  const at = tracks.at({ unit: "x" });
  const key = make("span", { class: "track-key pale", "aria-hidden": "true" }, ...ticks.map((value) => {
    const one = make("span", {}, value === 1 ? make("strong", {}, "1x") : tickText(value));
    one.style.left = `${100 * at(value)}%`;
    return one;
  }));
  return make("ul", { class: "gains", "data-key": "gains" }, make("li", { class: "gain head", "aria-hidden": "true" }, key), ...gains.map((gain) => gainItem(gain, tracks, ticks)));
}

/** Returns the knobs that differ from the baseline. */
function chipList({ knobs, summary: { changes } }) {
  if (!changes.length) return null;
  const chip = ({ name, before, now }) => make(
    "li", { class: "chip", title: knobs.find((knob) => knob.name === name)?.help }, `${name.replaceAll("_", " ")} `,
    make("span", { class: "pale" }, `${before} → `), make("b", {}, now),
  );
  return make("ul", { class: "chips", "aria-label": "Knobs that differ from the baseline" }, ...changes.map(chip));
}

/** Returns a warning; on a server a button continues a study, so its words name the button. */
function warningItem(text) {
  const live = document.body.dataset.live;
  const words = live ? text.replace(/budget='(\w+)'/, "a budget of $1").replace(/(--resume|resume=True)( with a larger (--)?budget)?/, (_, option, larger) => `Continue${larger ? " with a larger budget" : ""}`) : text;
  return make("li", {}, ...wholeOptions(words[0].toUpperCase() + words.slice(1)));
}

/** Returns the options that continue the study as the warnings ask, for those who read its file; null without need. */
function continueLine(views, warnings) {
  if (document.body.dataset.live || !warnings.some((text) => /--resume|--budget|resume=|budget=/.test(text))) return null;
  const named = warnings.map((text) => text.match(/budget[ =]'?(\d\w*)/)?.[1]).find(Boolean);
  const { budget } = views.request; // a whole number of trials, or seconds
  const inTrials = views.time.left_s === null;
  const doubled = inTrials ? 2 * budget : `${Math.max(1, Math.ceil(budget / 30))}min`;
  return make("p", {}, "To continue, run the tune's command again with ", make("code", {}, ...wholeOptions(`--out ${quoted(views.folder)} --resume --budget ${named ?? doubled}`)));
}

/** Returns what is said of the best configuration. */
function bestWords(views) {
  if (!views.summary.best) return views.rows.length ? "No measured configuration keeps the limits yet." : "No trial is done yet.";
  return `${views.rows[views.best].describe} — ${views.summary.best}`;
}

/** Returns what the best gains over the baseline, in a line. */
function bestHeadline(views) {
  const [gain] = views.summary.gains;
  return `${isChosen(views) ? "Chosen" : "Best measured so far"}: ${gain ? `${gain.text} ${gain.label}` : "the baseline"}`;
}

/** Returns `text` as parts that do not break options such as --budget over lines. */
const wholeOptions = (text) =>
  text.split(/(--[a-z-]+)/).map((part, i) => (i % 2 ? make("span", { class: "option" }, part) : part));

/** Starts of the labels of the table's lines whose figures stand at the ends of a gain's track. */
const IN_GAINS = { time: "time to ", throughput: "epochs per second", memory: "peak memory", accuracy: "validation " };

/** Returns the lines of a finished tune's table that no gain shows, and what else the command prints. */
function answerParts(answer, gains) {
  const cells = (tag, texts) => make("tr", {}, ...texts.map((text, i) => (i || tag === "th" ? make(tag, tag === "th" ? { scope: "col" } : {}, text) : make("th", { scope: "row" }, text))));
  const shown = gains.filter((gain) => gain.ends).map((gain) => IN_GAINS[gain.name]);
  const lines = answer.table.filter(([label]) => !shown.some((start) => label.startsWith(start)));
  const labeled = (label, text) => (text ? make("p", {}, make("b", {}, `${label} `), ...wholeOptions(text)) : null);
  return [
    !lines.length ? null : make(
      "div", { class: "scroll" },
      make(
        "table", { class: "answer" },
        make("thead", {}, cells("th", [make("span", { class: "unseen" }, "figure"), "baseline", answer.other, "change"])),
        make("tbody", {}, ...lines.map((line) => cells("td", line))),
      ),
    ),
    labeled("See also", answer.others.join("; ")),
    ...answer.notes.map((text) => labeled("Note", text)),
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
    const left = isChosen(views) || summary.problem ? "" : time.left_s === null || time.left_s > 0 ? `, ${time.left}` : ", the budget is spent";
    const status = summary.problem ? "ended without a choice" : views.status;
    byId("status").textContent =
      `${status}: ${time.elapsed} taken, ${countOf(time.trials, "trial")} after the baseline${left}`;
  }
  const { answer } = summary;
  const hasGain = summary.changes.length > 0;
  const headline = answer
    ? make("p", { class: "headline" }, make("b", {}, answer.headline), answer.verified ? make("span", { class: "pale" }, answer.verified) : null)
    : summary.best
      ? make("p", { class: "headline" }, make("b", {}, bestHeadline(views)), make("span", { class: "pale" }, bestWords(views)))
      : make("p", {}, bestWords(views));
  fill(
    byId("summary-words"),
    summary.problem ? make("p", { class: "problem" }, ...wholeOptions(summary.problem[0].toUpperCase() + summary.problem.slice(1))) : null,
    headline,
    answer && !hasGain && summary.gains.length ? make("p", { class: "pale" }, "The best other configuration over the baseline:") : null,
    gainList(summary.gains),
    chipList(views),
    answer?.warnings.length ? make("ul", { class: "warnings", "aria-label": "Warnings" }, ...answer.warnings.map(warningItem)) : null,
    answer ? continueLine(views, answer.warnings) : null,
    ...(answer ? answerParts(answer, summary.gains) : [summary.default ? make("p", {}, make("b", {}, "Baseline: "), summary.default) : null]),
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
