// The head of a page on a server: name, state, progress, last line, actions and trainings, as the server has them now.

/** Seconds between two looks at a study that runs, and at one that has ended, which somebody may continue. Guesses. */
const LOOK_S = 2, ENDED_LOOK_S = 10;

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

/**
 * Follows a study: `onViews` is called when its views may have changed, `onHead` with its head whenever that was read.
 * A study that has ended is looked at now and then, because it may be continued from another page.
 */
function followStudy(prefix, head, onViews, onHead) {
  let source = null;
  let timer = null;
  let state = head?.state;
  const open = (place) => {
    source = new EventSource(`${prefix}/events${place ? `?after=${place}` : ""}`);
    source.addEventListener("trial", () => { onViews(); soon(200); });
    source.addEventListener("status", () => { onViews(); soon(0); });
    for (const kind of ["line", "phase"]) source.addEventListener(kind, () => soon(200));
    source.addEventListener("error", () => { if (source?.readyState === EventSource.CLOSED) source = null; });
  };
  const look = async () => {
    timer = null;
    let found = null;
    try {
      const answer = await fetch(`${prefix}/head`, { headers: { accept: "application/json" } });
      if (answer.ok) found = await answer.json();
    } catch (error) {
      // The server is away, or was while it answered: the next look reads.
      if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    }
    if (found) {
      if (found.running && !source) open(found.events);
      if (!found.running && source) { source.close(); source = null; }
      if (found.state !== state) onViews();
      state = found.state;
      onHead(found);
    }
    soon(1000 * (!found || found.active ? LOOK_S : ENDED_LOOK_S), false);
  };
  /** Looks after so many milliseconds, or earlier if that was planned. */
  const soon = (milliseconds, sooner = true) => {
    if (timer !== null && !sooner) return;
    const due = performance.now() + milliseconds;
    if (timer !== null && timer.due <= due) return;
    if (timer !== null) clearTimeout(timer.id);
    timer = { due, id: setTimeout(look, milliseconds) };
  };
  if (!head || head.running) open(head?.events ?? 0);
  soon(1000 * LOOK_S);
}
