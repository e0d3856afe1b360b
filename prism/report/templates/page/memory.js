// Choosing whose memory is drawn: the ranks of the table become buttons.
function chooseCourses(chart, table, told) {
  document.querySelectorAll(".needs-script").forEach((note) => { note.hidden = false; });
  table.querySelectorAll("th[data-course]").forEach((head) => {
    const course = chart.querySelector(`[data-row="${head.dataset.course}"]`);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "choice";
    button.append(...head.childNodes);
    button.setAttribute("aria-pressed", !course.classList.contains("off"));
    head.append(button);
    button.addEventListener("click", () => {
      const off = course.classList.toggle("off");
      button.setAttribute("aria-pressed", !off);
      const shown = [...chart.querySelectorAll(".course:not(.off)")].map((one) => one.dataset.told);
      told.textContent = shown.length > 4 ? `${shown.length} lines` : shown.join("; ") || "no rank is chosen";
      chart.setAttribute("aria-label", `Memory over time; ${told.textContent}`);
    });
  });
}
