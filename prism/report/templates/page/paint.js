// Drawing what a view shows onto a canvas, in the colours of the page.
function paint(canvas, view, marks) {
  const { roll } = view, ratio = window.devicePixelRatio || 1;
  const style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(`--${name}`);
  canvas.width = Math.round(view.width * ratio);
  canvas.height = Math.round(view.height * ratio);
  canvas.style.height = `${view.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, view.width, view.height);
  pen.font = "11px system-ui, sans-serif";
  const colours = ["compute", "comm", "wait"].map(colour);
  const low = Math.max(0, view.row(AXIS)), high = Math.min(roll.rows.length, Math.ceil(low + view.rowsSeen + 1));
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, view.width - GUTTER, view.height - AXIS);
  pen.clip();
  for (let row = low; row < high; row++) paintRow(pen, view, row, colours, marks);
  paintPath(pen, view, colour("bad"), marks);
  paintIterations(pen, view, colour("text"));
  pen.restore();
  paintNames(pen, view, low, high, colour("text"));
  paintAxis(pen, view, colour("quiet"), colour("line"));
}

// Segments narrower than a pixel are drawn as the longest of those that share it.
function paintRow(pen, view, row, colours, marks) {
  const { roll } = view, y = view.y(row), tall = Math.max(1, view.pitch - (view.pitch > 6 ? 2 : 1));
  const last = roll.ptr[row + 1], pixel = 1 / view.scale;
  let i = firstAfter(roll, row, view.from);
  while (i < last && roll.start[i] < view.to) {
    let best = i, until = roll.end[i];
    if (until - roll.start[i] < pixel) {
      until = roll.start[i] + pixel;
      const next = Math.max(i + 1, firstAfter(roll, row, until));
      for (let j = i + 1; j < Math.min(next, i + 64); j++) {
        if (roll.end[j] - roll.start[j] > roll.end[best] - roll.start[best]) best = j;
      }
      i = next - 1;
    }
    pen.globalAlpha = marks.found && !marks.found(best) ? 0.18 : 1;
    pen.fillStyle = colours[roll.state[best]];
    const x = Math.max(view.x(roll.start[best]), GUTTER - 1);
    pen.fillRect(x, y, Math.max(1, view.x(Math.max(until, roll.end[best])) - x - (until - roll.start[best] > 4 * pixel ? 0.5 : 0)), tall);
    i++;
  }
  pen.globalAlpha = 1;
  const chosen = marks.chosen;
  if (chosen >= roll.ptr[row] && chosen < last) {
    pen.strokeStyle = getComputedStyle(pen.canvas).getPropertyValue("--text");
    pen.lineWidth = 2;
    const x = view.x(roll.start[chosen]);
    pen.strokeRect(x, y - 1, Math.max(3, view.x(roll.end[chosen]) - x), tall + 2);
  }
}

function paintPath(pen, view, colour, marks) {
  if (!marks.path) return;
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.beginPath();
  view.roll.path.forEach(([row, start, end], step) => {
    const y = view.y(row) + view.pitch / 2;
    if (step) pen.lineTo(view.x(start), y); else pen.moveTo(view.x(start), y);
    pen.lineTo(view.x(end), y);
  });
  pen.stroke();
}

function paintIterations(pen, view, colour) {
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.5;
  pen.lineWidth = 1;
  for (const at of view.roll.iterations.slice(1, -1)) {
    pen.beginPath();
    pen.moveTo(view.x(at), AXIS);
    pen.lineTo(view.x(at), view.height);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function paintNames(pen, view, low, high, colour) {
  pen.fillStyle = colour;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(13 / view.pitch));
  for (let row = Math.ceil(low / every) * every; row < high; row += every) {
    const y = view.y(row) + view.pitch / 2;
    if (y > AXIS) pen.fillText(view.roll.rows[row], GUTTER - 10, y, GUTTER - 12);
  }
}

function paintAxis(pen, view, colour, line) {
  const target = (view.to - view.from) * 110 / (view.width - GUTTER), power = 10 ** Math.floor(Math.log10(target));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= target);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const digits = Math.max(0, Math.ceil(-Math.log10(step / (UNITS.find(([s]) => view.to >= s) ?? UNITS[3])[0])));
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    pen.fillStyle = line;
    pen.fillRect(view.x(at), AXIS - 5, 1, 5);
    pen.fillStyle = colour;
    const scale = (UNITS.find(([s]) => view.to >= s) ?? UNITS[3]);
    pen.fillText(`${(at / scale[0]).toFixed(digits)} ${scale[1]}`, Math.min(Math.max(view.x(at), GUTTER + 20), view.width - 28), 10);
  }
}
