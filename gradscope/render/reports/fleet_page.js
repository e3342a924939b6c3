"use strict";
// Says what a cell of a map holds, and by which command its step is seen.
const cells = JSON.parse(document.getElementById("cells").textContent);
const chosen = document.getElementById("chosen");

function choose(rect) {
  document.querySelectorAll("rect.chosen").forEach((each) => each.classList.remove("chosen"));
  rect.classList.add("chosen");
  rect.scrollIntoView({ block: "nearest", inline: "nearest" });
  const cell = cells[Number(rect.dataset.cell)];
  const value = Number(cell.value.toPrecision(5));
  chosen.textContent = `run ${cell.run}, rank ${cell.rank}, step ${cell.step}: ${value}. `;
  if (cell.next) {
    const code = document.createElement("code");
    code.textContent = cell.next;
    chosen.append(code);
  }
}

function at(map, row, column) {
  return map.querySelector(`rect[data-row="${row}"][data-column="${column}"]`);
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

for (const map of document.querySelectorAll(".map")) {
  const named = map.querySelector("rect.named");
  if (named) map.scrollLeft = named.x.baseVal.value - map.clientWidth / 2; // a narrow window shows a part
  map.addEventListener("click", (event) => {
    if (event.target instanceof SVGRectElement) choose(event.target);
  });
  map.addEventListener("keydown", (event) => {
    const by = STEPS[event.key];
    if (!by) return;
    event.preventDefault();
    const now = map.querySelector("rect.chosen");
    const next = now
      ? at(map, Number(now.dataset.row) + by[0], Number(now.dataset.column) + by[1])
      : map.querySelector("rect.named") || map.querySelector("rect");
    if (next) choose(next);
  });
}
