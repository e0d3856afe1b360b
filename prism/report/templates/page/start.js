const course = document.getElementById("course"), told = document.getElementById("course-told");
if (course) chooseCourses(course, document.getElementById("memory-table"), told);
document.querySelectorAll("table").forEach(sortable);
const header = document.getElementById("roll-header");
if (header && "DecompressionStream" in window) {
  loadRoll(JSON.parse(header.textContent), document.getElementById("roll-columns").textContent)
    .then((roll) => openTimeline(document.getElementById("roll"), roll));
}
