// A drawing with a dot for each run: two columns against each other, the colour from a third.

const SCATTER = { height: 340, left: 64, right: 14, top: 10, bottom: 40 };
const LOW_COLOUR = [30, 120, 200];
const HIGH_COLOUR = [230, 120, 0];

function drawScatter(box, columnX, columnY, colour, logX, logY) {
  const runs = sweepRuns.filter((run) => fitsAxis(columnX.value(run), logX) && fitsAxis(columnY.value(run), logY));
  if (!runs.length) {
    box.append(element("p", { class: "note" }, "None of these runs has both numbers."));
    return;
  }
  const width = Math.max(260, box.clientWidth);
  const { height, left, right, top, bottom } = SCATTER;
  const x = makeScale(runs.map(columnX.value), left, width - right, logX);
  const y = makeScale(runs.map(columnY.value), height - bottom, top, logY);
  const svg = drawing("svg", { width, height, class: "drawing", role: "img", "aria-label": `${columnY.title} by ${columnX.title}` });
  for (const value of ticksOf(x)) {
    svg.append(drawing("line", { x1: x(value), x2: x(value), y1: top, y2: height - bottom, class: "grid" }));
    svg.append(drawing("text", { x: x(value), y: height - bottom + 16, "text-anchor": "middle" }, format(value)));
  }
  for (const value of ticksOf(y)) {
    svg.append(drawing("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(drawing("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  svg.append(drawing("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, columnX.title));
  const shade = colour ? shadesOf(runs, colour) : () => colourOf(0);
  for (const run of runs) {
    svg.append(drawing("circle", {
      cx: x(columnX.value(run)),
      cy: y(columnY.value(run)),
      r: 4.5,
      fill: shade(run),
      "data-run": run,
      onpointermove: (event) => showTooltip(event, [nameOf(run), ...[columnX, columnY, colour].filter(Boolean).map((column) => `${column.title}: ${column.text(run)}`)]),
      onpointerleave: hideTooltip,
      onclick: () => showDetails(run),
    }));
  }
  box.append(svg);
}

function fitsAxis(value, isLog) {
  return isNumber(value) && (!isLog || value > 0);
}

/** Whether numbers, all above 0, span so much that a logarithmic axis shows them better. */
function spansDecades(numbers) {
  const sorted = Float64Array.from(numbers).sort();
  return sorted[0] > 0 && sorted[sorted.length - 1] / sorted[0] > 50;
}

/** A function from values to pixels, with a margin at both ends. */
function makeScale(values, from, to, isLog) {
  const bend = isLog ? Math.log10 : (value) => value;
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, bend(value));
    high = Math.max(high, bend(value));
  }
  const margin = (high - low || Math.abs(high) || 1) * 0.04;
  [low, high] = [low - margin, high + margin];
  const scale = (value) => from + ((bend(value) - low) / (high - low)) * (to - from);
  return Object.assign(scale, { low, high, isLog });
}

/** About five round values inside of a scale. */
function ticksOf({ low, high, isLog }) {
  if (isLog && high - low >= 1) {
    const first = Math.ceil(low);
    return Array.from({ length: Math.floor(high) - first + 1 }, (_, place) => 10 ** (first + place));
  }
  const [from, to] = isLog ? [10 ** low, 10 ** high] : [low, high];
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

/** The colour of each run by a column: from blue, low, to orange, high; one for each text where it has no numbers. */
function shadesOf(runs, column) {
  const numbers = runs.map(column.value).filter(isNumber);
  if (!numbers.length) {
    const texts = [...new Set(runs.map(column.text))].sort();
    return (run) => colourOf(texts.indexOf(column.text(run)));
  }
  const sorted = numbers.sort((a, b) => a - b);
  return (run) => {
    const value = column.value(run);
    if (!isNumber(value)) return "#999999";
    const share = sorted.length > 1 ? sorted.findIndex((each) => each >= value) / (sorted.length - 1) : 0;
    return `rgb(${LOW_COLOUR.map((low, place) => Math.round(low + share * (HIGH_COLOUR[place] - low))).join(" ")})`;
  };
}
