/** The CPU time of a request by the encoding of its body, decompression bombs included, as a multiple of a plain bid of 3 KB. */
import * as zlib from 'node:zlib'
import type { Run } from '../harness/bench.ts'
import { drive } from '../harness/client.ts'
import type { Block } from '../harness/report.ts'
import { startOrigin, startService, supplier } from '../harness/service.ts'
import { bidRequests, requestHead } from '../harness/traffic.ts'

const [plain] = bidRequests as [Buffer]
const padded = (length: number) => Buffer.concat([plain, Buffer.alloc(length - plain.length, ' ')])
const many = Buffer.from(
  `${String(plain).slice(0, -1)},"ext":[${Array.from({ length: 85 }, (_, index) => bidRequests[index % 8]!)}]}`,
)
const bomb = zlib.gzipSync(padded(2 ** 22), { level: 9 })
/** The same with a false length at its end, so that decoding is attempted. */
const falseLength = Buffer.from(bomb)
falseLength.writeUInt32LE(3000, falseLength.length - 4)

const bodies: readonly [string, string, Buffer][] = [
  ['plain, 3 KB', 'identity', plain],
  ['plain, 250 KB', 'identity', many],
  ['plain, 1 MiB', 'identity', padded(2 ** 20)],
  ['gzip of 3 KB', 'gzip', zlib.gzipSync(plain)],
  ['gzip of 250 KB', 'gzip', zlib.gzipSync(many)],
  ['gzip of 3 KB and 4 MiB of spaces', 'gzip', bomb],
  ['the same with a false length at its end', 'gzip', falseLength],
  ['br of it', 'br', zlib.brotliCompressSync(padded(2 ** 22))],
  ['deflate of it', 'deflate', zlib.deflateSync(padded(2 ** 22), { level: 9 })],
]

export async function encodedBodies({ quick, say }: Run): Promise<Block[]> {
  const requests = quick ? 50 : 500
  await using origin = await startOrigin()
  await using service = await startService({ suppliers: [supplier('demo', origin.url)] })
  async function cost(encoding: string, body: Buffer, count: number): Promise<number> {
    const head = requestHead('/bid/demo?kind=bid', body.length, `Content-Encoding: ${encoding}\r\n`)
    const bytes = Buffer.concat([head, body])
    let left = count
    const before = service.cpu()
    await drive({
      ...{ port: service.proxy, connections: 1, rate: 0, warm: 0, measure: 60_000 },
      ...{ next: () => (left-- > 0 ? bytes : null), kind: () => 'any' },
    })
    return (service.cpu() - before) / count
  }
  // The code of the first requests is compiled meanwhile: they are not measured.
  await cost('identity', plain, 4 * requests)
  const rows: [string, number, string, string][] = []
  let bid = 0
  for (const [name, encoding, body] of bodies) {
    const us = await cost(encoding, body, requests)
    bid ||= us
    rows.push([name, body.length, us.toFixed(0), (us / bid).toFixed(1)])
    say(`  ${name}: ${us.toFixed(0)} us`)
  }
  return [
    `CPU time of all threads; ${requests} requests of each, one at a time on one connection, to a supplier that bids on everything.`,
    { head: ['body', 'bytes on the wire', 'CPU us a request', 'x a plain bid'], rows },
  ]
}
