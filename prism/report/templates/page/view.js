// Which part of the timeline is seen: a span of time across, rows down. All of it in ns and CSS px.
let GUTTER = 168;  // px for the names of the rows
const AXIS = 26, LEAST_PITCH = 4, MOST_PITCH = 22, MOST_HEIGHT = 620;

class View {
  constructor(roll) {
    this.roll = roll;
    GUTTER = Math.min(168, Math.max(64, 26 + 6.4 * Math.max(...roll.rows.map((name) => name.length))));
    this.pitch = Math.max(LEAST_PITCH, Math.min(MOST_PITCH, Math.floor((MOST_HEIGHT - AXIS) / roll.rows.length)));
    this.height = Math.min(MOST_HEIGHT, AXIS + roll.rows.length * this.pitch + 2);
    this.width = 1000;
    this.reset();
  }

  reset() {
    this.from = 0;
    this.to = this.roll.span;
    this.top = 0;
  }

  get scale() { return (this.width - GUTTER) / (this.to - this.from); }
  get rowsSeen() { return (this.height - AXIS) / this.pitch; }
  get overflow() { return Math.max(0, this.roll.rows.length * this.pitch - (this.height - AXIS)); }

  x(time) { return GUTTER + (time - this.from) * this.scale; }
  y(row) { return AXIS + row * this.pitch - this.top; }
  time(x) { return this.from + (x - GUTTER) / this.scale; }
  row(y) { return Math.floor((y - AXIS + this.top) / this.pitch); }

  // Keep `time` where it is, and see `factor` times as much around it.
  zoom(factor, time = (this.from + this.to) / 2) {
    const least = Math.max(20 * this.roll.quantum, this.roll.span / 1e7);
    const span = Math.min(this.roll.span, Math.max(least, (this.to - this.from) * factor));
    const part = (time - this.from) / (this.to - this.from);
    this.show(time - part * span, time + (1 - part) * span);
  }

  // `share` of what is seen to the right.
  pan(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  scroll(px) {
    const before = this.top;
    this.top = Math.min(this.overflow, Math.max(0, this.top + px));
    return this.top !== before;
  }

  show(from, to) {
    const span = Math.min(to - from, this.roll.span);
    this.from = Math.min(Math.max(0, from), this.roll.span - span);
    this.to = this.from + span;
  }

  // Bring a segment into sight, with some of what is around it.
  goTo(row, start, end) {
    const around = Math.max(end - start, (this.to - this.from) / 40) * 4;
    if (start < this.from || end > this.to || (end - start) * this.scale < 6) {
      this.show((start + end) / 2 - around, (start + end) / 2 + around);
    }
    const y = row * this.pitch;
    if (y < this.top || y + this.pitch > this.top + this.height - AXIS) {
      this.top = 0;
      this.scroll(y - (this.height - AXIS) / 2);
    }
  }
}
