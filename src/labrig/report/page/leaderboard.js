// The best finished run of each person on a metric.

function drawLeaderboard(panel) {
  const metric = bestMetric();
  if (!metric) {
    panel.replaceChildren(element("p", { class: "note" }, notRanked() || "No run has a metric yet."));
    return;
  }
  const finished = shownRuns.filter((run) => COUNT.includes(report.rows.status[run]));
  const people = [...Map.groupBy(finished, (run) => report.rows.who[run] ?? "?")];
  const lines = people.map(([who, runs]) => ({ who, n: runs.length, best: bestOf(runs, metric), total: totalOf(runs) })).filter(({ best }) => best !== null);
  const sign = metric.mode === "min" ? 1 : -1;
  lines.sort((one, other) => sign * (metric.values[one.best] - metric.values[other.best]));
  const head = ["", "who", metric.name, "run", "trial", "project", "created", "finished runs", "GPU-hours"];
  panel.replaceChildren(bestControls(metric), element("div", { class: "table-box" }, element("table", { class: "leaderboard" },
    element("thead", {}, element("tr", {}, head.map((text) => element("th", {}, text)))),
    element("tbody", {}, lines.map((line, place) => leaderLine(line, place, metric))))));
}

function leaderLine({ who, n, best, total }, place, metric) {
  const run = element("button", { class: "link", onclick: () => showDetails(best) }, report.rows.run_id[best]);
  const texts = [report.rows.trial[best], report.rows.project[best], columns.get("created").text(best)];
  return element("tr", {},
    element("td", { class: "number" }, String(place + 1)),
    element("td", {}, who),
    element("td", { class: "number" }, format(metric.values[best])),
    element("td", {}, run),
    texts.map((text) => element("td", {}, text)),
    element("td", { class: "number" }, String(n)),
    element("td", { class: "number" }, total.gpuHours.toFixed(2)));
}
