/**
 * Responses of 4 MiB in every shape, most of which are 4 KB on the wire, many at once, in the heap that the image has in a
 * container of 1 GiB: the node stays alive, its memory is bounded, and other suppliers' bids are priced meanwhile.
 */
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import * as zlib from 'node:zlib'
import t from 'tap'
import { newFolder, startBidweir } from '../support/process.ts'
import { httpSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'

const MiB = 1024 ** 2
const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
const bid = `{"id":"b","impid":"1","price":2,"nurl":"${macro}"}`
const small = '{"id":"c","impid":"1","price":2,"nurl":""}'
const filled = (text: string, length = 4 * MiB - 2000) =>
  text.repeat(Math.floor(length / text.length))
const listed = (element: string, count: number) => `${`${element},`.repeat(count - 1)}${element}`
const seated = (bids: string) => `{"seatbid":[{"bid":[${bids}]}]}`
const bidWith = (members: string) =>
  seated(`{"id":"b","impid":"1","price":2,"nurl":"${macro}",${members}}`)

/** A body, and whether its bids are priced; if not, it is forwarded unmodified. */
const shapes: Record<string, [body: string, isPriced: boolean]> = {
  'empty seats': [`{"seatbid":[{"bid":[${bid}]},${filled('{},')}{}]}`, false],
  '1,000 seats': [
    `{"seatbid":[{"bid":[${bid}]},${listed('{}', 999)}],"x":"${filled('x', 4 * MiB - 8000)}"}`,
    true,
  ],
  '1,001 seats': [`{"seatbid":[{"bid":[${bid}]},${listed('{}', 1000)}]}`, false],
  'empty bids': [seated(`${bid},${filled('{},')}{}`), false],
  '50,000 bids': [seated(`${listed(bid, 200)},${listed(small, 49_800)}`), true],
  '50,001 bids': [seated(`${bid},${listed('{}', 50_000)}`), false],
  'macros that shrink': [bidWith(`"adm":"${filled('${SVC_OPD_MODE}')}"`), true],
  'macros that grow': [bidWith(`"adm":"${filled(macro)}"`), false],
  'macros as escapes': [bidWith(`"adm":"${filled('\\u0024{SVC_OPD_MODE}')}"`), true],
  'advertiser domains': [bidWith(`"adomain":[${filled('"a",')}"a"]`), true],
  nesting: [bidWith(`"ext":[${filled(`${'['.repeat(900)}${']'.repeat(900)},`)}1]`), true],
  'nesting without end': [bidWith(`"ext":${'['.repeat(2 * MiB)}`), false],
  escapes: [bidWith(`"adm":"${filled('\\u0041')}"`), true],
  backslashes: [bidWith(`"adm":"${filled('\\\\')}\\u0073"`), true],
  'a key again and again': [bidWith(`${filled('"w":1,')}"h":1`), false],
  'a long bid id': [
    seated(`{"id":"${filled('i')}","impid":"1","price":2,"nurl":"${macro}"}`),
    true,
  ],
  'a price of a million digits': [
    seated(`{"id":"b","impid":"1","price":1.${filled('1')},"nurl":"${macro}"}`),
    false,
  ],
  'white space': [`{"seatbid":[{"bid":[${bid}]}],${filled(' ')}"x":1}`, true],
}

const bodies = Object.entries(shapes).map(([title, [text, isPriced]], number) => {
  const packed =
    number % 3 === 0
      ? ({
          coding: 'br',
          wire: zlib.brotliCompressSync(text, {
            params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 },
          }),
          decode: zlib.brotliDecompressSync,
        } as const)
      : ({ coding: 'gzip', wire: zlib.gzipSync(text), decode: zlib.gunzipSync } as const)
  return { title, text, isPriced, ...packed }
})

/** Of all processes of the service. */
function residentBytes(pid: number): number {
  try {
    const residentKb = Number(
      /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1],
    )
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
    const pids = children === '' ? [] : children.split(' ').map(Number)
    return residentKb * 1024 + pids.reduce((sum, child) => sum + residentBytes(child), 0)
  } catch {
    // The process has ended.
    return 0
  }
}

const skip = process.platform === 'linux' ? false : 'memory is read from /proc'

const yaml = (workers: number, hostile: string, good: string) => `
proxy: {listen: "127.0.0.1:0", workers: ${workers}, maxHeldBytes: 256MiB, headTimeout: 120s}
admin: {listen: "127.0.0.1:0"}
drain: {grace: 0ms, timeout: 30s}
log: {level: warn}
suppliers:
  - {id: hostile, endpoints: ["${hostile}"], timeout: 300s, maxInFlight: 1000, opd: {enabled: true}}
  - {id: good, endpoints: ["${good}"], timeout: 300s, maxInFlight: 1000, opd: {enabled: true}}
`

const request = '{"id":"a","tmax":300000,"imp":[{"id":"1","banner":{"w":300,"h":250}}]}'

/** The response of a supplier as it came, without its content encoding undone. */
function ask(
  port: number,
  path: string,
): Promise<{ status: number; reason: unknown; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ port, path, method: 'POST', agent: false }, (response) => {
      const { statusCode, headers } = response
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk)).on('error', reject)
      response.on('end', () =>
        resolve({
          status: statusCode!,
          reason: headers['x-bidweir-reason'],
          body: Buffer.concat(chunks),
        }),
      )
    })
    sent.on('error', reject).end(request)
  })
}

/** What is wrong with the response to a bid request; null: nothing. `isOptional`: it may also be unmodified, for want of memory. */
function fault(body: Buffer, sent: (typeof bodies)[number], isOptional: boolean): string | null {
  if (body.equals(sent.wire)) return sent.isPriced && !isOptional ? 'it is unmodified' : null
  if (!sent.isPriced) return 'it is modified'
  const text = sent.decode(body).toString('latin1')
  if (text.includes(macro)) return 'a macro is left'
  const { seatbid } = JSON.parse(text) as { seatbid: { bid?: unknown[] }[] }
  const { seatbid: before } = JSON.parse(sent.text) as { seatbid: typeof seatbid }
  const counts = (seats: typeof seatbid) => seats.map((seat) => seat.bid?.length).join()
  return counts(seatbid) === counts(before) ? null : 'other bids'
}

for (const workers of [1, 2])
  t.test(`${workers} processes`, { skip }, async (t) => {
    const hostile = await httpSupplier((incoming, response) => {
      const { searchParams } = new URL(incoming.url!, 'http://supplier')
      const { coding, wire } = bodies[Number(searchParams.get('shape'))]!
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-encoding': coding,
        'content-length': wire.length,
      })
      response.end(wire)
    })
    const good = await httpSupplier((_incoming, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(seated(bid))
    })
    const flags = ['--max-old-space-size=256']
    const service = await startBidweir(yaml(workers, hostile.url, good.url), newFolder(), flags)
    t.teardown(async () => {
      await service.stop('SIGINT')
      await Promise.all([hostile.close(), good.close()])
    })
    const { proxyPort, child } = service
    let largest = 0
    let isDone = false

    async function goodTraffic(): Promise<number> {
      let count = 0
      for (; !isDone; count++) {
        const { status, reason, body } = await ask(proxyPort, '/bid/good')
        largest = Math.max(largest, residentBytes(child.pid!))
        // A machine that is busy with other work delays the event loop of the node, which then refuses.
        if (reason === 'overload') continue
        const text = body.toString()
        if (status !== 200 || text.includes(macro) || !text.includes('svc_opd='))
          throw new Error(`${status} ${reason} ${text.slice(0, 300)}`)
      }
      return count
    }
    const traffic = goodTraffic()
    const askFor = async (shape: number, isOptional: boolean) => {
      const { status, reason, body } = await ask(proxyPort, `/bid/hostile?shape=${shape}`)
      if (reason === 'overload') return null
      const found = status === 200 ? fault(body, bodies[shape]!, isOptional) : `status ${status}`
      return found === null ? null : `${bodies[shape]!.title}: ${found}`
    }
    for (let shape = 0; shape < bodies.length; shape++)
      t.equal(await askFor(shape, false), null, bodies[shape]!.title)
    for (const concurrent of [6, 20, 60]) {
      const all = Array.from({ length: concurrent }, (_, index) =>
        askFor(index % bodies.length, true),
      )
      const faults = (await Promise.all(all)).filter((found) => found !== null)
      t.strictSame(faults, [], `${concurrent} at once`)
    }
    // The shapes that need the most memory, alone.
    for (const title of ['empty seats', '50,000 bids']) {
      const shape = bodies.findIndex((body) => body.title === title)
      const faults = await Promise.all(Array.from({ length: 20 }, () => askFor(shape, true)))
      t.strictSame([...new Set(faults)], [null], `20 of ${title} at once`)
    }
    isDone = true
    t.ok((await traffic) > 0, 'good bids were priced meanwhile')
    t.equal(child.exitCode, null, 'the node is alive')
    t.ok(largest < workers * 640 * MiB, `${Math.round(largest / MiB)} MiB at most`)
    const figures = async () =>
      (await fetch(`http://127.0.0.1:${service.adminPort}/metrics`)).text()
    await until(async () => /^bidweir_held_bytes 0$/m.test(await figures()))
    t.notMatch(await figures(), /bidweir_workers_replaced_total [1-9]/)
  })
