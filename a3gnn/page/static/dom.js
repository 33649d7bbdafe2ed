// Elements and numbers that every view uses.

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

/** Returns whether the study has chosen, by its verification or because it was stopped. */
const isChosen = (views) => views.law !== null && views.law.choice !== null;
