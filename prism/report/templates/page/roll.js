// The columns of the timeline, as prism.report.roll packs them.
async function loadRoll(header, text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(plain).arrayBuffer();
  const view = new DataView(bytes);
  const rows = header.rows.length;
  const count = view.getUint32(4 * rows, true);
  let at = 0;
  const column = (Kind, length) => {
    const part = new Kind(bytes.slice(at, at + length * Kind.BYTES_PER_ELEMENT));
    at += length * Kind.BYTES_PER_ELEMENT;
    return part;
  };
  const ptr = column(Uint32Array, rows + 1);
  const gap = column(Uint32Array, count), length = column(Uint32Array, count);
  const state = column(Uint8Array, count), label = column(Uint16Array, count), late = column(Int32Array, count);
  const start = new Float64Array(count), end = new Float64Array(count);
  for (let row = 0; row < rows; row++) {
    let now = 0;
    for (let i = ptr[row]; i < ptr[row + 1]; i++) {
      start[i] = (now += gap[i]) * header.quantum;
      end[i] = (now += length[i]) * header.quantum;
    }
  }
  return { ...header, ptr, start, end, state, label, late, count };
}

// The first segment of a row that ends after a time.
function firstAfter(roll, row, time) {
  let low = roll.ptr[row], high = roll.ptr[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (roll.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

function rowOfSegment(roll, segment) {
  let low = 0, high = roll.rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (roll.ptr[middle + 1] > segment) high = middle; else low = middle + 1;
  }
  return low;
}

const STATES = ["compute", "communication", "wait for peers"];
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function timeText(ns, digits = 2) {
  const [scale, name] = UNITS.find(([scale]) => Math.abs(ns) >= scale) ?? UNITS[3];
  return `${(ns / scale).toFixed(scale === 1 ? 0 : digits)} ${name}`;
}

function segmentText(roll, row, segment) {
  const took = timeText(roll.end[segment] - roll.start[segment]);
  const what = roll.labels[roll.label[segment]];
  const late = roll.late[segment];
  const because = late >= 0 ? `; rank ${late} posted last` : "";
  return `${roll.rows[row]}: ${STATES[roll.state[segment]]}, ${took}, from ${timeText(roll.start[segment])}`
    + (what ? `, ${what}` : "") + because;
}
