// The settings in which the chosen runs differ.

const MOST_COMPARED = 8; // runs

function drawDifferences(panel) {
  const runs = chosenRuns(MOST_COMPARED);
  const settings = keysOfKind("setting").map((key) => columns.get(key));
  const differing = settings.filter((column) => new Set(runs.map(column.text)).size > 1);
  if (runs.length < 2 || !differing.length) {
    panel.replaceChildren(element("p", { class: "note" }, runs.length < 2 ? "Tick two runs in the table." : "These runs have the same settings."));
    return;
  }
  const metrics = keysOfKind("metric").map((key) => columns.get(key)).filter((column) => runs.some((run) => column.text(run) !== ""));
  const line = (column) => element("tr", {}, element("th", { scope: "row" }, column.title), runs.map((run) => element("td", { class: isNumber(column.value(run)) ? "number" : "" }, column.text(run))));
  const head = element("tr", {}, element("th"), runs.map((run) => element("th", {}, element("button", { class: "link", onclick: () => showDetails(run) }, nameOf(run)))));
  panel.replaceChildren(element("div", { class: "table-box" }, element("table", {},
    element("thead", {}, head),
    element("tbody", { class: "settings" }, differing.map(line)),
    element("tbody", { class: "metrics" }, metrics.slice(0, 8).map(line)))));
}
