// Elements of the page. Text is only ever text here, never markup: nothing that a run says can become an element.

/** element("td", {class: "number"}, child, "text", …): an element; an attribute `onclick` is a listener. */
function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a drawing: drawing("circle", {r: 3}). */
function drawing(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** A control with its name: a list to choose one from. `options` are texts, or pairs of value and text. */
function chooser(label, options, value, onchoose) {
  const select = element("select", { onchange: () => onchoose(select.value) });
  for (const option of options) {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    select.append(element("option", { value: key, selected: key === value }, text));
  }
  return element("label", {}, `${label} `, select);
}

/** A control: a box to tick. */
function tick(label, value, onchoose) {
  const box = element("input", { type: "checkbox", checked: value, onchange: () => onchoose(box.checked) });
  return element("label", {}, box, ` ${label}`);
}

/** Shows lines of text next to the pointer. */
function showTooltip(event, lines) {
  const tooltip = document.getElementById("tooltip");
  tooltip.replaceChildren(...lines.map((line) => element("div", {}, line)));
  tooltip.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - tooltip.offsetWidth - 8);
  const top = Math.min(event.clientY + 14, window.innerHeight - tooltip.offsetHeight - 8);
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

function hideTooltip() {
  document.getElementById("tooltip").hidden = true;
}

/** A colour of the style, such as "--line", as a drawing surface takes it. */
function styleColour(name) {
  const probe = element("span", { style: `color: var(${name})`, hidden: true });
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

// Okabe and Ito's colours, which colour-blind readers tell apart; further ones by the golden angle.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f"];
const COLOURS_ON_DARK = ["#4aa8ff", "#ff8b3d", "#2fd6a3", "#e59fc5", "#f0c030", "#8fd3ff", "#c9917f", "#b0b0b0"];

function colourOf(place) {
  const colours = isDark() ? COLOURS_ON_DARK : COLOURS;
  return colours[place] ?? `hsl(${(place * 137.5) % 360} 60% ${isDark() ? 66 : 46}%)`;
}

function isDark() {
  const [red] = styleColour("--back").match(/[\d.]+/g).map(Number);
  return red < 128;
}

/** A number with four digits, any other value as it is, "" where there is none. */
function format(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}
