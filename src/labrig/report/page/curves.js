// The curves of the chosen runs, laid over each other.

const MOST_CURVES = 60; // runs in one chart
const AXES = [["step", "step"], ["epoch", "epoch"], ["hours", "hours of training"]];
const DASHES = [undefined, [6, 4], [2, 3], [10, 3, 2, 3]]; // of the metrics in one chart

async function drawCurves(panel) {
  const runs = chosenRuns(MOST_CURVES);
  const names = report.curves.map((each) => each.metric);
  if (!names.length) {
    panel.replaceChildren(element("p", {}, "No run has logged a metric yet."));
    return;
  }
  const metrics = (state.metrics ?? firstMetrics(runs)).filter((name) => names.includes(name));
  const curves = new Map();
  for (const metric of metrics) curves.set(metric, await linesOf(metric, runs));
  const charts = state.isTogether ? [metrics] : metrics.map((metric) => [metric]);
  const isOpen = panel.querySelector("details")?.open;
  panel.replaceChildren(curveControls(names, metrics, isOpen), element("p", { class: "note" }, curvesNote(runs)));
  const row = element("div", { class: "charts" });
  panel.append(row);
  // All boxes first, because each takes room from the others.
  const boxes = charts.map(() => element("div", { class: "chart" }));
  row.append(...charts.map((together, place) => element("figure", {}, element("figcaption", {}, together.join(", ")), boxes[place])));
  charts.forEach((together, place) => drawLines(boxes[place], together, curves));
}

/** Draws the lines of some metrics into one chart, each metric with its own dashes. */
function drawLines(box, metrics, curves) {
  const lines = metrics.flatMap((metric, place) =>
    curves.get(metric).map((line) => ({ ...line, dash: DASHES[place % DASHES.length], label: metrics.length > 1 ? `${line.label} ${metric}` : line.label })));
  const title = AXES.find(([key]) => key === state.axis)[1];
  if (lines.length) drawChart(box, lines, title, state);
  else box.append(element("p", { class: "note" }, "None of these runs has it."));
}

/** The two metrics that are drawn at first, of those that one of the runs has: checkpoint.monitor, then the loss of the training. */
function firstMetrics(runs) {
  const names = report.curves.filter((each) => runs.some((run) => each.runs.includes(run))).map((each) => each.metric);
  const [first, ...others] = report.metrics.map((metric) => metric.name).filter((name) => names.includes(name));
  const second = others.find((name) => /^(val|train)\//.test(name)) ?? others[0];
  return [first, second].filter((name) => name !== undefined);
}

function curvesNote(runs) {
  const ticked = state.ticked.length ? "the runs that are ticked in the table" : "the first runs of the table; tick others there";
  const limit = runs.length === MOST_CURVES ? `, at most ${MOST_CURVES}` : "";
  return `${runs.length} runs: ${ticked}${limit}. Drag to zoom, double-click to see all.`;
}

/** The lines of a metric: one for each run, or for the runs that differ only in their seed. */
async function linesOf(metric, runs) {
  const curves = await curvesOf(metric);
  const lines = [];
  const names = namesOf(runs);
  for (const run of runs) {
    const curve = curves.get(run);
    if (!curve) continue;
    const xs = Array.from(positions(run, curve.steps, state.axis));
    lines.push({ run, label: names.get(run), xs, ys: Array.from(smooth(curve.values, state.smoothing)) });
  }
  const drawn = state.isMean ? meansOf(lines) : lines;
  const places = new Map(runs.map((run, place) => [run, place]));
  return drawn.map((line) => ({ ...line, colour: colourOf(places.get(line.run)) }));
}

/** A line for each group of runs that differ only in their seed: the mean, with its band. */
function meansOf(lines) {
  const ofRun = new Map(lines.map((line) => [line.run, line]));
  const groups = seedGroups([...ofRun.keys()]).map((runs) => runs.map((run) => ofRun.get(run)));
  const names = namesOf(groups.map(([first]) => first.run), ["seed"]);
  return groups.map((group) => {
    if (group.length === 1) return group[0];
    const grid = commonGrid(group.map((line) => line.xs));
    const { mean, low, high } = meanAndBand(group.map((line) => onGrid(line.xs, line.ys, grid)));
    return { run: group[0].run, label: groups.length === 1 ? `${group.length} seeds` : `${names.get(group[0].run)}, ${group.length} seeds`, xs: grid, ys: mean, band: { low, high } };
  });
}

function curveControls(names, metrics, isOpen) {
  const slider = element("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smoothing, onchange: () => choose({ smoothing: Number(slider.value) }) });
  const boxes = names.map((name) => tick(name, metrics.includes(name), (isTicked) =>
    choose({ metrics: isTicked ? [...metrics, name] : metrics.filter((each) => each !== name) })));
  return element("div", { class: "controls" },
    element("details", { open: isOpen }, element("summary", {}, `metrics (${metrics.length})`), boxes),
    chooser("by", AXES, state.axis, (axis) => choose({ axis })),
    element("label", {}, "smoothing ", slider, ` ${state.smoothing}`),
    tick("mean over seeds", state.isMean, (isMean) => choose({ isMean })),
    tick("one chart", state.isTogether, (isTogether) => choose({ isTogether })),
    tick("log x", state.logX, (logX) => choose({ logX })),
    tick("log y", state.logY, (logY) => choose({ logY })));
}
