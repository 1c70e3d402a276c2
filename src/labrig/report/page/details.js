// One run: its facts, numbers and settings, and where its code and files are.

const IN_HEAD = ["run", "commit"]; // what stands above the other facts

function showDetails(run) {
  const dialog = document.getElementById("details");
  const rows = report.rows;
  const facts = keysOfKind("fact").filter((key) => !IN_HEAD.includes(key));
  const lines = facts.map((key) => [columns.get(key).title, columns.get(key).text(run)]);
  lines.push(["typed", rows.overrides[run]], ["changed", rows.changes[run]], ...rows.notes[run].map((note) => ["note", note]));
  const metrics = keysOfKind("metric").map((key) => [key, columns.get(key).text(run)]);
  const settings = [...Object.entries(report.common_settings).map(([key, value]) => [key, format(value)]),
    ...keysOfKind("setting").map((key) => [key, columns.get(key).text(run)])].sort(([one], [other]) => (one < other ? -1 : 1));
  dialog.replaceChildren(
    element("form", { method: "dialog" }, element("button", { class: "close", "aria-label": "close" }, "×")),
    element("h2", {}, nameOf(run)),
    codeLines(run),
    factTable(lines),
    element("h3", {}, "Metrics"), factTable(metrics),
    element("h3", {}, "Settings"), factTable(settings));
  dialog.showModal();
}

function codeLines(run) {
  const rows = report.rows;
  const directory = fileLink(rows.directory[run]);
  const files = ["config.yaml", "run.json", "metrics.jsonl", "env.txt"].flatMap((name) => [" ", element("a", { href: `${directory}/${name}` }, name)]);
  const commit = rows.commit[run] ?? "not recorded";
  const link = rows.code_url[run] ? element("a", { href: rows.code_url[run], rel: "noreferrer" }, commit.slice(0, 12)) : commit.slice(0, 12);
  const edits = rows.dirty[run] ? (rows.code_url[run] ? ", with changes that the link does not show" : ", with uncommitted changes") : "";
  return element("div", { class: "code" },
    element("p", {}, "files:", files),
    element("p", {}, "code: ", link, edits),
    element("pre", {}, `lab runs code ${rows.run_id[run]}\nlab runs reproduce ${rows.run_id[run]} --check`));
}

function factTable(lines) {
  return element("table", { class: "facts" }, element("tbody", {}, lines.filter(([, text]) => text).map(([name, text]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, text)))));
}
