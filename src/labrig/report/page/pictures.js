// The pictures and tables that the chosen runs saved.

const MOST_WITH_PICTURES = 12; // runs

function drawPictures(panel) {
  const runs = chosenRuns(MOST_WITH_PICTURES);
  const numbered = report.pictures.map((picture, place) => ({ ...picture, place })).filter((picture) => runs.includes(picture.run));
  const inside = numbered.filter((picture) => picture.is_inside);
  const names = [...new Set(inside.map((picture) => picture.name))]; // of one name those of all runs stand side by side
  const rows = names.map((name) => element("div", { class: "pictures" }, inside.filter((picture) => picture.name === name).map(pictureFigure)));
  const others = numbered.filter((picture) => !picture.is_inside);
  const note = report.pictures.length ? "None of the chosen runs saved a picture or a table." : "No run saved a picture or a table in its folder pictures/.";
  panel.replaceChildren(...(numbered.length ? rows : [element("p", { class: "note" }, note)]));
  if (others.length) panel.append(element("p", { class: "note" }, "not inside this page: ", others.flatMap((picture) => [pictureLink(picture, `${picture.name} of ${nameOf(picture.run)}`), " "])));
}

function pictureFigure(picture) {
  const caption = element("figcaption", {}, `${picture.name} · ${nameOf(picture.run)} · `, pictureLink(picture, "file"));
  return element("figure", { "data-run": picture.run }, pictureContent(picture), caption);
}

function pictureLink(picture, text) {
  return element("a", { href: fileLink(picture.file) }, text);
}

function pictureContent(picture) {
  if (picture.media === "table") return savedTable(picture.rows);
  const content = document.getElementById(`picture-${picture.place}`).textContent;
  return element("img", { src: `data:${picture.media};base64,${content}`, alt: picture.name, loading: "lazy" });
}

function savedTable([head = [], ...rows]) {
  const cells = (tag, row) => row.map((text) => element(tag, {}, text));
  return element("div", { class: "table-box" }, element("table", {},
    element("thead", {}, element("tr", {}, cells("th", head))),
    element("tbody", {}, rows.map((row) => element("tr", {}, cells("td", row))))));
}

/** A path of files as a link; each part is escaped. */
function fileLink(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}
