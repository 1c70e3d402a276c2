// The table of runs. Only the rows in sight are elements, so that thousands of runs scroll and sort at once.

const ROW_PX = 27;
const MARGIN_ROWS = 10; // above and below what is in sight
const MOST_CHARACTERS = 30; // of a column

/** The runs that pass the filter, sorted. */
function findShownRuns() {
  const passes = filterTest(state.filter);
  const runs = [...Array(report.n).keys()].filter(passes);
  const column = columns.get(state.sort);
  return column ? sortRuns(runs, column, state.isDown) : runs;
}

let tableRows = []; // each of one run, or of those that differ only in their seed

function drawTable(panel) {
  tableRows = state.isMean ? seedGroups(shownRuns) : shownRuns.map((run) => [run]);
  const keys = (state.columns ?? interestingColumns()).filter((key) => columns.has(key));
  const shown = keys.map((key) => columns.get(key));
  const body = element("tbody");
  const head = element("tr", {}, element("th", { class: "tick" }, tickAll()), shown.map(headCell));
  const widths = shown.map(widthOf);
  const columnGroup = element("colgroup", {}, element("col", { style: "width: 34px" }),
    widths.map((width) => element("col", { style: `width: calc(${width}ch + 20px)` })));
  const total = widths.reduce((sum, width) => sum + width, 0);
  const table = element("table", { class: "runs", style: `width: calc(${total}ch + ${34 + 20 * shown.length}px)` },
    columnGroup, element("thead", {}, head), body);
  const box = element("div", { class: "table-box", tabindex: "0", onscroll: () => drawRows(box, body, shown) }, table);
  const before = panel.querySelector(".table-box");
  const place = before ? [before.scrollLeft, before.scrollTop] : [0, 0];
  const isOpen = panel.querySelector("details")?.open;
  const mean = tick("mean over seeds", state.isMean, (isMean) => choose({ isMean }));
  panel.replaceChildren(columnChooser(keys, isOpen), mean, box);
  box.scrollTo(...place);
  drawRows(box, body, shown);
}

/** The rows in sight; the space of the others is kept by two empty rows. */
function drawRows(box, body, shown) {
  const isPrinting = document.body.classList.contains("printing");
  const first = isPrinting ? 0 : Math.max(0, Math.floor(box.scrollTop / ROW_PX) - MARGIN_ROWS);
  // The box has no height yet when it is drawn for the first time, and never more than the screen's.
  const height = Math.max(box.clientHeight, window.innerHeight, screen.height);
  const nInSight = Math.ceil(height / ROW_PX) + 2 * MARGIN_ROWS;
  const last = isPrinting ? tableRows.length : Math.min(tableRows.length, first + nInSight);
  const space = (n) => element("tr", { class: "space", style: `height: ${n * ROW_PX}px` });
  const rows = tableRows.slice(first, last).map((runs) => tableRow(runs, shown));
  body.replaceChildren(space(first), ...rows, space(tableRows.length - last));
}

function tableRow(runs, shown) {
  const directories = runs.map((run) => report.rows.directory[run]);
  const box = element("input", {
    type: "checkbox",
    checked: directories.every((each) => state.ticked.includes(each)),
    "aria-label": `choose ${report.rows.run_id[runs[0]]}`,
    onchange: () => tickRuns(directories, box.checked),
  });
  return element("tr", { "data-run": runs[0] }, element("td", { class: "tick" }, box), shown.map((column) => tableCell(runs, column)));
}

/** The text of a cell of several runs: mean and sample deviation of a metric, what all have in common, or how many there are. */
function textOfCell(runs, column) {
  const numbers = column.kind === "metric" ? runs.map(column.value).filter(isNumber) : [];
  if (numbers.length > 1) {
    const { mean, high } = meanAndBand(numbers.map((number) => [number]));
    return `${format(mean[0])} ± ${Number((high[0] - mean[0]).toPrecision(2))}`;
  }
  const texts = [...new Set(runs.map(column.text))];
  return texts.length === 1 ? texts[0] : column.key === "seed" ? `${runs.length} seeds` : "";
}

function tableCell(runs, column) {
  const run = runs[0];
  const text = runs.length > 1 && column.key !== "run" ? textOfCell(runs, column) : column.text(run);
  if (column.key === "run") {
    return element("td", {}, element("button", { class: "link", onclick: () => showDetails(run) }, text));
  }
  const kind = column.key === "status" ? `status ${text}` : isNumber(column.value(run)) ? "number" : "";
  return element("td", { class: kind, title: text.length > 12 ? text : null }, text);
}

function headCell(column) {
  const arrow = state.sort === column.key ? (state.isDown ? " ↓" : " ↑") : "";
  const button = element("button", { class: "head", title: column.title, onclick: () => sortBy(column) }, column.title + arrow);
  return element("th", { "data-key": column.key, "aria-sort": arrow ? (state.isDown ? "descending" : "ascending") : null }, button);
}

/** The first click puts the best or newest on top, the second one turns the order around. */
function sortBy(column) {
  const isDown = state.sort === column.key ? !state.isDown : !column.isLowerBetter;
  choose({ sort: column.key, isDown });
}

function widthOf(column) {
  let longest = column.title.length + 2;
  for (const runs of tableRows) longest = Math.max(longest, (runs.length > 1 ? textOfCell(runs, column) : column.text(runs[0])).length);
  return Math.min(MOST_CHARACTERS, longest);
}

function tickRuns(directories, isTicked) {
  const others = state.ticked.filter((each) => !directories.includes(each));
  choose({ ticked: isTicked ? [...others, ...directories] : others });
}

function tickAll() {
  const isAny = state.ticked.length > 0;
  const title = isAny ? "choose none" : "choose all that are shown";
  const ticked = () => (isAny ? [] : shownRuns.map((run) => report.rows.directory[run]));
  return element("input", { type: "checkbox", checked: isAny, title, "aria-label": title, onchange: () => choose({ ticked: ticked() }) });
}

function columnChooser(keys, isOpen) {
  const groups = ["fact", "metric", "setting"].map((kind) =>
    element("fieldset", {}, element("legend", {}, `${kind}s`), keysOfKind(kind).map((key) =>
      tick(columns.get(key).title, keys.includes(key), (isTicked) =>
        choose({ columns: isTicked ? [...keys, key] : keys.filter((each) => each !== key) })))));
  const reset = element("button", { type: "button", onclick: () => choose({ columns: null }) }, "as at first");
  return element("details", { class: "columns", open: isOpen }, element("summary", {}, `columns (${keys.length})`), groups, reset);
}
