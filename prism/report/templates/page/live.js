// Asks for the state of the run, and draws a column for each moment, a row for each rank.
const LETTERS = { r: ["running", "compute"], b: ["blocked on others", "comm"], w: ["in line for a slot", "wait"], n: ["not begun", "line"], e: ["ended", "page"] };
const seen = (id) => document.getElementById(id);

function drawStrip(canvas, history) {
  const columns = Math.max(history.moments.length, 200), rows = history.ranks.length, style = getComputedStyle(canvas);
  const tall = Math.max(2, Math.min(16, Math.floor(480 / Math.max(1, rows))));
  canvas.width = canvas.clientWidth || 1000;
  canvas.height = rows * tall;
  const pen = canvas.getContext("2d"), wide = canvas.width / columns;
  const colours = Object.fromEntries(Object.entries(LETTERS).map(([letter, [, name]]) => [letter, style.getPropertyValue(`--${name}`)]));
  history.moments.forEach((states, column) => {
    for (let row = 0; row < states.length; row++) {
      pen.fillStyle = colours[states[row]];
      pen.fillRect(column * wide, row * tall, Math.ceil(wide), tall > 3 ? tall - 1 : tall);
    }
  });
}

function told(now, counts) {
  const [low, high] = now.iterations;
  return Object.entries(LETTERS).filter(([letter]) => counts[letter]).map(([letter, [name]]) => `${counts[letter]} ${name}`).join(", ")
    + `; iteration ${low}` + (high > low ? ` to ${high}` : "")
    + (now.switches_per_s >= 1 ? `; ${now.switches_per_s.toFixed(0)} switches/s` : "")
    + (now.memory ? `; ranks hold ${(now.memory / 2 ** 30).toFixed(1)} GiB` : "")
    + (now.host[1] ? `; ${(now.host[0] / 2 ** 30).toFixed(1)} of ${(now.host[1] / 2 ** 30).toFixed(0)} GiB of host memory taken` : "")
    + (now.parts > 1 ? `; slice ${now.part + 1} of ${now.parts}` : "");
}

function show(history) {
  const { now } = history, counts = {};
  seen("scenario").textContent = history.scenario;
  seen("ended").replaceChildren(...history.ended.map(([stage, status, seconds]) => {
    const item = document.createElement("li");
    item.textContent = `${stage} ${status}, ${seconds.toFixed(1)} s`;
    return item;
  }));
  seen("said").replaceChildren(...history.said.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  if (!now) return;
  for (const letter of now.states) counts[letter] = (counts[letter] ?? 0) + 1;
  seen("stage").textContent = `${now.stage}, ${now.elapsed_s.toFixed(0)} s` + (now.eta_s === null ? "" : `, about ${now.eta_s.toFixed(0)} s left`);
  seen("text").textContent = now.states ? told(now, counts) : "";
  if (now.share) seen("share").value = now.share; else seen("share").removeAttribute("value");  // it moves to and fro
  const ranks = history.ranks;
  seen("rows").textContent = ranks.length > 1 ? `Rank ${ranks[0]} on top, rank ${ranks.at(-1)} at the bottom; time goes to the right.` : "";
  drawStrip(seen("strip"), history);
}

seen("key").replaceChildren(...Object.values(LETTERS).map(([name, colour]) => {
  const item = document.createElement("span"), patch = document.createElement("i");
  patch.style.cssText = `display:inline-block;width:11px;height:11px;margin-right:7px;background:var(--${colour});border:1px solid var(--line)`;
  item.append(patch, name);
  return item;
}));
(async function follow() {
  for (;;) {
    try {
      show(await (await fetch(`now${location.search}`)).json());
    } catch {
      seen("stage").textContent = "the run is over: its command has written where the report is";
      seen("text").textContent = "";
      seen("share").value = 1;
      return;
    }
    await new Promise((done) => setTimeout(done, 500));
  }
})();
