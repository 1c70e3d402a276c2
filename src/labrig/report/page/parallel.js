// Parallel coordinates: an axis for each setting that differs and for the metric, a line for each run.
// A stretch that is dragged on an axis becomes a filter.

const PARALLEL = { height: 340, side: 56, top: 34, bottom: 26 };
const MOST_AXES = 9;
const MOST_TEXTS = 24; // different texts on one axis

function drawParallel(box, metric) {
  const axes = parallelColumns(metric).map((column) => makeAxis(column));
  const runs = sweepRuns.filter((run) => isNumber(metric.value(run)));
  if (axes.length < 2 || !runs.length) {
    box.append(element("p", { class: "note" }, "These runs differ in no setting."));
    return;
  }
  const width = Math.max(120 * axes.length, box.clientWidth);
  const { height, side } = PARALLEL;
  const x = (place) => side + (place * (width - 2 * side)) / (axes.length - 1);
  const svg = drawing("svg", { width, height, class: "drawing parallel", role: "img", "aria-label": `settings and ${metric.title}` });
  const shade = shadesOf(runs, metric);
  const opacity = Math.max(0.12, Math.min(0.8, 60 / runs.length));
  for (const run of runs) {
    const points = axes.map((axis, place) => [x(place), axis.y(run)]).filter(([, y]) => y !== null);
    const line = drawing("polyline", {
      points: points.map(([left, top]) => `${left.toFixed(1)},${top.toFixed(1)}`).join(" "),
      stroke: shade(run),
      style: `stroke-opacity: ${opacity}`,
      "data-run": run,
      onpointermove: (event) => showTooltip(event, [nameOf(run), ...axes.map(({ column }) => `${column.title}: ${column.text(run)}`)]),
      onpointerleave: hideTooltip,
      onclick: () => showDetails(run),
    });
    svg.append(line);
  }
  axes.forEach((axis, place) => svg.append(axisDrawing(axis, x(place))));
  box.append(svg);
}

/** The settings of interest that differ between the runs that are shown, then the metric. */
function parallelColumns(metric) {
  const differs = (key) => new Set(sweepRuns.map(columns.get(key).text)).size > 1;
  const keys = report.interesting.filter((key) => columns.has(key) && differs(key));
  return [...keys.slice(0, MOST_AXES - 1).map((key) => columns.get(key)), metric];
}

/** An axis: where a run lies on it, its labels, and the filter for a stretch of it. */
function makeAxis(column) {
  const { height, top, bottom } = PARALLEL;
  const runs = sweepRuns.filter((run) => column.text(run) !== "");
  const numbers = runs.map(column.value).filter(isNumber);
  if (numbers.length < runs.length) {
    const texts = [...new Set(runs.map(column.text))].sort().slice(0, MOST_TEXTS);
    const place = (text) => top + ((texts.indexOf(text) + 0.5) * (height - top - bottom)) / texts.length;
    const words = (from, to) => {
      const inside = texts.filter((text) => place(text) >= from && place(text) <= to);
      return inside.length ? [`${column.key}=${inside.join(",")}`] : [];
    };
    const y = (run) => (texts.includes(column.text(run)) ? place(column.text(run)) : null);
    return { column, y, labels: texts.map((text) => [text, place(text)]), words };
  }
  const isLog = spansDecades(numbers);
  const scale = makeScale(numbers, height - bottom, top, isLog);
  const valueAt = (px) => {
    const bent = scale.low + ((px - (height - bottom)) / (top - (height - bottom))) * (scale.high - scale.low);
    return Number((isLog ? 10 ** bent : bent).toPrecision(4));
  };
  const y = (run) => (isNumber(column.value(run)) ? scale(column.value(run)) : null);
  const labels = ticksOf(scale).map((value) => [format(value), scale(value)]);
  return { column, y, labels, words: (from, to) => [`${column.key}>=${valueAt(to)}`, `${column.key}<=${valueAt(from)}`] };
}

function axisDrawing(axis, x) {
  const { height, top, bottom } = PARALLEL;
  const title = axis.column.title.length > 18 ? `…${axis.column.title.slice(-17)}` : axis.column.title;
  const mark = drawing("rect", { x: x - 7, y: 0, width: 14, height: 0, class: "brush" });
  const handle = drawing("rect", { x: x - 12, y: top, width: 24, height: height - top - bottom, class: "handle" });
  let from = null;
  handle.addEventListener("pointerdown", (event) => {
    from = event.offsetY;
    handle.setPointerCapture(event.pointerId);
  });
  handle.addEventListener("pointermove", (event) => {
    if (from === null) return;
    mark.setAttribute("y", Math.min(from, event.offsetY));
    mark.setAttribute("height", Math.abs(event.offsetY - from));
  });
  handle.addEventListener("pointerup", (event) => {
    const [begin, end] = [Math.min(from, event.offsetY), Math.max(from, event.offsetY)];
    from = null;
    if (end - begin > 3) filterStretch(axis, begin, end);
  });
  return drawing("g", {},
    drawing("line", { x1: x, x2: x, y1: top, y2: height - bottom, class: "axis" }),
    drawing("text", { x, y: 16, "text-anchor": "middle", class: "title" }, title),
    axis.labels.map(([text, y]) => drawing("text", { x: x + 6, y: y + 4, class: "label" }, text.length > 16 ? `${text.slice(0, 15)}…` : text)),
    mark, handle);
}

/** Puts the stretch of an axis into the filter, in place of an earlier one of the same axis. */
function filterStretch(axis, from, to) {
  const key = axis.column.key;
  const isOfAxis = (word) => word.startsWith(key) && /^[<>=]/.test(word.slice(key.length));
  const others = state.filter.split(/\s+/).filter((word) => word && !isOfAxis(word));
  const filter = [...others, ...axis.words(from, to)].join(" ");
  document.getElementById("filter").value = filter;
  choose({ filter });
}
