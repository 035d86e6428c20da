/**
 * Checks that a method says what it adds, restores or takes: a name that many classes have cannot be searched for. `npm run check`
 * runs this. It reads the indentation, which `biome check` keeps.
 */
import { globSync, readFileSync } from 'node:fs'

const forbidden = ['add', 'load', 'restore', 'take', 'whole', 'won']
const method = new RegExp(
  `^  (?:(?:private|protected|static|async|override) )*\\*?(${forbidden.join('|')})(?:<[^>]*>)?\\((?!.*\\)$)`,
)

const faults: string[] = []
for (const file of globSync('{admin,opd,proxy,service}/**/*.ts')) {
  let isClass = false
  for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    if (/^\S/.test(line)) isClass = /^(?:export )?(?:abstract )?class /.test(line)
    const name = isClass ? method.exec(line)?.[1] : undefined
    if (name !== undefined)
      faults.push(`${file}:${index + 1}: \`${name}\` is a method of many classes; name the thing`)
  }
}
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
