// Starts the page: reads the views, draws all of them, and follows a study that still runs.

let views = JSON.parse(byId("views").textContent);
let head = shownHead();
const state = {
  speed: null, touched: false, frame: 0, predicted: false, knobsShown: "changed", regretOver: "trials", wholeCurves: false,
  selected: null, picked: null, words: "", kind: "all", sort: { column: 0, down: false },
  brushes: new Map(), hidden: new Map(), axes: [], shown: new Set(),
};

function select(index) {
  state.selected = state.selected === index ? null : index;
  drawAll();
}

/** Draws everything; without a trial there is nothing but the summary. */
function drawAll() {
  for (const id of ["summary", "views-links", "views-of-trials"]) byId(id).hidden = Boolean(views.waiting);
  if (views.waiting) return drawHead(head, views);
  drawSummary(views, head);
  const hasTrials = Boolean(views.objectives);
  byId("views-of-trials").hidden = !hasTrials;
  byId("views-links").hidden = !hasTrials;
  if (!hasTrials) return;
  state.speed ??= ownAxis(views);
  byId("front-speed").value = state.speed;
  byId("front-speed").querySelector("[value=seconds_to_accuracy]").hidden = !views.objectives.times_accuracy;
  state.axes = axesOf(views, state.knobsShown);
  drawPick(views, state);
  drawTable(views, state, sortBy, select);
  state.shown = new Set(filteredRows(views, state).map((row) => row.index));
  drawMarked();
  drawRegret(views, state, select);
  drawImportance(views);
  drawTimeline(views, state, select);
  drawFailures(views);
  drawSelected(views, state.selected === null ? null : views.rows[state.selected]);
}

/** Draws the figures that mark what is picked. */
function drawMarked() {
  drawFront(views, state, select);
  drawParallel(views, state, drawAll, select);
  drawCurves(views, state, select);
  drawSteps(views, state);
}

/** Picks at once, and draws the figures with the next frame: a slider that is dragged changes often. */
function pickAgain(touched) {
  state.touched = touched;
  drawPick(views, state);
  cancelAnimationFrame(state.frame);
  state.frame = requestAnimationFrame(drawMarked);
}

function sortBy(column) {
  state.sort = { column, down: state.sort.column === column ? !state.sort.down : column >= 2 };
  drawAll();
  byId("trial-table").querySelectorAll("thead button")[column].focus();
}

/** Binds an input to a field of the state. */
function bind(id, field, event = "change") {
  const input = byId(id);
  input.addEventListener(event, () => {
    state[field] = input.type === "checkbox" ? input.checked : input.value;
    drawAll();
  });
}

/** Follows the study at `prefix`: its head at every look, and its views and log if they have changed. */
function follow(prefix) {
  const look = async () => {
    const found = head && await ask(`${prefix}/head`); // a page without a head has its views alone
    const isNew = !found || found.trials !== head.trials || found.state !== head.state || views.waiting;
    const fresh = isNew && (!found || found.has_begun) ? await ask(`${prefix}/views`) : null;
    head = newHead(found, head);
    if (fresh) {
      views = fresh;
      if (views.objectives && !state.touched) resetPicker(views);
      drawAll();
    } else {
      drawHead(head, views);
    }
    if (head && head.events !== log.next) await readLog(prefix);
    return !head || head.active ? LOOK_S : ENDED_LOOK_S;
  };
  const eventsOf = () => (!head ? `${prefix}/events` : head.running ? `${prefix}/events?after=${head.events}` : null);
  if (head) startLog(prefix, views.waiting === true || head.state === "failed");
  keepLooking(look, 0, eventsOf);
}

function start() {
  if (views.objectives) resetPicker(views);
  listenToPicker(() => views, pickAgain);
  bind("front-speed", "speed");
  bind("curves-whole", "wholeCurves");
  bind("front-predicted", "predicted");
  bind("knobs-shown", "knobsShown");
  bind("regret-over", "regretOver");
  bind("trial-words-filter", "words", "input");
  bind("trial-kind", "kind");
  byId("clear-brushes").addEventListener("click", () => { state.brushes.clear(); state.hidden.clear(); drawAll(); });
  byId("clear-selection").addEventListener("click", () => { state.selected = null; drawAll(); });
  for (const details of document.querySelectorAll("section > details.view")) {
    details.addEventListener("toggle", () => { if (details.open) drawAll(); }); // closed, it has no width to draw in
    document.querySelector(`#views-links [href="#${details.parentNode.id}"]`).addEventListener("click", () => { details.open = true; });
  }
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (width !== window.innerWidth) { width = window.innerWidth; drawAll(); } });
  drawAll();
  const live = document.body.dataset.live;
  if (live) follow(live);
  document.body.dataset.ready = "true";
}

start();
window.a3gnn = { pick, views: () => views };
