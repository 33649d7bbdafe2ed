// The page of a training: its head, its figures and its learning curve, as the server has them now.

function drawTrainingHead(head) {
  say("status", head.status);
  byId("status").dataset.state = head.state;
  say("line", head.line);
  for (const id of ["actions", "alert", "figures"]) place(id, head[id]);
}

/** Draws the curve beside the study's, with the target and the seconds promised to it. */
function drawCurve(view) {
  const { metric, target } = view;
  const unit = metric.unit === "%" ? "%" : "";
  const points = (curve, name) => curve.map(([x, y]) => ({
    x, y, text: [name, `${digits(y, 4)}${unit} after ${digits(x)} s`],
  }));
  const series = [
    { name: "this training", points: points(view.curve, "this training"), line: { color: "line-1", width: 2 },
      mark: view.curve.length > 60 ? null : { shape: "circle", size: 3, color: "line-1", fill: "var(--line-1)" } },
    { name: "the study's trial", points: points(view.promised, "the study's trial"), line: { color: "line-0", width: 1.5, dash: "dash" }, mark: null },
  ].filter((one) => one.points.length);
  const rules = target === null ? [] : [
    { name: `target ${target.shown}`, y: target.value, color: "line-2", dash: "dash", within: true },
    ...(target.promised_s ? [{ name: `promised ${digits(target.promised_s[0])} s`, x: target.promised_s[0], color: "line-3", dash: "dot", within: true }] : []),
    ...(target.reached_s ? [{ name: `reached ${digits(target.reached_s)} s`, x: target.reached_s, color: "part-5", within: true }] : []),
  ];
  draw("curve-figure", {
    x: { title: "seconds of training", zero: true },
    y: { title: `validation ${metric.label} (${metric.unit})`, reversed: !metric.larger },
    series, rules,
  });
}

function showTraining(view) {
  drawTrainingHead(view.head);
  drawCurve(view);
}

/** Follows the training: its events say when to look again. */
function followTraining(prefix, view) {
  let source = null, timer = null;
  const later = (seconds) => { clearTimeout(timer); timer = setTimeout(look, 1000 * seconds); };
  const look = async () => {
    try {
      const answer = await fetch(`${prefix}/view`, { headers: { accept: "application/json" } });
      if (answer.ok) {
        view = await answer.json();
        showTraining(view);
      }
    } catch (error) {
      // The server is away, or was while it answered: the next look reads.
      if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    }
    listen();
    later(view.head.active ? LOOK_S : ENDED_LOOK_S);
  };
  const listen = () => {
    if (!view.head.active) { source?.close(); source = null; }
    if (source || !view.head.active) return;
    source = new EventSource(`${prefix}/events?after=${view.head.events}`);
    for (const kind of ["line", "status"]) source.addEventListener(kind, () => later(0.2));
    source.addEventListener("error", () => { if (source?.readyState === EventSource.CLOSED) source = null; });
  };
  listen();
  later(view.head.active ? LOOK_S : ENDED_LOOK_S);
}

const firstView = JSON.parse(byId("view").textContent);
showTraining(firstView);
followTraining(byId("actions").getAttribute("action").replace(/\/page$/, ""), firstView);
document.body.dataset.ready = "true";
