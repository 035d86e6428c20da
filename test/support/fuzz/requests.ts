/** Requests to mutate, for the supplier `slot`. */
import { below, mutated, pick, type Random } from './mutate.ts'

const json = 'Content-Type: application/json\r\n'
const sized = (line: string, slot: string, fields = '', body = '{"id":"1","imp":[]}') =>
  `${line}\r\nHost: ${slot}.example\r\n${json}${fields}Content-Length: ${body.length}\r\n\r\n${body}`
const chunked = (line: string, slot: string, fields = '') =>
  `${line}\r\nHost: ${slot}.example\r\n${json}${fields}Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n`
const bare = (line: string, slot: string, fields = '') =>
  `${line}\r\nHost: ${slot}.example\r\n${fields}\r\n`

const templates: readonly ((slot: string) => string)[] = [
  (slot) => sized(`POST /bid/${slot} HTTP/1.1`, slot),
  (slot) => sized(`POST /bid/${slot}?a=1&b=%20 HTTP/1.1`, slot, 'X-Openrtb-Version: 2.6\r\n'),
  (slot) => sized(`POST /bid/${slot} HTTP/1.1`, slot, 'Connection: keep-alive\r\n'),
  (slot) => sized(`POST /bid/${slot} HTTP/1.1`, slot, 'Connection: close\r\n'),
  (slot) => sized(`POST /bid/${slot} HTTP/1.1`, slot, 'Expect: 100-continue\r\n'),
  (slot) => chunked(`POST /bid/${slot} HTTP/1.1`, slot),
  (slot) => sized(`POST /bid/${slot} HTTP/1.0`, slot),
  (slot) => sized(`POST /bid/${slot} HTTP/1.0`, slot, 'Connection: keep-alive\r\n'),
  (slot) => sized(`POST http://${slot}.example/bid/${slot} HTTP/1.1`, slot),
  (slot) => sized(`POST /pass/${slot}/${slot}/x HTTP/1.1`, slot),
  (slot) => chunked(`PUT /pass/${slot}/${slot}/x HTTP/1.1`, slot),
  (slot) => bare(`GET /pass/${slot}/${slot}//x?y=1 HTTP/1.1`, slot),
  (slot) =>
    bare(
      `GET /pass/${slot}/${slot} HTTP/1.1`,
      slot,
      'Connection: Upgrade\r\nUpgrade: websocket\r\n',
    ),
  (slot) => bare(`GET /bid/${slot} HTTP/1.1`, slot),
  (slot) => sized('POST /bid/nobody HTTP/1.1', slot),
  (slot) => bare(`CONNECT ${slot}.example:443 HTTP/1.1`, slot),
  (slot) => bare('OPTIONS * HTTP/1.1', slot),
]

export const lines: readonly string[] = [
  ...[
    'chunked',
    'Chunked',
    'gzip, chunked',
    'identity',
    'chunked, chunked',
    ' chunked',
    'xchunked',
  ].map((value) => `Transfer-Encoding: ${value}`),
  ...[
    '0',
    '5',
    '19',
    '20',
    '019',
    '+19',
    '19, 19',
    '0x13',
    '-1',
    '1e1',
    '99999999999999999999',
  ].map((value) => `Content-Length: ${value}`),
  ...['close', 'keep-alive', 'Close', 'keep-alive, close', 'X-A', 'Upgrade', 'Host', ''].map(
    (value) => `Connection: ${value}`,
  ),
  ...['a.example', 'a b', '', 'a/b', 'a:80', '[::1]:1', 'a,b'].map((value) => `Host: ${value}`),
  ...['100-continue', '100-Continue', 'the-best', ''].map((value) => `Expect: ${value}`),
  ...['websocket', 'h2c', 'WebSocket'].map((value) => `Upgrade: ${value}`),
  ...['Proxy-Connection: close', 'Proxy-Connection: keep-alive', 'Keep-Alive: timeout=1'],
  ...['TE: trailers', 'Trailer: X-T', 'X-A: 1', 'X-A:', ' folded', '\tfolded', 'X-A : 1', 'X A: 1'],
  ...['Constructor: 1', '__proto__: 1', 'X-Long: '.padEnd(5000, 'y'), 'X-B: caf\xe9', 'X-C: a\tb'],
  ...['X-Forwarded-For: 9.9.9.9', 'Content-Encoding: gzip', 'Content-Type: text/plain', 'noColon'],
  ...['POST /bid/x HTTP/1.1', 'GET / HTTP/2.0', 'PRI * HTTP/2.0', 'HTTP/1.1 200 OK', 'X: \u0001'],
]

/** A good bid, and a damaged copy of it. */
export function repeatedRequest(slot: string, random: Random): [good: string, damaged: string] {
  const good = pick(random, templates.slice(0, 3))(slot)
  return [good, mutated(good, random, lines)]
}

/** One to three requests in line, at least one of them mutated. */
export function fuzzedRequests(slot: string, random: Random): string {
  const count = pick(random, [1, 1, 1, 2, 3])
  const damaged = below(random, count)
  return Array.from({ length: count }, (_, index) => {
    const text = pick(random, templates)(slot)
    return index === damaged ? mutated(text, random, lines) : text
  }).join('')
}
