// Arithmetic on curves: where their points lie on the axis, smoothing, a common grid, mean and deviation.

const MOST_GRID_POINTS = 3000; // a screen has about as many columns

/** Where steps of a run lie on an axis: "step", "epoch" or "hours"; between its marks a clock goes straight. */
function positions(run, steps, axis) {
  if (axis === "step") return steps;
  const clock = report.clocks[run];
  const marks = axis === "epoch" ? clock.epochs : clock.hours;
  return steps.map((step) => interpolate(clock.steps, marks, step));
}

/** The value at x of a line through points; their xs ascend. Outside of them it is that of the nearest point. */
function interpolate(xs, ys, x) {
  if (!xs.length) return NaN;
  let low = 0;
  let high = xs.length - 1;
  if (x <= xs[low]) return ys[low];
  if (x >= xs[high]) return ys[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  const share = xs[high] === xs[low] ? 0 : (x - xs[low]) / (xs[high] - xs[low]);
  return ys[low] + share * (ys[high] - ys[low]);
}

/** The exponential moving average of values, without the pull to zero at its beginning; `weight` of the past, 0 to 1. */
function smooth(values, weight) {
  if (!weight) return values;
  let sum = 0;
  let share = 0;
  return Array.from(values, (value) => {
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

/** The xs of several curves, each once and in order; evenly spaced ones where these are too many. */
function commonGrid(lists) {
  const xs = Float64Array.from(new Set(lists.flatMap((list) => Array.from(list)))).sort();
  if (xs.length <= MOST_GRID_POINTS) return Array.from(xs);
  const [first, last] = [xs[0], xs[xs.length - 1]];
  return Array.from({ length: MOST_GRID_POINTS }, (_, place) => first + ((last - first) * place) / (MOST_GRID_POINTS - 1));
}

/** A curve on a grid; null before its first and after its last point. */
function onGrid(xs, ys, grid) {
  let place = 0;
  const [first, last] = [xs[0], xs[xs.length - 1]];
  return grid.map((x) => {
    if (!(x >= first && x <= last)) return null;
    while (place < xs.length - 1 && xs[place + 1] <= x) place++;
    if (place === xs.length - 1 || xs[place] === x) return ys[place];
    const share = (x - xs[place]) / (xs[place + 1] - xs[place]);
    return ys[place] + share * (ys[place + 1] - ys[place]);
  });
}

/** Mean, and mean ± sample standard deviation, of curves on one grid: where at least one has a value. */
function meanAndBand(curves) {
  const band = { mean: [], low: [], high: [] };
  for (let place = 0; place < curves[0].length; place++) {
    const values = curves.map((curve) => curve[place]).filter((value) => value !== null);
    const mean = values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const deviation = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
    band.mean.push(mean);
    band.low.push(mean === null ? null : mean - deviation);
    band.high.push(mean === null ? null : mean + deviation);
  }
  return band;
}
