/** Imported before a program: an OpenTelemetry SDK that appends each span to the file of SPANS, as a line of JSON. */
import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import {
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node'

export interface ExportedSpan {
  name: string
  kind: number
  trace: string
  id: string
  parent: string | null
  attributes: Record<string, unknown>
  /** 2: error. */
  status: number
  /** Seconds since the epoch. */
  start: number
  end: number
}

const seconds = ([whole, nanos]: readonly [number, number]) => whole + nanos / 1e9

function exported(span: ReadableSpan): ExportedSpan {
  const { traceId, spanId } = span.spanContext()
  return {
    ...{ name: span.name, kind: span.kind, trace: traceId, id: spanId },
    parent: span.parentSpanContext?.spanId ?? null,
    attributes: span.attributes,
    status: span.status.code,
    start: seconds(span.startTime),
    end: seconds(span.endTime),
  }
}

const file = process.env['SPANS']
if (file !== undefined && isMainThread)
  new NodeTracerProvider({
    spanProcessors: [
      new SimpleSpanProcessor({
        export(spans, done) {
          for (const span of spans) appendFileSync(file, `${JSON.stringify(exported(span))}\n`)
          done({ code: 0 })
        },
        shutdown: async () => {},
      }),
    ],
  }).register()
