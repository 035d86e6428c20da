/** YAML as a value, with where each part of it stands, and what is wrong with it as YAML: all that can be told at once. */
import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import type { ConfigFault } from './faults.ts'
import { type Path, show } from './path.ts'
import { hide, unhide } from './values.ts'

export interface Yaml {
  /** undefined: there is none to be had. */
  root: unknown
  faults: ConfigFault[]
  lineOf: (path: Path) => number | null
}

/**
 * Uses of aliases, those within aliases counted each time: ten thousand suppliers may share a block, a laugh may not
 * be repeated a billion times.
 */
const mostAliases = 20_000

/** Behind these the rest of the file still says what it says. `found` null: in the parser's words. */
const readable: Readonly<Record<string, { found: string | null; allowed: string }>> = {
  DUPLICATE_KEY: { found: 'a key that stands above already', allowed: 'each key once' },
  TAG_RESOLVE_FAILED: { found: null, allowed: "no tag but YAML's own" },
}
const unreadable: Readonly<Record<string, { found: string | null; allowed: string }>> = {
  // The parser repeats what stands there.
  UNEXPECTED_TOKEN: { found: 'what is no YAML', allowed: 'YAML 1.2' },
  MULTIPLE_DOCS: { found: 'a second document', allowed: 'one document' },
}
const otherwise = { found: null, allowed: 'YAML 1.2' }

const rangeOf = (node: unknown) => (isNode(node) ? (node.range ?? null) : null)

/** For each of the rising offsets the key there, or that whose value stands there; [], the whole file, for the rest. */
function pathsAt(document: Document, offsets: readonly number[]): Path[] {
  const paths = offsets.map((): Path => [])
  if (offsets.length === 0) return paths
  /** The first of them at or behind an offset. */
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
      const behind = firstFrom(to + 1)
      if (first >= behind) return visit.SKIP
      paths.fill(pathOf([...ancestors, pair]), first, behind)
      return undefined
    },
  })
  return paths
}

const pathOf = (nodes: readonly unknown[]): Path =>
  nodes.flatMap<string | number>((node, at) => {
    if (isPair(node)) return [isScalar(node.key) ? unhide(String(node.key.value)) : '?']
    return isSeq(node) ? [node.items.indexOf(nodes[at + 1])] : []
  })

export function readYaml(text: string): Yaml {
  const lines = new LineCounter()
  const document = parseDocument(hide(text), {
    lineCounter: lines,
    prettyErrors: false,
    merge: true,
  })
  const lineOf = (at: Path) => {
    const node = document.getIn(at as unknown[], true)
    const range =
      isMap(node) || isScalar(node) ? node.range : (node as { range?: number[] } | undefined)?.range
    return range == null ? null : lines.linePos(range[0]!).line
  }
  const wrong = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  const broken = document.errors.some(({ code }) => !(code in readable))
  // In what is no YAML anything may look like a key, a secret too.
  const paths = broken
    ? []
    : pathsAt(
        document,
        wrong.map(({ pos }) => pos[0]),
      )
  const faults = wrong.map(({ code, message, pos }, at): ConfigFault => {
    const { found, allowed } = readable[code] ?? unreadable[code] ?? otherwise
    return {
      path: show(paths[at] ?? []),
      line: lines.linePos(pos[0]).line,
      found: found ?? unhide(message),
      allowed,
    }
  })
  if (broken) return { root: undefined, faults, lineOf }
  try {
    return { root: document.toJS({ maxAliasCount: mostAliases }), faults, lineOf }
  } catch (error) {
    const allowed = `aliases of anchors above them, of maps where they are merged, at most ${mostAliases} uses`
    faults.push({ path: '', line: null, found: (error as Error).message, allowed })
    return { root: undefined, faults, lineOf }
  }
}
