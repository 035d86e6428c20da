/**
 * What a request costs the process by how its body is encoded, as a multiple of a plain bid of 3 KB: CPU time of all
 * threads. One connection, one request after another, to a supplier that bids on everything.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { cpus } from 'node:os'
import * as zlib from 'node:zlib'
import { startOrigin } from '../loop/deadlines.ts'
import { serve } from '../loop/service.ts'
import { requestBodies } from '../proxy/bodies.ts'
import { cpu } from '../proxy/process.ts'

const requests = 500
const [plain] = requestBodies(1) as [Buffer]
const padded = (length: number) => Buffer.concat([plain, Buffer.alloc(length - plain.length, ' ')])
const bomb = zlib.gzipSync(padded(2 ** 22), { level: 9 })
/** The same with a false length at its end, so that decoding is attempted. */
const falseLength = Buffer.from(bomb)
falseLength.writeUInt32LE(3000, falseLength.length - 4)
const many = Buffer.from(`${String(plain).slice(0, -1)},"ext":[${requestBodies(85)}]}`)

const rows: [string, string, Buffer][] = [
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

/** Sends a request and waits for the end of its answer, which has a length. */
function ask(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    let text = ''
    const read = (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const head = text.indexOf('\r\n\r\n')
      const length = /^content-length: (\d+)/im.exec(text.slice(0, Math.max(0, head)))?.[1]
      if (head < 0 || text.length < head + 4 + Number(length ?? 0)) return
      socket.off('data', read)
      resolve()
    }
    socket.on('data', read)
    socket.write(bytes)
  })
}

const origin = await startOrigin()
const { child, proxy } = await serve({ demo: { endpoint: origin.url, timeout: '5s' } })
const socket = connect(proxy, '127.0.0.1').setNoDelay(true)

async function perRequest(encoding: string, body: Buffer, count: number): Promise<number> {
  const head = `POST /bid/demo?kind=bid HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Encoding: ${encoding}\r\nContent-Length: ${body.length}\r\n\r\n`
  const bytes = Buffer.concat([Buffer.from(head), body])
  const before = cpu([child.pid!])
  for (let sent = 0; sent < count; sent++) await ask(socket, bytes)
  return (cpu([child.pid!]) - before) / count
}

// What is compiled first is not what is measured.
await perRequest('identity', plain, 2 * requests)
const lines: string[] = []
let bid = Number.NaN
for (const [name, encoding, body] of rows) {
  const us = await perRequest(encoding, body, requests)
  if (Number.isNaN(bid)) bid = us
  lines.push(`| ${name} | ${body.length} | ${us.toFixed(0)} | ${(us / bid).toFixed(1)} |`)
}
socket.destroy()
child.kill('SIGINT')
await once(child, 'exit')
origin.process.kill()

const report = `# What a request's body costs

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}; ${requests} requests of each, one at a time.

| body | bytes on the wire | CPU us a request | x a plain bid |
|---|---|---|---|
${lines.join('\n')}
`
process.stdout.write(report)
writeFileSync(new URL('RESULTS.md', import.meta.url), report)
