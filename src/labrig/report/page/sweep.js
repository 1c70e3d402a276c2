// Sweeps: parallel coordinates, and a scatter of any two columns, of the runs of one trial or of all.

let sweepRuns = []; // those that are drawn

/** The trial whose runs have most different settings. */
function sweptTrial() {
  const settings = report.interesting.filter((key) => columns.has(key) && !/(^|\.)(seed|fold)$/.test(key));
  const points = (runs) => new Set(runs.map((run) => settings.map((key) => columns.get(key).text(run)).join("|"))).size;
  const trials = [...Map.groupBy(shownRuns, (run) => report.rows.trial[run])];
  return trials.reduce((best, [trial, runs]) => (points(runs) > best[1] ? [trial, points(runs)] : best), ["", 0])[0];
}

function drawSweep(panel) {
  const trials = [...new Set(shownRuns.map((run) => report.rows.trial[run]))];
  const trial = state.sweepTrial === "" || trials.includes(state.sweepTrial) ? state.sweepTrial : sweptTrial();
  sweepRuns = shownRuns.filter((run) => trial === "" || report.rows.trial[run] === trial);
  const keys = numericKeys(sweepRuns);
  const metrics = keysOfKind("metric").filter((key) => keys.includes(key));
  if (!metrics.length) {
    panel.replaceChildren(element("p", { class: "note" }, "No run that is shown has a metric."));
    return;
  }
  const y = keys.includes(state.scatterY) ? state.scatterY : metrics[0];
  const settings = report.interesting.filter((key) => keys.includes(key) && !/(^|\.)seed$/.test(key));
  const x = keys.includes(state.scatterX) ? state.scatterX : settings[0] ?? "hours";
  const colour = columns.get(state.colour);
  const isLog = (chosen, key) => chosen ?? spansDecades(sweepRuns.map(columns.get(key).value).filter(isNumber));
  const logX = isLog(state.scatterLogX, x);
  const logY = isLog(state.scatterLogY, y);
  const controls = element("div", { class: "controls" },
    chooser("trial", [["", "all"], ...trials.map((each) => [each, each])], trial, (sweepTrial) => choose({ sweepTrial })),
    chooser("metric", metrics.includes(y) ? metrics : [y, ...metrics], y, (scatterY) => choose({ scatterY })),
    chooser("by", keys, x, (scatterX) => choose({ scatterX })),
    chooser("colour", [["", "none"], ...[...columns.keys()].map((key) => [key, key])], colour?.key ?? "", (key) => choose({ colour: key })),
    tick("log x", logX, (scatterLogX) => choose({ scatterLogX })),
    tick("log y", logY, (scatterLogY) => choose({ scatterLogY })));
  const parallel = element("div", { class: "wide" });
  const scatter = element("div", { class: "chart" });
  panel.replaceChildren(controls,
    element("figure", {}, element("figcaption", {}, `settings and ${y}; drag along an axis to filter`), parallel),
    element("figure", {}, element("figcaption", {}, `${y} by ${x}`), scatter));
  drawParallel(parallel, columns.get(y));
  drawScatter(scatter, columns.get(x), columns.get(y), colour, logX, logY);
}
