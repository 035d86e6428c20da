/** Trace Context (W3C, 2021): the fields `traceparent` and `tracestate` of a request. */
import { randomBytes } from 'node:crypto'

interface TraceParent {
  traceId: string
  /** The span of the caller. */
  spanId: string
  sampled: boolean
}

// Later versions may have more fields.
const format =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

const isNamed = (name: string, wanted: string) =>
  name.length === wanted.length && name.toLowerCase() === wanted

/** Of a flat list of names and values; null: there is none, several, or one that is not valid. */
export function traceParentOf(fields: readonly string[]): TraceParent | null {
  let value: string | null = null
  for (let index = 0; index < fields.length; index += 2) {
    if (!isNamed(fields[index]!, 'traceparent')) continue
    if (value !== null) return null
    value = fields[index + 1]!
  }
  if (value === null) return null
  const [, version, traceId, spanId, flags, more] = format.exec(value) ?? []
  if (traceId === undefined || (version === '00' && more !== undefined)) return null
  return { traceId, spanId: spanId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

/** The fields with this span as the parent. `keepsState`: the trace is that of the caller. */
export function withParent(
  fields: readonly string[],
  { traceId, spanId }: { traceId: string; spanId: string },
  keepsState: boolean,
): string[] {
  const out: string[] = []
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!
    if (isNamed(name, 'traceparent') || (!keepsState && isNamed(name, 'tracestate'))) continue
    out.push(name, fields[index + 1]!)
  }
  out.push('traceparent', `00-${traceId}-${spanId}-01`)
  return out
}

export const newTraceId = () => randomBytes(16).toString('hex')
export const newSpanId = () => randomBytes(8).toString('hex')
