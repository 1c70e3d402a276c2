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
  return rankedMetrics().find((metric) => metric.name === state.best) ?? rankedMetrics()[0];
}

/** A sentence about runs that are not compared; "" without any. */
function asideNote(metric) {
  const { n_aside } = alikeRuns(metric);
  return n_aside ? `Left aside: ${n_aside} runs that were evaluated on other data or samples.` : "";
}

/** The metrics of which it is known whether lower or higher values are better. */
function rankedMetrics() {
  return report.metrics.filter((metric) => metric.mode && metric.values.some(isNumber));
}

/** A sentence about the metrics by which no run is called the best; "" without any. */
function notRanked() {
  const names = report.metrics.filter((metric) => !metric.mode && metric.values.some(isNumber)).map((metric) => metric.name);
  return names.length ? `Is higher better? Not known of ${names.join(", ")}. Write metrics: {${names[0]}: max} (or min) in conf/config.yaml.` : "";
}

function bestControls(metric) {
  const names = rankedMetrics().map((each) => each.name);
  return element("div", { class: "controls" },
    chooser("best by", names, metric?.name, (best) => choose({ best })),
    element("span", { class: "note" }, [asideNote(metric), notRanked()].filter(Boolean).join(" ")));
}

/** The finished runs with a number that compare: those that were evaluated on the same samples. */
function alikeRuns(metric) {
  const measured = metric ? shownRuns.filter((run) => COUNT.includes(report.rows.status[run]) && isNumber(metric.values[run])) : [];
  const sets = report.sets[/^test[^a-z]/i.test(metric?.name ?? "") ? "test" : "val"];
  const first = Math.min(...measured.map((run) => sets[run]));
  return { runs: measured.filter((run) => sets[run] === first), n_aside: measured.filter((run) => sets[run] !== first).length };
}

/** The run with the best last value, of those that compare; null when none has one. */
function bestOf(runs, metric) {
  const alike = new Set(alikeRuns(metric).runs);
  const measured = runs.filter((run) => alike.has(run));
  const isBetter = (one, other) => (metric.mode === "min" ? metric.values[one] < metric.values[other] : metric.values[one] > metric.values[other]);
  return measured.reduce((best, run) => (best === null || isBetter(run, best) ? run : best), null);
}
