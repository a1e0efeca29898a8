// Sort a table by the column whose heading is pressed; words from a to z, numbers from the least.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
      rows.sort(([a], [b]) => (up ? 1 : -1) * compare(a, b));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

function compare(a, b) {
  const [x, y] = [a, b].map((text) => parseFloat(text.replaceAll(",", "")));
  if (Number.isNaN(x) || Number.isNaN(y)) return a.localeCompare(b, "en", { numeric: true });
  return x - y;
}
