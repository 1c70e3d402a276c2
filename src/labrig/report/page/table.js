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

function drawTable(panel) {
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
  panel.replaceChildren(columnChooser(keys, isOpen), box);
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
  const last = isPrinting ? shownRuns.length : Math.min(shownRuns.length, first + nInSight);
  const space = (n) => element("tr", { class: "space", style: `height: ${n * ROW_PX}px` });
  const rows = shownRuns.slice(first, last).map((run) => tableRow(run, shown));
  body.replaceChildren(space(first), ...rows, space(shownRuns.length - last));
}

function tableRow(run, shown) {
  const directory = report.rows.directory[run];
  const box = element("input", {
    type: "checkbox",
    checked: state.ticked.includes(directory),
    "aria-label": `choose ${report.rows.run_id[run]}`,
    onchange: () => tickRun(directory, box.checked),
  });
  return element("tr", { "data-run": run }, element("td", { class: "tick" }, box), shown.map((column) => tableCell(run, column)));
}

function tableCell(run, column) {
  const text = column.text(run);
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
  for (const run of shownRuns) longest = Math.max(longest, column.text(run).length);
  return Math.min(MOST_CHARACTERS, longest);
}

function tickRun(directory, isTicked) {
  const others = state.ticked.filter((each) => each !== directory);
  choose({ ticked: isTicked ? [...others, directory] : others });
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
