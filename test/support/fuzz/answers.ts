/** Answers of a supplier to mutate. */
import { below, mutated, pick, type Random } from './mutate.ts'

const body = '{"id":"1","seatbid":[]}'
const sized = (line: string, fields = '') =>
  `${line}\r\nContent-Type: application/json\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`
const chunked = (line: string, fields = '') =>
  `${line}\r\n${fields}Transfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n12;x=y\r\n:"1","seatbid":[]}\r\n0\r\nX-T: 1\r\n\r\n`

const templates: readonly string[] = [
  sized('HTTP/1.1 200 OK'),
  sized('HTTP/1.1 200 OK', 'Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n'),
  sized('HTTP/1.1 200 OK', 'Connection: close\r\n'),
  sized('HTTP/1.0 200 OK'),
  sized('HTTP/1.1 500 Oops', 'X-A: 1\r\nX-A: 2\r\n'),
  chunked('HTTP/1.1 200 OK'),
  chunked('HTTP/1.1 200 OK', 'Connection: X-B\r\nX-B: 1\r\n'),
  'HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n',
  'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n',
  `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${sized('HTTP/1.1 200 OK')}`,
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n${body}`,
  `HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n${'x'.repeat(70_000)}`,
]

const lines: readonly string[] = [
  ...['chunked', 'Chunked', 'gzip, chunked', 'identity', 'chunked, chunked', 'xchunked', ''].map(
    (value) => `Transfer-Encoding: ${value}`,
  ),
  ...['0', '5', '23', '24', '023', '+23', '23, 23', '0x17', '-1', '99999999999999999999'].map(
    (value) => `Content-Length: ${value}`,
  ),
  ...['close', 'keep-alive', 'Close', 'X-A', 'Upgrade', 'Content-Length', ''].map(
    (value) => `Connection: ${value}`,
  ),
  ...['Keep-Alive: timeout=0', 'Keep-Alive: timeout=x', 'Upgrade: h2c', 'Trailer: X-T'],
  ...['X-A: 1', 'X-A:', ' folded', '\tfolded', 'X-A : 1', 'X A: 1', 'X-B: caf\xe9', 'X-C: a\tb'],
  ...['Date: now', 'Content-Encoding: gzip', 'Set-Cookie: a', 'noColon', 'Constructor: 1'],
  ...['HTTP/1.1 100 Continue\r\n', 'HTTP/1.1 103 Early Hints\r\n', 'HTTP/1.1 200 OK', 'X: \u0001'],
  ...[
    'HTTP/2.0 200 OK',
    'HTTP/1.0 200 OK',
    'HTTP/1.1 101 Switching',
    'HTTP/1.1 099 X',
    'HTTP/1.1 200',
  ],
]

export interface FuzzedAnswer {
  bytes: string
  /** The bytes come in two segments, cut here. */
  cut: number
  /** The connection is closed behind them. */
  closes: boolean
}

export function fuzzedAnswer(random: Random): FuzzedAnswer {
  const bytes = mutated(pick(random, templates), random, lines)
  const end = bytes.indexOf('\r\n\r\n')
  // Cut behind the head, what is too much would meet the next request: no HTTP/1 client can distinguish them.
  const cut = random() < 0.5 ? below(random, end < 0 ? bytes.length : end) : 0
  return { bytes, cut, closes: random() < 0.6 }
}
