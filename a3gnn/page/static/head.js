// The head of a page on a server: name, state, progress, last line, actions and trainings, as the server has them now.

const shownHead = () => (document.body.dataset.head ? JSON.parse(document.body.dataset.head) : null);

/** Sets the text of `id` if it differs, so that a screen reader hears changes alone; an empty one is hidden. */
function say(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

/** Sets the server's HTML of `id` if it differs; the focus and what was typed stay. */
function place(id, html) {
  const element = byId(id);
  if (!element || element.dataset.html === html) return;
  element.dataset.html = html;
  const typed = new Map([...element.querySelectorAll("input[id]")].map((one) => [one.id, one.value]));
  const parsed = new DOMParser().parseFromString(html, "text/html");
  fill(element, ...parsed.body.childNodes);
  for (const one of element.querySelectorAll("input[id]")) one.value = typed.get(one.id) ?? one.value;
}

/** Returns the newest head; what the last action was told stays until the state changes. */
const newHead = (found, shown) => (found && found.state === shown.state ? { ...found, alert: found.alert || shown.alert } : found);

/** Shows the phases of a study that runs; the present one is marked. */
function drawPhases(head) {
  const element = byId("phases");
  const present = head.phases.indexOf(head.phase);
  element.hidden = present < 0;
  if (element.dataset.phases === String([head.phases, present])) return;
  element.dataset.phases = [head.phases, present];
  const mark = (i) => ({ class: i < present ? "done" : null, "aria-current": i === present ? "step" : null });
  fill(element, ...head.phases.map((name, i) => make("li", mark(i), name)));
}

/** Shows the head. */
function drawHead(head, views) {
  document.title = `${head.name}: a3gnn`;
  say("title", head.name);
  say("subtitle", views.waiting ? "" : views.title);
  say("status", head.status);
  byId("status").dataset.state = head.state;
  drawPhases(head);
  say("time", head.time);
  byId("progress").hidden = head.progress === null;
  byId("progress").value = head.progress ?? 0;
  byId("budget-line").hidden = head.time === "";
  say("line", head.line);
  place("actions", head.actions);
  place("alert", head.alert);
  place("trainings", head.trainings);
}
