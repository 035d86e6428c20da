/** Parses bodies of the management API: strict JSON, then the aliases of `datacenters`, then the schema. */
import type * as z from 'zod'
import { escapePart, parseJson } from '../http/json-body.ts'
import type { ProblemFault } from '../http/problem.ts'

/** Faults in one response. */
const most = 100

/** Names of the list of data centers. A body has at most one of them. */
const aliases = ['datacenters', 'svc', 'the service']

function aliased(value: unknown): { value: unknown; name: string } | { faults: ProblemFault[] } {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    return { faults: [{ pointer: '', detail: 'must be a JSON object' }] }
  const names = aliases.filter((name) => Object.hasOwn(value, name))
  if (names.length > 1)
    return {
      faults: names.map((name) => ({
        pointer: `/${name}`,
        detail: 'the list of data centers is repeated',
      })),
    }
  const [name = 'datacenters'] = names
  if (name === 'datacenters') return { value, name }
  const { [name]: list, ...rest } = value as Record<string, unknown>
  return { value: { ...rest, datacenters: list }, name }
}

type Parsed<T> =
  | { value: T; named: (faults: readonly ProblemFault[]) => ProblemFault[] }
  | { faults: ProblemFault[] }

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'a boolean',
  array: 'a list',
  object: 'an object',
}
const lengths: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

/** The messages of zod in the words of the API. A message that a schema gives stays as it is. */
function detailOf(issue: z.core.$ZodIssue): string {
  const { message } = issue
  if (issue.code === 'invalid_type' && message.startsWith('Invalid input'))
    return issue.input === undefined
      ? 'is required'
      : `must be ${kinds[issue.expected] ?? issue.expected}`
  if (issue.code === 'too_small' && message.startsWith('Too small')) {
    const unit = lengths[issue.origin]
    if (unit === undefined) return `must be at least ${issue.minimum}`
    return issue.minimum === 1 ? 'must not be empty' : `must have at least ${issue.minimum} ${unit}`
  }
  if (issue.code === 'too_big' && message.startsWith('Too big')) {
    const unit = lengths[issue.origin]
    return unit === undefined
      ? `must be at most ${issue.maximum}`
      : `must have at most ${issue.maximum} ${unit}`
  }
  return message
}

/** `named` replaces `/datacenters` in the pointers of later faults by the name that the client used. */
export function parsed<T>(body: unknown, schema: z.ZodType<T>): Parsed<T> {
  const json = parseJson(Buffer.isBuffer(body) ? body : Buffer.alloc(0))
  if ('faults' in json) return json
  const plain = aliased(json.value)
  if ('faults' in plain) return plain
  const named = (faults: readonly ProblemFault[]) =>
    faults.slice(0, most).map(({ pointer, detail }) => ({
      pointer: pointer.replace(/^\/datacenters(?=\/|$)/, `/${plain.name}`),
      detail,
    }))
  const result = schema.safeParse(plain.value, { reportInput: true })
  if (result.success) return { value: result.data, named }
  const faults = result.error.issues.flatMap((issue): ProblemFault[] => {
    const at = issue.path.map((part) => `/${escapePart(String(part))}`).join('')
    return issue.code === 'unrecognized_keys'
      ? issue.keys.slice(0, most).map((key) => ({
          pointer: `${at}/${escapePart(key)}`,
          detail: 'unknown field',
        }))
      : [{ pointer: at, detail: detailOf(issue) }]
  })
  return { faults: named(faults) }
}
