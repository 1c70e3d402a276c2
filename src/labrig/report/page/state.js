// What the reader has chosen. It is kept in the address after "#", so a page that loads itself again shows the same.

const DEFAULTS = {
  filter: "",
  sort: null, // the key of a column
  isDown: true,
  columns: null, // keys; null: those of interest
  ticked: [], // run directories
  metrics: null, // of the curves; null: the first ones
  axis: "step",
  logX: false,
  logY: false,
  smoothing: 0,
  isMean: false, // over seeds, in the table and of the curves
  isTogether: false, // all metrics in one chart
  sweepTrial: null, // null: that with most different settings; "": all
  scatterX: null,
  scatterY: null,
  colour: null,
  scatterLogX: null, // null: when the numbers span decades
  scatterLogY: null,
  best: null, // metric of trials and leaderboard
  theme: "auto",
};

const state = { ...DEFAULTS };

function readState() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const key of Object.keys(DEFAULTS)) if (key in kept) state[key] = kept[key];
  } catch {
    // no state, or one of another page
  }
}

function keepState() {
  const changed = Object.keys(DEFAULTS).filter((key) => JSON.stringify(state[key]) !== JSON.stringify(DEFAULTS[key]));
  const kept = Object.fromEntries(changed.map((key) => [key, state[key]]));
  try {
    history.replaceState(null, "", changed.length ? `#${encodeURIComponent(JSON.stringify(kept))}` : location.pathname);
  } catch {
    // a mail program may forbid it: then the choice lasts as long as the page
  }
}

/** Changes what was chosen, and draws what shows it. */
function choose(changes) {
  Object.assign(state, changes);
  keepState();
  drawAll();
}

const MOST_OF_NAME = 24; // characters of one value

let shownRuns = []; // numbers of the runs that the filter lets through, in the order of the table

/** The runs that are compared: those that are ticked, else the first ones of the table. */
function chosenRuns(most) {
  const ticked = shownRuns.filter((run) => state.ticked.includes(report.rows.directory[run]));
  return (ticked.length ? ticked : shownRuns.slice(0, 8)).slice(0, most);
}

function nameOf(run) {
  return `${report.rows.trial[run]} ${report.rows.run_id[run]}`;
}

/** Names of runs by what differs between them, without the keys that are left out; by the id where nothing does. */
function namesOf(runs, leftOut = []) {
  const keys = ["trial", ...report.interesting, "seed"].filter((key) => columns.has(key) && !leftOut.includes(key));
  const differing = [...new Set(keys)].filter((key) => new Set(runs.map((run) => columns.get(key).text(run))).size > 1);
  const word = (key, run) => {
    const text = columns.get(key).text(run).slice(0, MOST_OF_NAME);
    return key === "trial" || !text ? text : `${key.split(".").pop()}=${text}`;
  };
  const texts = runs.map((run) => differing.map((key) => word(key, run)).filter(Boolean).join(" "));
  const isAlone = (text) => text && texts.filter((each) => each === text).length === 1;
  return new Map(runs.map((run, place) => [run, isAlone(texts[place]) ? texts[place] : `${texts[place]} ${report.rows.run_id[run]}`.trim()]));
}

/** The groups of runs that differ only in their seed, each in the order of the runs. */
function seedGroups(runs) {
  return [...Map.groupBy(runs, (run) => report.seed_groups[run]).values()];
}
