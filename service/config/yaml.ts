/** Parses YAML into values. Every fault has its line. */
import {
  type Document,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import type { ConfigFault } from './faults.ts'
import { type Path, pathText, variable } from './values.ts'

interface Yaml {
  /** undefined if the file cannot be parsed. */
  root: unknown
  faults: ConfigFault[]
  lineOf: (path: Path) => number | null
}

/** Uses of aliases, nested ones counted each time. Ten thousand suppliers may share a block; a "billion laughs" file fails. */
const maxAliases = 20_000

/** Errors after which the rest of the file is still valid. `found` null: the parser's message is used. */
const recoverable: Readonly<Record<string, { found: string | null; allowed: string }>> = {
  DUPLICATE_KEY: { found: 'a key that is repeated', allowed: 'each key once' },
  TAG_RESOLVE_FAILED: { found: null, allowed: "no tag but YAML's own" },
}
const fatal: Readonly<Record<string, { found: string | null; allowed: string }>> = {
  // The parser's message would repeat the text, which may be a secret.
  UNEXPECTED_TOKEN: { found: 'text that is not YAML', allowed: 'YAML 1.2' },
  MULTIPLE_DOCS: { found: 'a second document', allowed: 'one document' },
}
const fallback = { found: null, allowed: 'YAML 1.2' }

/**
 * `{limit: ${N}}` is not YAML, because a brace ends a plain value there. While the text is parsed, two private-use
 * characters of Unicode replace `${` and `}`. Only text of a file is unmasked: in a value of the API the two characters
 * would be a variable that no check has seen.
 */
const masked = /\ue000([A-Za-z0-9_]+)\ue001/g
const maskVariables = (text: string) => text.replace(variable, '\ue000$1\ue001')
const unmaskVariables = (text: string) => text.replace(masked, '${$1}')

/** Keys and values as their author wrote them. */
function unmaskScalars(document: Document): void {
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === 'string') node.value = unmaskVariables(node.value)
    },
  })
}

const rangeOf = (node: unknown) => (isNode(node) ? (node.range ?? null) : null)

/** For each of the ascending offsets, the path of the key or value at it; [] where there is none. */
function pathsAt(document: Document, offsets: readonly number[]): Path[] {
  const paths = offsets.map((): Path => [])
  if (offsets.length === 0) return paths
  /** Index of the first one at or after an offset. */
  const firstFrom = (offset: number) => {
    let [low, high] = [0, offsets.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (offsets[middle]! < offset) low = middle + 1
      else high = middle
    }
    return low
  }
  visit(document, {
    Pair(_key, pair, ancestors) {
      const from = rangeOf(pair.key)?.[0] ?? Number.POSITIVE_INFINITY
      const to = (rangeOf(pair.value) ?? rangeOf(pair.key))?.[1] ?? -1
      const first = firstFrom(from)
      const end = firstFrom(to + 1)
      if (first >= end) return visit.SKIP
      paths.fill(pathOf([...ancestors, pair]), first, end)
      return undefined
    },
  })
  return paths
}

const pathOf = (nodes: readonly unknown[]): Path =>
  nodes.flatMap<string | number>((node, index) => {
    if (isPair(node)) return [isScalar(node.key) ? unmaskVariables(String(node.key.value)) : '?']
    return isSeq(node) ? [node.items.indexOf(nodes[index + 1])] : []
  })

/**
 * Reads YAML; faults have line and column.
 *
 * @param text one document, in which `${NAME}` may be an unquoted value
 * @returns the value and its faults. `lineOf`: the line (from 1) of a value; of a missing one that of the map or list that
 *   should have it, null for a missing key of the document
 */
export function readYaml(text: string): Yaml {
  const lines = new LineCounter()
  const document = parseDocument(maskVariables(text), {
    lineCounter: lines,
    prettyErrors: false,
    merge: true,
  })
  const lineOf = (path: Path): number | null => {
    if (path.length === 0) return null
    const range = rangeOf(document.getIn(path as unknown[], true))
    return range === null ? lineOf(path.slice(0, -1)) : lines.linePos(range[0]).line
  }
  const problems = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  const broken = document.errors.some(({ code }) => !(code in recoverable))
  // In text that is not YAML anything may look like a key, a secret too.
  const paths = broken
    ? []
    : pathsAt(
        document,
        problems.map(({ pos }) => pos[0]),
      )
  const faults = problems.map(({ code, message, pos }, index): ConfigFault => {
    const { found, allowed } = recoverable[code] ?? fatal[code] ?? fallback
    return {
      path: pathText(paths[index] ?? []),
      line: lines.linePos(pos[0]).line,
      found: found ?? unmaskVariables(message),
      allowed,
    }
  })
  if (broken) return { root: undefined, faults, lineOf }
  try {
    unmaskScalars(document)
    return { root: document.toJS({ maxAliasCount: maxAliases }), faults, lineOf }
  } catch (error) {
    const allowed = `aliases of anchors above them, of maps where they are merged, at most ${maxAliases} uses`
    faults.push({ path: '', line: null, found: (error as Error).message, allowed })
    return { root: undefined, faults, lineOf }
  }
}
