// The connection to the server: looks for news while the page is visible, and says in a banner why there are none.

/** Seconds between two looks at what runs, and at what has ended, which somebody may continue. Guesses. */
const LOOK_S = 2, ENDED_LOOK_S = 10;
/** Seconds after which the banner says that the server is slow, after which a request ends, and most between two tries. Guesses. */
const SLOW_S = 5, ANSWER_S = 30;
/** Browsers allow six connections to a host over HTTP/1.1: of all its pages, the one with this lock has an event stream. */
const STREAM_LOCK = "a3gnn-events";

/** The server gave no answer that a page can show. */
class NoNews extends Error {
  constructor(words, mayLogIn = false) {
    super(words);
    this.mayLogIn = mayLogIn;
  }
}

/** Returns the JSON, or what `read` returns of the answer, at `path`; null if it has not changed. Throws `NoNews`. */
async function ask(path, options = {}, read = (answer) => answer.json()) {
  let answer;
  try {
    answer = await fetch(path, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(1000 * ANSWER_S), ...options });
    if (answer.ok && !answer.redirected) return await read(answer);
  } catch (error) {
    if (error.name === "AbortError") throw error; // the caller has asked anew
    throw new NoNews("The server does not answer.");
  }
  if (answer.status === 304) return null;
  if (answer.status === 401 || answer.redirected) throw new NoNews("Your session has ended.", true);
  if (answer.status === 404) throw new NoNews("The server no longer has what this page shows. It may be in the trash.");
  throw new NoNews(`The server answers with the error ${answer.status}.`);
}

/** Shows above the page that it is old, why, and the seconds until the next try; null removes that. */
function showBanner(problem, latest, left_s, retry) {
  document.body.toggleAttribute("data-stale", problem !== null);
  let banner = document.getElementById("connection");
  if (!problem) return banner?.remove();
  if (!banner) {
    banner = make("div", { id: "connection" }, make("span", { role: "alert" }), make("a", {}, "Log in"), make("span", { class: "pale" }), make("button", { type: "button" }, "Try now"));
    document.body.prepend(banner);
  }
  const [words, link, wait, button] = banner.children;
  const said = `${problem.message} This page shows the state of ${latest.toLocaleTimeString("en-GB")}.`;
  if (words.textContent !== said) words.textContent = said;
  link.hidden = !problem.mayLogIn;
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`;
  wait.textContent = left_s > 0 ? `Trying again in ${left_s} s.` : "Waiting for an answer.";
  button.onclick = retry;
  button.disabled = left_s <= 0;
}

/** Listens to the events at `pathOf()` as soon as no other page of this browser does. Aborting the result ends it. */
function listen(pathOf, onEvent) {
  const end = new AbortController();
  const held = () => new Promise((release) => {
    const source = new EventSource(pathOf());
    for (const kind of ["line", "trial", "phase", "status"]) source.addEventListener(kind, onEvent);
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) end.abort(); });
    end.signal.addEventListener("abort", () => { source.close(); release(); });
  });
  // Without locks (plain HTTP to another machine) the page only looks. The request rejects if it still waits at its end.
  navigator.locks?.request(STREAM_LOCK, { signal: end.signal }, held).catch(() => {});
  return end;
}

/**
 * Calls `look` every few seconds while the page is visible, and soon after an event.
 *
 * @param look Shows what `ask` returns; returns the seconds until the next look.
 * @param firstS Seconds until the first look.
 * @param eventsOf Returns the path of the events to listen to; null if none will come.
 */
function keepLooking(look, firstS = LOOK_S, eventsOf = () => null) {
  let timer = null, due = Infinity, looking = false, stream = null, failures = 0, latest = new Date();
  const listenIf = (path) => {
    if (!path || document.hidden) { stream?.abort(); stream = null; }
    else if (!stream || stream.signal.aborted) stream = listen(eventsOf, () => soon(0.2));
  };
  const soon = (seconds) => {
    due = Math.min(due, Date.now() + 1000 * seconds);
    clearTimeout(timer);
    if (!looking && !document.hidden) timer = setTimeout(run, Math.max(0, due - Date.now()));
  };
  const complain = (problem) => {
    const left_s = looking ? 0 : Math.ceil((due - Date.now()) / 1000);
    showBanner(problem, latest, left_s, () => soon(0));
  };
  let ticking = null;
  const run = async () => {
    looking = true;
    due = Infinity;
    let next = LOOK_S, problem = null;
    const slow = setTimeout(() => complain(new NoNews("The server takes long to answer.")), 1000 * SLOW_S);
    try {
      next = await look();
      [latest, failures] = [new Date(), 0];
    } catch (error) {
      if (!(error instanceof NoNews)) throw error;
      [problem, next] = [error, Math.min(LOOK_S * 2 ** failures++, ANSWER_S)];
    } finally {
      clearTimeout(slow);
      clearInterval(ticking);
      looking = false;
      soon(next);
      listenIf(problem ? null : eventsOf());
      complain(problem);
      if (problem) ticking = setInterval(complain, 1000, problem);
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { clearTimeout(timer); listenIf(null); }
    else soon(0);
  });
  listenIf(eventsOf());
  soon(firstS);
}
