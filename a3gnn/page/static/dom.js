// Elements, numbers and colors that every view uses.

/** Returns the element of `id`. */
const byId = (id) => document.getElementById(id);

/**
 * Returns a new element; attributes whose value is null or false are left out, children may be texts.
 * What is shown goes through text nodes alone, so that nothing a study holds is ever read as HTML.
 */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "title", "clipPath"].includes(tag) && attributes.svg;
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Returns the way from `root` to an element inside it: the number of each child. */
function wayTo(element, root) {
  const way = [];
  for (let at = element; at !== root; at = at.parentNode) way.unshift([...at.parentNode.childNodes].indexOf(at));
  return way;
}

/** Replaces what is in `element` by `children`. The focus stays, and so do open details: by `data-key`, else by place. */
function fill(element, ...children) {
  const active = document.activeElement !== element && element.contains(document.activeElement) ? document.activeElement : null;
  const way = active && wayTo(active, element);
  const open = [...element.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key);
  element.replaceChildren(...children.filter((child) => child !== null));
  for (const one of element.querySelectorAll("details[data-key]")) one.open ||= open.includes(one.dataset.key);
  if (!active) return;
  const key = active.dataset.key;
  const keyed = key && element.querySelector(`[data-key="${CSS.escape(key)}"]`);
  (keyed || way.reduce((at, i) => at?.childNodes[i], element))?.focus?.({ preventScroll: true });
}

const MIB = 2 ** 20;
const mib = (bytes) => bytes / MIB;
const digits = (number, count = 3) => Number(number.toPrecision(count)).toLocaleString("en");

/** Returns a number with its noun: "1 trial", "3 trials". */
const countOf = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Returns the color that the style sheet gives a variable, which depends on light and dark. */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Returns ticks of a logarithmic axis over `values`: as many as tell its numbers, not more than fit. */
function logTicks(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const ratio = high / low;
  const few = ratio > 300 ? [1] : ratio > 30 ? [1, 3] : [1, 2, 3, 5, 7];
  const steps = ratio > 6 ? few : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
  const found = [];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) {
      const tick = step * 10 ** power;
      if (tick >= low / 1.6 && tick <= high * 1.6) found.push(tick);
    }
  }
  return { tickmode: "array", tickvals: found, ticktext: found.map((tick) => digits(tick)) };
}

/** Returns whether the study has chosen, by its verification or because it was stopped. */
const isChosen = (views) => views.law !== null && views.law.choice !== null;

const isNarrow = () => window.innerWidth < 640;

/** Returns the layout that all figures share, with `more` on top of it. */
function layoutOf(more) {
  const axis = { gridcolor: color("grid"), linecolor: color("grid"), zeroline: false, automargin: true };
  const { xaxis = {}, yaxis = {}, ...rest } = more;
  return {
    font: { color: color("text"), family: "system-ui, sans-serif", size: isNarrow() ? 11 : 13 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 8, t: 8, b: 8 },
    dragmode: isNarrow() ? false : "zoom", // a finger scrolls the page
    hoverlabel: { align: "left", font: { size: 12 } },
    legend: { orientation: "h", x: 0, y: -0.3, yanchor: "top", font: { size: isNarrow() ? 11 : 12 } },
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
    ...rest,
  };
}

/** Draws `traces` into the element of `id`; `onClick` gets the trial of the point that was clicked. */
function draw(id, traces, layout, onClick = null) {
  const element = byId(id);
  if (!window.Plotly) {
    element.hidden = true;
    byId("no-figures").hidden = false;
    return;
  }
  window.Plotly.react(element, traces, layoutOf(layout), {
    responsive: true, displayModeBar: false, // its buttons would be stops of the Tab key that do not show
  });
  element.removeAllListeners("plotly_click");
  if (onClick) {
    element.on("plotly_click", (event) => {
      const trial = event.points.map((point) => point.customdata).find((found) => Number.isInteger(found));
      if (trial !== undefined) onClick(trial);
    });
  }
}
