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
    y: { title: `validation ${metric.label} (${metric.unit})`, reversed: !metric.larger, share: unit === "%" },
    series, rules,
  });
}

function showTraining(view) {
  drawTrainingHead(view.head);
  drawCurve(view);
}

let view = JSON.parse(byId("view").textContent);
const prefix = byId("actions").getAttribute("action").replace(/\/page$/, "");

showTraining(view);
keepLooking(async () => {
  const found = await ask(`${prefix}/view`);
  view = { ...found, head: newHead(found.head, view.head) };
  showTraining(view);
  return view.head.active ? LOOK_S : ENDED_LOOK_S;
}, LOOK_S, () => (view.head.active ? `${prefix}/events?after=${view.head.events}` : null));
document.body.dataset.ready = "true";
