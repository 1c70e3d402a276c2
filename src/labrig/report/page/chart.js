// One chart of lines, drawn by uPlot, with the values under the pointer below it.

const CHART_PX = 320;
const FEW_POINTS = 30; // a curve with so few shows each as a dot

/**
 * Draws curves into a box.
 *
 * curves: [{label, xs, ys, colour, dash, band: {low, high} or undefined}]; a band lies on the same xs.
 */
function drawChart(box, curves, axisTitle, { logX, logY }) {
  const grid = commonGrid(curves.map((curve) => curve.xs)).filter((x) => !logX || x > 0);
  const positive = (values) => (logY ? values.map((value) => (value > 0 ? value : null)) : values);
  const data = [grid];
  const series = [{ label: axisTitle, value: (_, value) => format(value) }];
  const bands = [];
  for (const curve of curves) {
    data.push(positive(onGrid(curve.xs, curve.ys, grid)));
    series.push(lineOf(curve, grid));
    if (!curve.band) continue;
    for (const edge of [curve.band.high, curve.band.low]) {
      data.push(positive(onGrid(curve.xs, edge, grid)));
      series.push({ label: edge === curve.band.high ? "mean + sd" : "mean − sd", stroke: "transparent", points: { show: false }, value: (_, value) => format(value) });
    }
    bands.push({ series: [data.length - 2, data.length - 1], fill: transparent(curve.colour) });
  }
  const ink = styleColour("--text");
  const line = styleColour("--line");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, values: (_, splits) => splits.map((value) => (value === null ? "" : format(value))) };
  return new uPlot({
    width: Math.max(240, box.clientWidth),
    height: CHART_PX,
    scales: { x: { time: false, distr: logX ? 3 : 1 }, y: { distr: logY ? 3 : 1 } },
    axes: [{ ...axis, label: axisTitle, labelSize: 20 }, { ...axis, size: 64 }],
    cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
    focus: { alpha: 0.25 },
    series,
    bands,
  }, data, box);
}

function lineOf(curve, grid) {
  const isSparse = curve.xs.length <= FEW_POINTS;
  const own = isSparse ? grid.flatMap((x, place) => (curve.xs.includes(x) ? [place] : [])) : [];
  return {
    label: curve.label,
    stroke: curve.colour,
    dash: curve.dash,
    width: 1.5,
    spanGaps: true,
    points: { show: isSparse, size: 5, filter: () => own },
    value: (_, value) => format(value),
  };
}

/** A colour for an area. */
function transparent(colour) {
  return colour.startsWith("#") ? `${colour}2e` : colour.replace(")", " / 18%)");
}
