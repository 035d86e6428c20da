/** JSON of people and their scripts, strictly: UTF-8, one value, and no key twice in an object. */
import { isUtf8 } from 'node:buffer'
import type { ProblemFault } from './problem.ts'

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/** JSON pointers of keys that stand twice; `text` must be JSON. */
function repeatedKeys(text: string): string[] {
  const repeated: string[] = []
  const stack: { keys: Set<string> | null; part: string; index: number }[] = []
  let pending: string | null = null
  for (const [found] of text.matchAll(token)) {
    const top = stack.at(-1)
    if (found === '{' || found === '[')
      stack.push({ keys: found === '{' ? new Set() : null, part: '', index: 0 })
    else if (found === '}' || found === ']') stack.pop()
    else if (found === ',') {
      if (top !== undefined && top.keys === null) top.index++
    } else if (found === ':') {
      if (top?.keys == null || pending === null) continue
      top.part = JSON.parse(pending) as string
      if (top.keys.has(top.part)) repeated.push(pointer(stack))
      top.keys.add(top.part)
    } else pending = found
  }
  return repeated
}

const pointer = (stack: readonly { keys: Set<string> | null; part: string; index: number }[]) =>
  stack
    .map(({ keys, part, index }) => `/${escapePart(keys === null ? String(index) : part)}`)
    .join('')

/** RFC 6901 3 */
export const escapePart = (part: string) => part.replaceAll('~', '~0').replaceAll('/', '~1')

export function parseJson(body: Buffer): { value: unknown } | { faults: ProblemFault[] } {
  if (!isUtf8(body)) return { faults: [{ pointer: '', detail: 'the body is not UTF-8' }] }
  const text = body.toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return {
      faults: [{ pointer: '', detail: `the body is not JSON: ${(error as Error).message}` }],
    }
  }
  const repeated = repeatedKeys(text)
  return repeated.length === 0
    ? { value }
    : { faults: repeated.map((at) => ({ pointer: at, detail: 'this key stands twice' })) }
}
