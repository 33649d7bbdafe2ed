// The log of a study on a server: its output so far, and each new line.

/** Lines that the page keeps; a study prints a few hundred. Guess. */
const MOST_LINES = 2000;
const log = { next: 0 };

/** Reads the lines since the last look, and shows them; the view follows the end unless somebody scrolled up. */
async function readLog(prefix) {
  for (let more = true; more;) {
    const found = await ask(`${prefix}/log?after=${log.next}`);
    if (found.next < log.next) byId("log-lines").replaceChildren();
    log.next = found.next;
    more = found.more;
    showLines(found.lines);
  }
}

function showLines(lines) {
  const box = byId("log-lines");
  const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  for (const { time, text } of lines) {
    const at = time ? new Date(1000 * time) : null;
    const clock = at ? make("time", { datetime: at.toISOString() }, at.toLocaleTimeString("en-GB")) : null;
    box.append(make("div", {}, clock, text));
  }
  while (box.children.length > MOST_LINES) box.firstChild.remove();
  if (follows) box.scrollTop = box.scrollHeight;
  byId("log-count").textContent = box.children.length ? `(${countOf(box.children.length, "line")})` : "";
  byId("log-empty").hidden = box.children.length > 0;
}

/** Shows the log of the study at `prefix`; it is open while there is nothing else to look at. */
function startLog(prefix, isOpen) {
  byId("log").hidden = false;
  byId("log-details").open = isOpen;
  byId("log-details").addEventListener("toggle", () => { byId("log-lines").scrollTop = byId("log-lines").scrollHeight; });
}
