/**
 * Checks that a function that other folders call has its parameters explained by `@param`: their unit, range or form. `npm run
 * check` runs this.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const files = globSync('{admin,opd,proxy,service}/**/*.ts')
const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]))

/** The names that files of other folders import, by file. */
const imported = new Map<string, Set<string>>()
for (const [file, text] of texts)
  for (const [, names, from] of text.matchAll(/import (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)) {
    const target = join(dirname(file), from!)
    if (dirname(target) === dirname(file)) continue
    const known = imported.get(target) ?? new Set()
    for (const name of names!.split(','))
      known.add(name.trim().replace('type ', '').split(' as ')[0]!)
    imported.set(target, known)
  }

/** A function with parameters, after its docstring. */
const declaration =
  /(\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?^export (?:(?:async )?function\*? (\w+)(?:<[^(]*>)?\((?!\))|const (\w+) = (?:async )?(?:<[^(]*>)?\((?!\)))/gm

const faults: string[] = []
for (const [file, text] of texts) {
  for (const { 1: doc = '', 2: declared, 3: assigned, index } of text.matchAll(declaration)) {
    const name = declared ?? assigned!
    if (doc.includes('@param') || !imported.get(file)?.has(name)) continue
    const line = text.slice(0, index + doc.length).split('\n').length
    faults.push(`${file}:${line}: other folders call \`${name}\`; explain its parameters by @param`)
  }
}
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
