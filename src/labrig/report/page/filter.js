// The filter: words that all must hold. key=value,value  key!=value  key<number  or a part of any text of a run.

const SEARCHED = ["run_id", "trial", "status", "who", "why", "tags", "project", "overrides", "exception"];

/** A test of a run for the words of a filter. A condition on what a run lacks never holds. */
function filterTest(text) {
  const tests = text.split(/\s+/).filter((word) => word).map(wordTest);
  return (run) => tests.every((test) => test(run));
}

function wordTest(word) {
  const match = /^([^<>=!]+)(<=|>=|!=|<|>|=)(.*)$/.exec(word);
  const column = match && columnOf(match[1]);
  if (!column) {
    const wanted = word.toLowerCase();
    return (run) => textOf(run).includes(wanted);
  }
  const [, key, sign, typed] = match;
  const number = Number(typed);
  if (sign === "<") return (run) => isNumber(column.value(run)) && column.value(run) < number;
  if (sign === ">") return (run) => isNumber(column.value(run)) && column.value(run) > number;
  if (sign === "<=") return (run) => isNumber(column.value(run)) && column.value(run) <= number;
  if (sign === ">=") return (run) => isNumber(column.value(run)) && column.value(run) >= number;
  const values = typed.split(",");
  const variants = key === "trial" ? "(/.*)?" : ""; // trial=wide means wide/lowlr, too
  const patterns = values.map((value) => asPattern(value, variants));
  const fits = (run) => {
    const value = column.value(run);
    if (isNumber(value)) return values.some((each) => each !== "" && Number(each) === value);
    return patterns.some((pattern) => pattern.test(String(value ?? "")));
  };
  if (sign === "=") return fits;
  return (run) => column.value(run) !== null && !fits(run);
}

/** A pattern in which * stands for any text; `ending` may follow. */
function asPattern(text, ending) {
  const parts = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}${ending}$`, "i");
}

function textOf(run) {
  return SEARCHED.map((key) => report.rows[key][run] ?? "").join("\n").toLowerCase();
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
