/**
 * Checks that what other folders call has its parameters explained by `@param`: their unit, range or form. `npm run check` runs
 * this.
 *
 * It reads text, not types. A method counts as called by a file that imports something from the file of the method and calls a
 * method of this name; if several types have the name, the file must import the type itself. The words are those of the
 * interface, where a class implements one. Names that arrays, maps or texts have say nothing about what is called.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const files = globSync('{admin,opd,proxy,service}/**/*.ts')
const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]))

/** The names that files of other folders import, by file and importing file. */
const imported = new Map<string, Map<string, Set<string>>>()
for (const [file, text] of texts)
  for (const [, names, from] of text.matchAll(/import (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)) {
    const target = join(dirname(file), from!)
    if (dirname(target) === dirname(file)) continue
    const importers = imported.get(target) ?? new Map<string, Set<string>>()
    imported.set(target, importers)
    const list = names!.split(',').map((name) => name.trim().replace('type ', '').split(' as ')[0]!)
    importers.set(file, new Set([...(importers.get(file) ?? []), ...list]))
  }
const importersOf = (file: string) => [...(imported.get(file) ?? [])]

const faults: string[] = []
function addFault(file: string, index: number, name: string): void {
  const line = texts.get(file)!.slice(0, index).split('\n').length
  faults.push(`${file}:${line}: other folders call \`${name}\`; explain its parameters by @param`)
}

const docstring = String.raw`(\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?`
/** A function with parameters, after its docstring. */
const declaration = new RegExp(
  String.raw`${docstring}^export (?:(?:async )?function\*? (\w+)(?:<[^(]*>)?\((?!\))|const (\w+) = (?:async )?(?:<[^(]*>)?\((?!\)))`,
  'gm',
)
for (const [file, text] of texts)
  for (const { 1: doc = '', 2: declared, 3: assigned, index } of text.matchAll(declaration)) {
    const name = declared ?? assigned!
    if (!doc.includes('@param') && importersOf(file).some(([, names]) => names.has(name)))
      addFault(file, index + doc.length, name)
  }

/** A class or an interface: its name, what it extends and implements, and its body. */
const typeDeclaration = /^(?:export )?(?:abstract )?(?:class|interface) (\w+)([^{]*)\{\n(.*?)^\}/gms
/** A method with parameters, after its docstring. One that is private has another word before its name. */
const methodDeclaration = new RegExp(
  String.raw`${docstring}^  (?:static |async |override |\*)*(?!constructor)(\w+)\??(?:<[^(\n]*>)?\((?!\))`,
  'gm',
)

interface Method {
  file: string
  index: number
  type: string
  name: string
  isExplained: boolean
}

/** The words behind the name of a type: those that it extends and implements are among them. */
const heritage = new Map<string, string[]>()
const methods: Method[] = []
for (const [file, text] of texts)
  for (const { 0: all, 1: type, 2: head, 3: body, index } of text.matchAll(typeDeclaration)) {
    heritage.set(type!, head!.match(/\w+/g) ?? [])
    const start = index + all.length - 1 - body!.length
    for (const found of body!.matchAll(methodDeclaration)) {
      const { 1: doc = '', 2: name } = found
      const isExplained = doc.includes('@param')
      const position = start + found.index + doc.length
      methods.push({ file, index: position, type: type!, name: name!, isExplained })
    }
  }

const inherits = (type: string, other: string): boolean =>
  (heritage.get(type) ?? []).some((word) => word === other || inherits(word, other))

const builtIns: object[] = [[], new Map(), new Set(), Object('')]

for (const [name, all] of Map.groupBy(methods, (method) => method.name)) {
  const heads = all.filter(({ type }) => !all.some((other) => inherits(type, other.type)))
  if (builtIns.some((value) => name in value)) continue
  for (const { file, index, type, isExplained } of heads) {
    const isCalled = importersOf(file).some(
      ([importer, names]) =>
        (heads.length === 1 || names.has(type)) && texts.get(importer)!.includes(`.${name}(`),
    )
    if (isCalled && !isExplained) addFault(file, index, `${type}.${name}`)
  }
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
