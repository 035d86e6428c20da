/**
 * Reads what the runner saved of a suite, and finds skips and flaky files in it.
 *
 *   node .ci/results.mjs skips RUN     counts the skipped tests; .ci/skips must allow each in this run
 *   node .ci/results.mjs parts PART:REASON…   counts the parts of CI that did not run; .ci/skips must allow each, for its reason
 *   node .ci/results.mjs flaky FILE…   files that failed once and passed: the third time within a week fails (.ci/flaky)
 */
import { globSync, readFileSync } from 'node:fs'

const results = '.tap/test-results'

const entries = (file) =>
  readFileSync(new URL(file, import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => line.split(/\s+/))

/** [file, reason] of each test that was skipped. */
function skipped() {
  return globSync(`${results}/**/*.tap`).flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(/# SKIP ?(.*)$/gm)].map(([, reason]) => [
      path.slice(results.length + 1, -'.tap'.length),
      reason,
    ]),
  )
}

function checkSkips(run) {
  const allowed = entries('skips').filter(
    ([runs, , variable = '']) => runs.split(',').includes(run) && !process.env[variable],
  )
  const found = skipped()
  const unexpected = found.filter(
    ([file]) => !allowed.some(([, prefix]) => file.startsWith(prefix)),
  )
  console.log(`${found.length} tests were skipped, ${unexpected.length} of them unexpectedly`)
  for (const [file, reason] of found) console.log(`  ${file}: ${reason}`)
  if (unexpected.length === 0) return
  for (const [file, reason] of unexpected)
    console.error(
      `${file} was skipped (${reason}), and .ci/skips does not list it for the run "${run}"`,
    )
  process.exitCode = 1
}

function checkParts(left) {
  const allowed = entries('skips')
    .filter(([run]) => run === 'part')
    .flatMap(([, part, reasons]) => reasons.split(',').map((reason) => `${part}:${reason}`))
  const unexpected = left.filter((part) => !allowed.includes(part))
  console.log(`${left.length} parts were left out, ${unexpected.length} of them unexpectedly`)
  for (const part of left) console.log(`  ${part}`)
  if (unexpected.length === 0) return
  for (const part of unexpected)
    console.error(`the part ${part} was left out, and .ci/skips does not list it`)
  process.exitCode = 1
}

const day = 86_400_000

function checkFlaky(files) {
  const now = Date.now()
  const today = new Date(now).toISOString().slice(0, 10)
  for (const file of files) {
    const before = entries('flaky').filter(
      ([date, name]) => name === file && now - Date.parse(date) <= 7 * day,
    ).length
    console.log(
      `flaky: ${file} failed and then passed. Repair it, or add to .ci/flaky: ${today} ${file}`,
    )
    if (before < 2) continue
    console.error(`${file} failed and then passed for the third time within a week`)
    process.exitCode = 1
  }
}

const [command, ...rest] = process.argv.slice(2)
if (command === 'skips' && rest.length === 1) checkSkips(rest[0])
else if (command === 'parts') checkParts(rest)
else if (command === 'flaky') checkFlaky(rest)
else {
  console.error('usage: results.mjs skips RUN | parts PART:REASON… | flaky FILE…')
  process.exitCode = 2
}
