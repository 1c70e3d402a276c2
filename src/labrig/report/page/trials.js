// The tree of trials: what each one asks, its runs, and its best number.

const COUNT = ["finished", "trained"]; // runs whose numbers count

function drawTrials(panel) {
  const metric = bestMetric();
  const lines = [...report.trials, ...trialsWithoutDirectory()].map((trial) => trialLine(trial, metric));
  panel.replaceChildren(bestControls(metric), element("div", { class: "table-box" }, element("table", { class: "trials" },
    element("thead", {}, element("tr", {}, ["trial", "runs", "finished", metric?.name ?? "best", "best run", "question", "verdict"].map((text) => element("th", {}, text)))),
    element("tbody", {}, lines))));
}

/** Trials of runs that no directory of this project has: of other projects, deleted ones, commands. */
function trialsWithoutDirectory() {
  const known = new Set(report.trials.map((trial) => `${trial.project} ${trial.name}`));
  const others = new Map();
  for (let run = 0; run < report.n; run++) {
    const project = report.rows.project[run];
    const name = report.rows.trial[run].split("/")[0];
    if (!known.has(`${project} ${name}`)) others.set(`${project} ${name}`, { project, name, branches: "", question: "", verdict: "" });
  }
  return [...others.values()];
}

function trialLine(trial, metric) {
  const isOf = (run) => report.rows.trial[run].split("/")[0] === trial.name && report.rows.project[run] === trial.project;
  const runs = shownRuns.filter(isOf);
  const finished = runs.filter((run) => COUNT.includes(report.rows.status[run]));
  const best = bestOf(finished, metric);
  const isSeveral = new Set(report.rows.project).size > 1;
  const name = `${trial.branches}${trial.name}${isSeveral ? ` (${trial.project})` : ""}`;
  return element("tr", {},
    element("td", { class: "tree" }, name),
    element("td", { class: "number" }, String(runs.length)),
    element("td", { class: "number" }, String(finished.length)),
    element("td", { class: "number" }, best === null ? "" : format(metric.values[best])),
    element("td", {}, best === null ? "" : element("button", { class: "link", onclick: () => showDetails(best) }, report.rows.run_id[best])),
    element("td", { class: "words" }, trial.question),
    element("td", { class: "words" }, trial.verdict));
}

/** The metric by which trials and people are compared. */
function bestMetric() {
  const measured = report.metrics.filter((metric) => metric.values.some(isNumber));
  return measured.find((metric) => metric.name === state.best) ?? measured[0];
}

function bestControls(metric) {
  const names = report.metrics.filter((each) => each.values.some(isNumber)).map((each) => each.name);
  return element("div", { class: "controls" }, chooser("best by", names, metric?.name, (best) => choose({ best })));
}

/** The run with the best last value; null when none has one. */
function bestOf(runs, metric) {
  const measured = metric ? runs.filter((run) => isNumber(metric.values[run])) : [];
  const isBetter = (one, other) => (metric.lower ? metric.values[one] < metric.values[other] : metric.values[one] > metric.values[other]);
  return measured.reduce((best, run) => (best === null || isBetter(run, best) ? run : best), null);
}
