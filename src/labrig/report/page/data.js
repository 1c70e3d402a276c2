// The data in the page: a table that is opened at once, and curves that are opened when they are looked at.

let report = null; // the table, as gather.py made it

/** The bytes of the data block with this id. */
async function openBlock(id) {
  const bytes = fromBase64(document.getElementById(id).textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  return bytes;
}

async function openReport() {
  report = JSON.parse(new TextDecoder().decode(await openBlock("table")));
  report.n = report.rows.run_id.length;
}

const openedCurves = new Map();

/** The curves of a metric: {steps, values} by the number of the run. */
function curvesOf(metric) {
  if (!openedCurves.has(metric)) openedCurves.set(metric, openCurves(metric));
  return openedCurves.get(metric);
}

async function openCurves(metric) {
  const place = report.curves.findIndex((each) => each.metric === metric);
  const curves = new Map();
  if (place < 0) return curves;
  const { runs, lengths } = report.curves[place];
  const count = lengths.reduce((sum, length) => sum + length, 0);
  const bytes = await openBlock(`curves-${place}`);
  const distances = joinPlanes(bytes, 0, 4, count);
  const values = new Float32Array(joinPlanes(bytes, 4 * count, 3, count).map((bits) => bits << 8).buffer);
  let begin = 0;
  for (let each = 0; each < runs.length; each++) {
    const end = begin + lengths[each];
    const steps = new Float64Array(lengths[each]);
    let step = 0;
    for (let point = begin; point < end; point++) steps[point - begin] = step += distances[point];
    curves.set(runs[each], { steps, values: values.subarray(begin, end) });
    begin = end;
  }
  return curves;
}

/** Numbers whose bytes lie apart: all lowest ones, then all next higher ones. */
function joinPlanes(bytes, start, nPlanes, count) {
  const numbers = new Uint32Array(count);
  for (let plane = 0; plane < nPlanes; plane++) {
    const shift = 8 * plane;
    const offset = start + plane * count;
    for (let place = 0; place < count; place++) numbers[place] |= bytes[offset + place] << shift;
  }
  return numbers;
}
