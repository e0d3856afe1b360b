// Tables that sort by any column whose heading is clicked; the numbers to sort by stand in data-value.
function sortable(table) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2 || [...body.rows].some((row) => row.cells.length !== table.tHead.rows[0].cells.length)) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => {
        const cell = row.cells[column], number = Number(cell.dataset.value ?? cell.textContent);
        return Number.isNaN(number) ? cell.textContent : number;
      };
      const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * order(value(a), value(b))));
    });
  });
}
