/** Spans as OTLP in JSON (OpenTelemetry protocol 1.x, JSON Protobuf encoding). */
import { hostname } from 'node:os'
import { programVersion } from '../../admin/http/version.ts'

/** Numbers of OTLP. */
export const spanKinds = { server: 2, client: 3 } as const

export type Attributes = Record<string, string | number>

export interface Span {
  traceId: string
  spanId: string
  /** null: the trace begins here. */
  parentId: string | null
  name: string
  kind: keyof typeof spanKinds
  /** Milliseconds since the epoch. */
  start: number
  end: number
  attributes: Attributes
  /** null: it did not fail. */
  error: string | null
}

/** `key=value,key=value` of OTEL_RESOURCE_ATTRIBUTES, with percent-encoded values; entries that are not valid are left out. */
function fromEnvironment(text = ''): Attributes {
  const entries = text.split(',').flatMap((entry) => {
    const [, key, value] = /^\s*([^=\s]+)\s*=(.*)$/.exec(entry) ?? []
    try {
      return key === undefined ? [] : [[key, decodeURIComponent(value!.trim())] as const]
    } catch {
      return []
    }
  })
  return Object.fromEntries(entries)
}

/** What the spans of this process have in common. `worker`: its number, 0 is the first process. */
export function resourceOf(location: string, worker: number, env = process.env): Attributes {
  return {
    'service.name': env['OTEL_SERVICE_NAME'] || 'bidweir',
    'service.version': programVersion(),
    'service.instance.id': `${hostname()}-${worker}`,
    'host.name': hostname(),
    'process.pid': process.pid,
    'bidweir.location': location,
    ...fromEnvironment(env['OTEL_RESOURCE_ATTRIBUTES']),
  }
}

const valuesOf = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value },
  }))

/** Nanoseconds as text: more than a number can have. */
const nanoseconds = (ms: number) => `${Math.round(ms * 1000)}000`

const spanOf = ({ traceId, spanId, parentId, name, kind, start, end, ...span }: Span) => ({
  ...{ traceId, spanId, name, kind: spanKinds[kind], flags: 1 },
  ...(parentId === null ? {} : { parentSpanId: parentId }),
  startTimeUnixNano: nanoseconds(start),
  endTimeUnixNano: nanoseconds(end),
  attributes: valuesOf(span.attributes),
  ...(span.error === null ? {} : { status: { code: 2, message: span.error } }),
})

/** The body of one export. */
export const exportBody = (resource: Attributes, spans: readonly Span[]): string =>
  JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: valuesOf(resource) },
        scopeSpans: [
          { scope: { name: 'bidweir', version: programVersion() }, spans: spans.map(spanOf) },
        ],
      },
    ],
  })
