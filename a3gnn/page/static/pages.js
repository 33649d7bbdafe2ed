// The pages of a server beside those of studies: live rows, choosing studies to compare, uploads, and predictions.

/** Milliseconds without a change of the form after which it is predicted. Guess. */
const CALM_MS = 600;

/** Shows times, which the server writes in UTC, as this browser's user writes them. */
function localTimes(root) {
  const form = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  for (const one of root.querySelectorAll("time[datetime]")) {
    one.title = one.dateTime;
    one.textContent = new Date(one.dateTime).toLocaleString(undefined, form);
  }
}

/** Returns the page in `text`, as this browser would show it. */
function parsed(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  localTimes(page);
  return page;
}

/** Makes `old` equal to `fresh` and keeps its elements: the focus, ticks and what was typed stay. */
function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const keyed = new Map([...old.children].filter((one) => one.dataset.key).map((one) => [one.dataset.key, one]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = child.dataset?.key;
    let same = key ? keyed.get(key) : at;
    if (same && (same.nodeName !== child.nodeName || (!key && same.dataset?.key))) same = null;
    if (!same) {
      old.insertBefore(child, at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else old.insertBefore(same, at);
    if (same.nodeType === Node.ELEMENT_NODE) morph(same, child);
    else if (same.data !== child.data) same.data = child.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Reads the page again every `data-live` seconds, and shows what has changed below `region`. */
function keepLive(region, onChange) {
  let tag = "";
  keepLooking(async () => {
    const text = await ask(location.href, { headers: { accept: "text/html", "if-none-match": tag } }, (answer) => {
      tag = answer.headers.get("etag") ?? "";
      return answer.text();
    });
    const fresh = text && parsed(text).getElementById(region.id);
    if (fresh) morph(region, fresh);
    onChange();
    return Number(region.dataset.live);
  }, Number(region.dataset.live));
}

/** Allows as many ticks as can be compared, and says how many there are. */
function countTicks(form) {
  const [least, most] = [Number(form.dataset.least), Number(form.dataset.most)];
  const words = form.querySelector("#picked");
  const first = words.textContent;
  const update = () => {
    const boxes = [...form.querySelectorAll("input[type=checkbox]")];
    const ticked = boxes.filter((one) => one.checked).length;
    for (const one of boxes) {
      one.disabled = !one.checked && ticked >= most;
      one.closest("tr").classList.toggle("ticked", one.checked);
    }
    const said = ticked === 0 ? first : `${ticked} of ${least} to ${most} chosen`;
    if (words.textContent !== said) words.textContent = said;
    form.querySelector("button").disabled = ticked < least;
  };
  form.addEventListener("change", update);
  update();
  return update;
}

/** Sends a chosen or dropped file, and chooses its graph in the form, or opens the graph's page. */
function takeUploads(zone) {
  const input = zone.querySelector("input");
  const [bar, words] = [zone.querySelector("progress"), zone.querySelector("[role=status]")];
  const end = (text) => {
    bar.hidden = true;
    input.disabled = false;
    input.value = "";
    words.textContent = text;
  };
  const send = (file) => {
    if (!file.name.endsWith(".npz")) return end(`${file.name} is no .npz file; numpy.savez writes one`);
    const request = new XMLHttpRequest();
    request.open("POST", `/graphs/upload?name=${encodeURIComponent(file.name.slice(0, -4).slice(0, 200))}`);
    request.setRequestHeader("Accept", "application/json");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => { bar.value = event.loaded / event.total; });
    request.upload.addEventListener("load", () => { bar.removeAttribute("value"); words.textContent = `${file.name} is checked and converted`; });
    request.addEventListener("error", () => end("The connection broke; send the file again"));
    request.addEventListener("load", () => {
      if (request.status !== 201) return end(request.response?.detail ?? `The server answered ${request.status}`);
      const graph = request.response;
      end(`${graph.name} is graph ${graph.id}`);
      const select = document.getElementById("graph");
      if (!select) { location.href = `/graphs/${graph.id}/page`; return; }
      let option = [...select.options].find((one) => one.value === String(graph.id));
      if (!option) select.add((option = new Option(graph.name, graph.id)));
      const { num_nodes, num_edges, num_features, num_classes } = graph.about;
      const shown = [[num_nodes, "nodes"], [num_edges, "edges"], [num_features, "features"], [num_classes, "classes"]];
      option.dataset.about ??= shown.map(([number, noun]) => `${number.toLocaleString("en")} ${noun}`).join(", ");
      select.value = option.value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
    });
    bar.hidden = false;
    bar.value = 0;
    input.disabled = true;
    words.textContent = `${file.name} is sent`;
    request.send(file);
  };
  input.addEventListener("change", () => { if (input.files[0]) send(input.files[0]); });
  for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", over);
      if (name === "drop" && event.dataTransfer.files[0] && !input.disabled) send(event.dataTransfer.files[0]);
    });
  }
}

/** Predicts what the form asks for, soon after each change. */
function predict(form) {
  const panel = document.getElementById("prediction");
  const [graph, dataset] = [form.elements.graph, form.elements.dataset];
  let timer = null;
  let asked = null;
  const run = async () => {
    asked?.abort();
    asked = new AbortController();
    panel.setAttribute("aria-busy", "true");
    try {
      const body = new URLSearchParams(new FormData(form));
      const options = { method: "POST", body, signal: asked.signal, headers: { accept: "text/html" } };
      const text = await ask("/start/prediction", options, (answer) => answer.text());
      morph(panel, parsed(text).getElementById("prediction"));
    } catch (error) {
      if (error.name === "AbortError") return; // a later one runs
      if (!(error instanceof NoNews)) throw error;
      const link = error.mayLogIn ? make("a", { href: "/login", target: "_blank" }, "Log in") : null;
      fill(panel, make("p", { role: "alert" }, `No prediction. ${error.message} `, link));
    }
    panel.removeAttribute("aria-busy");
  };
  const changed = () => {
    const about = document.getElementById("graph-about");
    const said = graph.selectedOptions[0]?.dataset.about ?? "";
    if (about.textContent !== said) about.textContent = said;
    clearTimeout(timer);
    // A dataset by name is examined first, which may take long: the button does that.
    if (graph.value && !dataset.value.trim()) timer = setTimeout(run, CALM_MS);
  };
  form.addEventListener("input", changed);
  form.addEventListener("change", changed);
  form.addEventListener("submit", (event) => {
    if (event.submitter?.id !== "predict") return;
    event.preventDefault();
    clearTimeout(timer);
    run();
  });
  changed();
}

localTimes(document);
for (const zone of document.querySelectorAll("[data-upload]")) takeUploads(zone);
const list = document.getElementById("compare");
const update = list && countTicks(list);
if (list) keepLive(list, update);
const start = document.getElementById("start");
if (start) predict(start);
document.getElementById("faults")?.focus();
