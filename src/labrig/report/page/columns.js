// The columns that a run has: facts, last values of metrics, and settings.

// How a fact is written where it is no plain text or number.
const TEXTS = {
  created: (value) => value?.slice(0, 16).replace("T", " "),
  commit: (value) => value?.slice(0, 10),
};

const columns = new Map(); // by key: {key, title, kind, value(run), text(run), isLowerBetter}

function makeColumns() {
  for (const fact of report.facts) columns.set(fact.key, factColumn(fact));
  for (const metric of report.metrics) {
    columns.set(metric.name, makeColumn(metric.name, metric.name, "metric", (run) => metric.values[run], metric.mode !== "max"));
  }
  for (const [key, setting] of Object.entries(report.settings)) {
    if (columns.has(key)) continue;
    const value = (run) => (setting.of_run[run] === null ? null : setting.values[setting.of_run[run]]);
    columns.set(key, makeColumn(key, key, "setting", value, true));
  }
}

function factColumn(fact) {
  const values = report.rows[fact.of];
  const value = (run) => (values[run] !== null && fact.per ? Math.max(0, values[run]) / fact.per : values[run]);
  const column = makeColumn(fact.key, fact.title, "fact", value, fact.key !== "created");
  const asText = TEXTS[fact.key];
  if (fact.per) column.text = (run) => (value(run) === null ? "" : value(run).toFixed(3));
  if (asText) column.text = (run) => asText(values[run]) ?? "";
  return column;
}

function makeColumn(key, title, kind, value, isLowerBetter) {
  return { key, title, kind, value, text: (run) => format(value(run)), isLowerBetter };
}

/** The column of a key that a reader may type; undefined when there is none. */
function columnOf(key) {
  return columns.get(key) ?? columns.get([...columns.keys()].find((each) => each.endsWith(`.${key}`)));
}

function keysOfKind(kind) {
  return [...columns.values()].filter((column) => column.kind === kind).map((column) => column.key);
}

/** The columns that the table shows at first. */
function interestingColumns() {
  const isSeveral = (key) => new Set(report.rows[key]).size > 1;
  const facts = ["run", "status", "trial", ...["seed"].filter((key) => columns.has(key)), ...["project", "who"].filter(isSeveral), "created", "hours"];
  const metrics = report.metrics.filter((metric) => metric.values.some((value) => value !== null));
  const settings = report.interesting.filter((key) => columns.has(key) && !facts.includes(key));
  return [...facts, ...metrics.slice(0, 4).map((metric) => metric.name), ...settings];
}

/** The keys of columns with numbers in some runs, for axes. */
function numericKeys(runs) {
  return [...columns.values()].filter((column) => runs.some((run) => isNumber(column.value(run)))).map((column) => column.key);
}

/** Sorts runs by a column; those without a value come last. */
function sortRuns(runs, column, isDown) {
  const sign = isDown ? -1 : 1;
  const values = runs.map(column.value);
  const rank = (value) => (isNumber(value) ? 0 : value === null || value === undefined || value === "" ? 2 : 1);
  const compare = (one, other) => {
    const [a, b] = [values[one], values[other]];
    if (rank(a) !== rank(b)) return rank(a) - rank(b);
    if (rank(a) === 0) return sign * (a - b) || one - other;
    return sign * (a < b ? -1 : a > b ? 1 : 0) || one - other;
  };
  return runs.map((_, place) => place).sort(compare).map((place) => runs[place]);
}
