/** A receiver of OTLP over HTTP in JSON, as collectors have one. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

type Value = { stringValue?: string; intValue?: string }
interface Attribute {
  key: string
  value: Value
}
interface SentSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes?: Attribute[]
  status?: { code?: number; message?: string }
}

export interface ReceivedSpan {
  name: string
  kind: number
  trace: string
  id: string
  /** '': none. */
  parent: string
  attributes: Record<string, string | number>
  /** 2: error. */
  status: number
  /** Milliseconds since the epoch. */
  start: number
  end: number
  resource: Record<string, string | number>
}

const valuesOf = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue } }) => [
      key,
      stringValue ?? Number(intValue),
    ]),
  )

const milliseconds = (nanos: string) => Number(BigInt(nanos) / 1000n) / 1000

export async function otlpReceiver() {
  const spans: ReceivedSpan[] = []
  const requests: { url: string; headers: NodeJS.Dict<string | string[]>; status: number }[] = []
  /** Statuses of the next responses; then 200. */
  const statuses: number[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const status = statuses.shift() ?? 200
      requests.push({ url: request.url!, headers: request.headers, status })
      if (status === 200) take(Buffer.concat(chunks), request.headers['content-encoding'])
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))

  function take(body: Buffer, encoding: string | undefined): void {
    const text = (encoding === 'gzip' ? gunzipSync(body) : body).toString()
    const { resourceSpans } = JSON.parse(text) as {
      resourceSpans: {
        resource: { attributes: Attribute[] }
        scopeSpans: { spans: SentSpan[] }[]
      }[]
    }
    for (const { resource, scopeSpans } of resourceSpans)
      for (const span of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({
          ...{ name: span.name, kind: span.kind, trace: span.traceId, id: span.spanId },
          parent: span.parentSpanId ?? '',
          attributes: valuesOf(span.attributes),
          status: span.status?.code ?? 0,
          start: milliseconds(span.startTimeUnixNano),
          end: milliseconds(span.endTimeUnixNano),
          resource: valuesOf(resource.attributes),
        })
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    statuses,
    spansOf: (trace: string) => spans.filter((span) => span.trace === trace),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
