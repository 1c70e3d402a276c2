// What the runs that are shown took: failed ones count, too.

const HOUR_S = 3600;
const KWH_J = 3.6e6;
const GROUPINGS = {
  trial: (run) => report.rows.trial[run],
  person: (run) => report.rows.who[run] ?? "?",
  month: (run) => (report.rows.created[run] ?? "?").slice(0, 7),
};

function drawCost(panel) {
  const tables = Object.entries(GROUPINGS).map(([name, groupOf]) => {
    const groups = [...Map.groupBy(shownRuns, groupOf)].map(([group, runs]) => [group, totalOf(runs)]);
    if (name === "month") groups.sort((one, other) => (one[0] < other[0] ? 1 : -1));
    else groups.sort((one, other) => other[1].gpuHours - one[1].gpuHours || other[1].hours - one[1].hours);
    return costTable(name, groups);
  });
  const nUnmeasured = shownRuns.filter((run) => report.rows.gpu_seconds[run] && report.rows.energy_j[run] === null).length;
  const note = nUnmeasured ? `kWh leaves out ${nUnmeasured} runs whose GPUs do not report their energy.` : "";
  panel.replaceChildren(element("div", { class: "side-by-side" }, tables), element("p", { class: "note" }, note));
}

function totalOf(runs) {
  const sum = (values) => runs.reduce((total, run) => total + Math.max(0, values[run] ?? 0), 0);
  const { seconds, gpu_seconds, energy_j } = report.rows;
  return { n: runs.length, hours: sum(seconds) / HOUR_S, gpuHours: sum(gpu_seconds) / HOUR_S, kwh: sum(energy_j) / KWH_J };
}

function costTable(name, groups) {
  const line = ([group, total], kind) => element("tr", { class: kind },
    element("td", {}, group),
    [String(total.n), total.hours.toFixed(2), total.gpuHours.toFixed(2), total.kwh.toFixed(3)].map((text) => element("td", { class: "number" }, text)));
  return element("div", { class: "table-box" }, element("table", { class: "cost" },
    element("thead", {}, element("tr", {}, [`by ${name}`, "runs", "hours", "GPU-hours", "kWh"].map((text) => element("th", {}, text)))),
    element("tbody", {}, groups.map((group) => line(group, null))),
    element("tfoot", {}, line(["all", totalOf(shownRuns)], "total"))));
}
