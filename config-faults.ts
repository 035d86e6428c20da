/** Faults as a user reads them: where, what was found, what is allowed. */
import type * as z from 'zod'
import { jsonSchema } from './config.ts'
import { type Path, show, valueAt } from './config-path.ts'

export interface ConfigFault {
  /** `suppliers[0].opd.minFactor`; empty for the file as a whole. */
  path: string
  /** 1-based; null where the value does not stand in the file. */
  line: number | null
  found: string
  allowed: string
}

interface SchemaNode {
  properties?: Record<string, SchemaNode>
  items?: SchemaNode
  anyOf?: SchemaNode[]
}

/** The keys that the schema knows at a path. */
function knownKeys(path: Path): string[] {
  let nodes: SchemaNode[] = [jsonSchema() as SchemaNode]
  const open = (node: SchemaNode): SchemaNode[] => [node, ...(node.anyOf ?? []).flatMap(open)]
  for (const part of path)
    nodes = nodes
      .flatMap(open)
      .flatMap(
        (node) => (typeof part === 'number' ? node.items : node.properties?.[String(part)]) ?? [],
      )
  return nodes.flatMap(open).flatMap((node) => Object.keys(node.properties ?? {}))
}

function allowed(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected
    case 'too_small':
      return issue.origin === 'string' || issue.origin === 'array'
        ? `at least ${issue.minimum} ${issue.origin === 'string' ? 'characters' : 'entries'}`
        : `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`
    case 'too_big':
      return issue.origin === 'string' || issue.origin === 'array'
        ? `at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'entries'}`
        : `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`
    case 'invalid_value':
      return issue.values.map((value) => JSON.stringify(value)).join(' | ')
    case 'invalid_union':
      return [
        ...new Set(issue.errors.flat().map((inner) => allowed(inner as z.core.$ZodIssue))),
      ].join(' | ')
    default:
      return issue.message
  }
}

const secretPath = /(secret|password|key|token|redis|database)$/i

function describe(value: unknown, path: Path, outside: Map<string, string>): string {
  const source = outside.get(show(path))
  if (value === undefined) return 'nothing'
  if (source !== undefined) return `the value of ${source}`
  if (secretPath.test(String(path.at(-1)))) return `a ${typeof value}`
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 120 ? `${text.slice(0, 117)}…` : text
}

export function faultsOf(
  issues: readonly z.core.$ZodIssue[],
  root: unknown,
  outside: Map<string, string>,
  lineOf: (path: Path) => number | null,
): ConfigFault[] {
  return issues.flatMap((issue): ConfigFault[] => {
    if (issue.code === 'unrecognized_keys') {
      const keys = knownKeys(issue.path)
      return issue.keys.map((key) => ({
        path: show([...issue.path, key]),
        line: lineOf([...issue.path, key]),
        found: 'a key that is not known',
        allowed: keys.length > 0 ? keys.join(', ') : 'no such key',
      }))
    }
    return [
      {
        path: show(issue.path),
        line: lineOf(issue.path),
        found: describe(valueAt(root, issue.path), issue.path, outside),
        allowed: allowed(issue),
      },
    ]
  })
}

/** One line a fault: `bidweir.yaml:12: suppliers[0].timeout: found "fast", allowed: a duration …`. */
export function faultLine(fault: ConfigFault, file: string): string {
  const place = fault.line === null ? file : `${file}:${fault.line}`
  return `${place}: ${fault.path === '' ? '' : `${fault.path}: `}found ${fault.found}, allowed: ${fault.allowed}`
}
