// The page from top to bottom, and when its parts are drawn: those in sight at once, the others when there is time.

const PARTS = [
  { id: "runs", title: "Runs", draw: drawTable },
  { id: "curves", title: "Curves", draw: drawCurves },
  { id: "sweep", title: "Sweeps", draw: drawSweep },
  { id: "differences", title: "Differences", draw: drawDifferences },
  { id: "pictures", title: "Pictures", draw: drawPictures },
  { id: "trials", title: "Trials", draw: drawTrials },
  { id: "leaderboard", title: "Leaderboard", draw: drawLeaderboard },
  { id: "cost", title: "Cost", draw: drawCost },
];
const TYPING_MS = 150; // after the last key, before the filter is applied

async function openPage() {
  readState();
  applyTheme();
  await openReport();
  makeColumns();
  document.title = `${report.project}: report`;
  document.getElementById("title").textContent = report.project;
  document.getElementById("title").title = `written ${report.written}`;
  const main = document.getElementById("main");
  main.replaceChildren();
  for (const part of PARTS) {
    part.panel = element("div", { class: "panel" });
    part.section = element("section", { id: part.id }, element("h2", {}, part.title), part.panel);
    main.append(part.section);
    document.getElementById("links").append(element("button", { class: "link", onclick: () => part.section.scrollIntoView({ behavior: "smooth" }) }, part.title));
  }
  main.append(element("footer", {}, `${report.n} of ${report.n_all} runs, written ${report.written}. Curves are drawn by uPlot 1.6.32 (MIT licence).`));
  watchSight();
  listen();
  drawAll();
  if (report.watch_s) setTimeout(loadAnew, 1000 * report.watch_s);
}

/** Loads the page that was written meanwhile, but not under the hands of somebody who types or reads a dialog. */
function loadAnew() {
  const isBusy = document.activeElement === document.getElementById("filter") || document.getElementById("details").open;
  if (isBusy) setTimeout(loadAnew, 1000);
  else location.reload();
}

/** Finds the runs that the filter lets through, draws what is in sight, and the rest in pauses. */
function drawAll() {
  shownRuns = findShownRuns();
  const ticked = state.ticked.length ? `, ${state.ticked.length} ticked` : "";
  document.getElementById("count").textContent = `${shownRuns.length} of ${report.n} runs${ticked}`;
  for (const part of PARTS) part.isOld = true;
  for (const part of PARTS) if (part.isInSight) drawPart(part);
  drawInPauses();
}

async function drawPart(part) {
  if (!part.isOld) return;
  part.isOld = false;
  await part.draw(part.panel);
}

function drawInPauses() {
  const wait = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  wait(async () => {
    const next = PARTS.find((part) => part.isOld);
    if (!next) return;
    await drawPart(next);
    drawInPauses();
  });
}

function watchSight() {
  PARTS[0].isInSight = true;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const part = PARTS.find((each) => each.section === entry.target);
      part.isInSight = entry.isIntersecting;
      if (part.isInSight) drawPart(part);
    }
  }, { rootMargin: "200px" });
  for (const part of PARTS) observer.observe(part.section);
}

function listen() {
  const filter = document.getElementById("filter");
  filter.value = state.filter;
  let waiting = null;
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => choose({ filter: filter.value.trim() }), TYPING_MS);
  });
  document.getElementById("theme").addEventListener("click", () => {
    const themes = ["auto", "light", "dark"];
    state.theme = themes[(themes.indexOf(state.theme) + 1) % themes.length];
    applyTheme();
    choose({});
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone that hides its address line
    width = window.innerWidth;
    drawAll();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => printing(true));
  window.addEventListener("afterprint", () => printing(false));
}

/** On paper the table has all its rows, and the colours are light. */
function printing(isPrinting) {
  document.body.classList.toggle("printing", isPrinting);
  applyTheme(isPrinting ? "light" : undefined);
  for (const part of PARTS) part.isOld = true;
  for (const part of PARTS) drawPart(part);
}

function applyTheme(theme = state.theme) {
  document.documentElement.dataset.theme = theme;
}

openPage().catch((error) => {
  document.getElementById("main").replaceChildren(element("p", { class: "note" }, `This browser cannot open the page: ${error}`));
  throw error;
});
