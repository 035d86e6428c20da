/**
 * Checks that no function has a variable that begins as null and is set by a function within it: such state is a class, or a
 * value that is made once (`opd/base/lazy.ts`). `npm run check` runs this. It reads the indentation, which `biome check` keeps.
 */
import { globSync, readFileSync } from 'node:fs'

const declaration = /^( *)let (\w+)(?:: .+)? = null$/
const indentOf = (line: string) => line.length - line.trimStart().length

/** Whether a line that ends with an opening brace or an arrow begins a function. */
const beginsFunction = (line: string) =>
  /=>( \{)?$/.test(line) ||
  (/\) ?(: .+)? \{$/.test(line) && !/^\s*(\} )?(else )?(if|for|while|switch|catch|try) /.test(line))

/** The lines that the line at `index` is within, up to the one with this indentation. */
function* outerLines(lines: readonly string[], index: number, indent: number): Generator<string> {
  let least = indentOf(lines[index]!)
  for (let number = index - 1; number >= 0 && least > indent; number--) {
    const line = lines[number]!
    if (line === '' || indentOf(line) >= least) continue
    least = indentOf(line)
    yield line
  }
}

const faults: string[] = []
for (const file of globSync('{admin,opd,proxy,service}/**/*.ts')) {
  const lines = readFileSync(file, 'utf8').split('\n')
  for (const [start, line] of lines.entries()) {
    const [, space = '', name] = declaration.exec(line) ?? []
    if (name === undefined) continue
    const indent = space.length
    const sets = new RegExp(`(?<![.\\w])${name} (?:\\?\\?|\\|\\||&&)?= `)
    for (
      let number = start + 1;
      number < lines.length && (lines[number] === '' || indentOf(lines[number]!) >= indent);
      number++
    ) {
      const set = sets.exec(lines[number]!)
      if (set === null) continue
      const isWithin =
        lines[number]!.slice(0, set.index).includes('=> ') ||
        [...outerLines(lines, number, indent)].some(beginsFunction)
      if (!isWithin) continue
      faults.push(
        `${file}:${start + 1}: \`${name}\` is set by a function within; make it a field of a class`,
      )
      break
    }
  }
}
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
