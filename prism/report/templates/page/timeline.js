// The timeline that one can move in: keys and wheel as in Perfetto, and the same by buttons.
function openTimeline(root, roll) {
  const canvas = root.querySelector("canvas"), told = root.querySelector("output");
  const query = root.querySelector("input[type=search]"), hits = root.querySelector(".hits");
  const view = new View(roll), marks = { path: false, found: null, chosen: -1 };
  let found = [], hit = -1, drag = null, frame = 0;

  const draw = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      view.width = canvas.clientWidth;
      paint(canvas, view, marks);
    });
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const row = view.row(y), time = view.time(x);
    if (x < GUTTER || y < AXIS || row < 0 || row >= roll.rows.length) return -1;
    const segment = firstAfter(roll, row, time - 2 / view.scale);
    return segment < roll.ptr[row + 1] && roll.start[segment] <= time + 2 / view.scale ? segment : -1;
  };
  const choose = (segment, move = false) => {
    marks.chosen = segment;
    const row = segment < 0 ? -1 : rowOfSegment(roll, segment);
    told.textContent = segment < 0 ? "" : segmentText(roll, row, segment);
    if (segment >= 0 && move) view.goTo(row, roll.start[segment], roll.end[segment]);
    draw();
  };
  const goToRank = (rank, time = view.from) => {
    const row = roll.rowOf[rank] ?? -1;
    if (row < 0) {
      told.textContent = `rank ${rank} is not shown here; timeline.pftrace has it`;
      return;
    }
    choose(Math.min(firstAfter(roll, row, time), roll.ptr[row + 1] - 1), true);
    canvas.focus();
  };
  const search = () => {
    const text = query.value.trim().toLowerCase(), rank = /^(?:rank\s*)?(\d+)$/.exec(text);
    found = [];
    marks.found = null;
    if (rank) goToRank(Number(rank[1]));
    else if (text) {
      const wanted = roll.labels.map((label) => label.toLowerCase().includes(text));
      for (let i = 0; i < roll.count; i++) if (wanted[roll.label[i]]) found.push(i);
      found.sort((a, b) => roll.start[a] - roll.start[b]);
      marks.found = (segment) => wanted[roll.label[segment]];
    }
    hit = -1;
    hits.textContent = !text || rank ? "" : found.length ? `${found.length.toLocaleString("en")} found` : "nothing found";
    draw();
  };
  const next = (by) => {
    if (!found.length) return;
    hit = (hit + by + found.length) % found.length;
    hits.textContent = `${(hit + 1).toLocaleString("en")} of ${found.length.toLocaleString("en")}`;
    choose(found[hit], true);
  };
  const follow = () => {
    const late = roll.late[marks.chosen] ?? -1;
    if (late >= 0) goToRank(late, roll.end[marks.chosen] - roll.quantum);  // what it did when the others had to wait
  };
  const beside = (by) => choose(Math.min(Math.max(marks.chosen + by, 0), roll.count - 1), true);

  const acts = {
    in: () => view.zoom(0.5), out: () => view.zoom(2), left: () => view.pan(-0.25), right: () => view.pan(0.25),
    all: () => view.reset(), next: () => next(1), previous: () => next(-1), path: () => {
      marks.path = !marks.path;
      root.querySelector("[data-act=path]").setAttribute("aria-pressed", marks.path);
    },
  };
  const keys = {
    w: acts.in, s: acts.out, a: acts.left, d: acts.right, "+": acts.in, "-": acts.out, Home: acts.all,
    ArrowUp: () => view.scroll(-3 * view.pitch), ArrowDown: () => view.scroll(3 * view.pitch), ArrowLeft: acts.left,
    ArrowRight: acts.right, ".": () => beside(1), ",": () => beside(-1), Enter: follow, Escape: () => choose(-1),
    p: acts.path, "/": () => query.focus(),
  };

  root.addEventListener("click", (event) => {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (act) { acts[act](); draw(); }
  });
  canvas.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (act) { event.preventDefault(); act(); draw(); }
  });
  canvas.addEventListener("wheel", (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(event.deltaY / 300), view.time(event.clientX - box.left));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) / view.width);
    else if (!view.scroll(event.deltaY)) return;
    event.preventDefault();
    draw();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from: view.from, top: view.top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      const segment = at(event);
      canvas.title = segment < 0 ? "" : segmentText(roll, rowOfSegment(roll, segment), segment);
      return;
    }
    drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
    if (!drag.moved) return;
    const span = view.to - view.from, by = (event.clientX - drag.x) / view.scale;
    view.show(drag.from - by, drag.from - by + span);
    view.top = drag.top;
    view.scroll(drag.y - event.clientY);
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) choose(at(event));
    drag = null;
  });
  canvas.addEventListener("dblclick", (event) => {
    view.zoom(0.25, view.time(event.clientX - canvas.getBoundingClientRect().left));
    draw();
  });
  query.addEventListener("input", search);
  query.addEventListener("keydown", (event) => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-rank]");
    if (link) goToRank(Number(link.dataset.rank));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas);
  root.hidden = false;
  document.querySelector(".still")?.remove();
  draw();
}
