/** The CPU time of a request on each road through bidweir: TLS on either side, gzip, chunks. nginx passes the same on. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createGzip } from 'node:zlib'
import { GzipEncoder } from '../../opd/base/gzip-encoder.ts'
import { KeptGunzip, KeptStream } from '../../proxy/exchange/kept-gunzip.ts'
import { freePort } from '../../test/support/postgres.ts'
import type { Run } from '../harness/bench.ts'
import type { Job } from '../harness/caller.ts'
import { startProgram } from '../harness/child.ts'
import { firstLine } from '../harness/machine.ts'
import { cpuOf, tree } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, type startOrigin, startService, supplier } from '../harness/service.ts'
import { inTurns, median, ratioOf, spread } from '../harness/statistics.ts'
import { responses } from '../harness/traffic.ts'
import { passThroughTls } from './nginx.ts'

type Origin = Awaited<ReturnType<typeof startOrigin>>

interface Road {
  label: string
  path: string
  secure?: boolean
  encoding?: 'gzip'
}

const noBid = '/bid/bench?kind=no-bid'
const bid = '/bid/bench?kind=bid'
const roads: readonly Road[] = [
  { label: 'plain, no-bid', path: noBid },
  { label: 'plain, bid of 3 KB', path: bid },
  { label: 'TLS in, no-bid', path: noBid, secure: true },
  { label: 'TLS in, bid', path: bid, secure: true },
  { label: 'TLS to the supplier, no-bid', path: '/bid/tls?kind=no-bid' },
  { label: 'TLS to the supplier, bid', path: '/bid/tls?kind=bid' },
  { label: 'gzip request, no-bid', path: noBid, encoding: 'gzip' },
  { label: 'gzip request, bid', path: bid, encoding: 'gzip' },
  { label: 'gzip response, bid', path: '/bid/bench?kind=gzip' },
  { label: 'chunked response, bid', path: '/bid/bench?kind=chunked' },
]

/** CPU microseconds and bytes of one gzip response, in a loop that does nothing else. */
interface Codec {
  decodes: number
  encodes: number
  bytes: number
}

/** zlib at level 1 with kept handles, and the encoder of the service: 64 different bodies in turn. */
function codecsAlone(): { zlib: Codec; ours: Codec } {
  const decoder = new KeptGunzip()
  const handle = new KeptStream(createGzip({ level: 1 }))
  const output = Buffer.alloc(64 * 1024)
  const encoder = new GzipEncoder()
  const encoded = Array.from({ length: 64 }, () => {
    const message = responses['gzip']!()
    return message.subarray(message.indexOf('\r\n\r\n') + 4)
  })
  const decode = (body: Buffer) => decoder.decode(body, 64 * 1024)!
  const plain = encoded.map(decode)
  const zlib = (body: Buffer) => handle.run(body, body.length, output, output.length)
  const encodedBytes = (body: Buffer) => encoder.encode(body)!.length
  const perBody = (bodies: readonly Buffer[], act: (body: Buffer) => unknown) => {
    let next = 0
    return cpuOf(() => void act(bodies[next++ % bodies.length]!), 4000)
  }
  const bytes = (act: (body: Buffer) => number) =>
    plain.reduce((sum, body) => sum + act(body), 0) / plain.length
  const decodes = perBody(encoded, decode)
  return {
    zlib: { decodes, encodes: perBody(plain, zlib), bytes: bytes(zlib) },
    ours: { decodes, encodes: perBody(plain, encodedBytes), bytes: bytes(encodedBytes) },
  }
}

/** A proxy with its two listeners. */
interface Subject {
  name: string
  /** Of the listener's processes: bidweir has a service for each, and the other one's timers are no part of a request. */
  pids(secure: boolean): number[]
  port(secure: boolean): number
}

async function startBidweir(stack: AsyncDisposableStack, origin: Origin): Promise<Subject> {
  const { cert, key, port } = origin.tls!
  const suppliers = [
    supplier('bench', origin.url),
    supplier('tls', `https://127.0.0.1:${port}/openrtb`),
  ]
  const start = (tls: object) =>
    startService({ proxy: { listen: '127.0.0.1:0', ...tls }, suppliers }, { authority: cert })
  const plain = stack.use(await start({}))
  const secure = stack.use(await start({ tls: { cert, key } }))
  const [ofPlain, ofSecure] = [tree(plain.pid), tree(secure.pid)]
  return {
    name: 'bidweir',
    pids: (isSecure) => (isSecure ? ofSecure : ofPlain),
    port: (isSecure) => (isSecure ? secure : plain).proxy,
  }
}

async function startNginx(stack: AsyncDisposableStack, origin: Origin): Promise<Subject> {
  const tls = origin.tls!
  const securePort = await freePort()
  const program = stack.use(
    await startProgram((dir, port) => {
      const [cert, key, config] = ['cert.pem', 'key.pem', 'nginx.conf'].map((name) =>
        join(dir, name),
      ) as [string, string, string]
      writeFileSync(cert, tls.cert)
      writeFileSync(key, tls.key)
      const listener = { port: securePort, origin: tls.port, cert, key }
      writeFileSync(config, passThroughTls(dir, port, origin.port, listener))
      return ['nginx', '-p', dir, '-c', config]
    }),
  )
  const pids = tree(program.pid)
  return {
    name: 'nginx',
    pids: () => pids,
    port: (isSecure) => (isSecure ? securePort : program.port),
  }
}

type Report = Pick<Run, 'quick' | 'say' | 'missing'>

/** bidweir, and nginx if it is installed; none without openssl. They run until `stack` is disposed of. */
async function startSubjects(
  run: Report,
  stack: AsyncDisposableStack,
  origin: Origin,
): Promise<Subject[]> {
  if (origin.tls === null) {
    run.missing('TLS: openssl not found')
    return []
  }
  const subjects = [await startBidweir(stack, origin)]
  if (firstLine('nginx', '-v') === null) run.missing('TLS: nginx not found')
  else subjects.push(await startNginx(stack, origin))
  return subjects
}

/** A connection for each request, with a whole TLS handshake or with a resumed session. */
export async function measureHandshakes(
  run: Report,
  caller: Caller,
  origin: Origin,
): Promise<Block[]> {
  await using stack = new AsyncDisposableStack()
  const subjects = await startSubjects(run, stack, origin)
  if (subjects.length === 0) return []
  const measure = async ({ name, port, pids }: Subject, renew: 'full' | 'resumed') => {
    const { watched, count, failed } = await caller.ask({
      ...{ port: port(true), secure: true, renew, paths: [noBid], connections: 16, rate: 0 },
      ...{ warm: 300, measure: run.quick ? 300 : 2000, watch: [pids(true)] },
    })
    const cost = watched[0]! / Math.max(1, count - failed)
    run.say(`  ${renew} ${name}: ${cost.toFixed(1)} us${failed > 0 ? `, ${failed} failed` : ''}`)
    return cost
  }
  for (const renew of ['full', 'resumed'] as const) await measure(subjects[0]!, renew)
  const rows: (string | number)[][] = []
  for (const renew of ['full', 'resumed'] as const) {
    const samples = await inTurns(run.quick ? 1 : 5, subjects, (subject) => measure(subject, renew))
    const [ours, ofNginx] = subjects.map((subject) => samples.get(subject)!)
    rows.push([
      renew === 'full' ? 'whole handshake' : 'resumed session',
      ...[...samples.values()].map((costs) => median(costs).toFixed(0)),
      ...(ofNginx === undefined ? [] : [ratioOf(ours!, ofNginx).toFixed(2)]),
    ])
  }
  return [
    'Each connection is opened, asked for one no-bid and closed. TLS 1.3, a certificate with P-256, session tickets.',
    {
      head: [
        'CPU us/connection',
        ...subjects.map(({ name }) => name),
        ...(subjects.length > 1 ? ['x nginx'] : []),
      ],
      rows,
    },
  ]
}

/** What a gzip response costs beyond a plain one, beside what zlib alone takes for it. */
function gzipText(costs: ReadonlyMap<string, number>, alone: ReturnType<typeof codecsAlone>[]) {
  const more = costs.get('gzip response, bid')! - costs.get('plain, bid of 3 KB')!
  const medianOf = (pick: (codec: (typeof alone)[0]) => number) => median(alone.map(pick))
  const decodes = medianOf(({ zlib }) => zlib.decodes)
  const encodes = medianOf(({ zlib }) => zlib.encodes)
  const ours = medianOf((codec) => codec.ours.encodes)
  const larger = 100 * (alone[0]!.ours.bytes / alone[0]!.zlib.bytes - 1)
  const us = (value: number) => `${value.toFixed(1)} us`
  return `A gzip response takes ${us(more)} more than a plain one. In a process that does nothing else zlib at level 1 takes ${us(decodes)} to decode such a body and ${us(encodes)} to encode it (64 different ones in turn, kept handles): ${(more / (decodes + encodes)).toFixed(2)} times as much. The encoder of the service takes ${us(ours)} and ${larger.toFixed(1)} % more bytes.`
}

export async function measureRoads(run: Report, caller: Caller, origin: Origin): Promise<Block[]> {
  await using stack = new AsyncDisposableStack()
  const subjects = await startSubjects(run, stack, origin)
  if (subjects.length === 0) return []
  const measure = async ({ name, port, pids }: Subject, road: Road, load: Partial<Job>) => {
    const { label, path, secure = false, encoding } = road
    const job = { connections: 64, rate: 0, warm: 500, measure: 1500, watch: [pids(secure)] }
    const target = { port: port(secure), secure, paths: [path], ...(encoding && { encoding }) }
    const { watched, count, failed } = await caller.ask({ ...job, ...load, ...target } as Job)
    const cost = watched[0]! / Math.max(1, count - failed)
    run.say(`  ${label} ${name}: ${cost.toFixed(1)} us${failed > 0 ? `, ${failed} failed` : ''}`)
    return cost
  }
  const [bidweir] = subjects as [Subject]
  for (const road of roads) await measure(bidweir, road, { measure: run.quick ? 500 : 6000 })
  const load = run.quick ? { warm: 200, measure: 300 } : {}
  const alone: ReturnType<typeof codecsAlone>[] = []
  // The roads take turns, too: what disturbs the machine for a minute disturbs all of them.
  const samples = await inTurns(run.quick ? 1 : 15, roads, async (road, round) => {
    if (road === roads[0]) alone.push(codecsAlone())
    const turn = await inTurns(1, round % 2 === 0 ? subjects : subjects.toReversed(), (subject) =>
      measure(subject, road, load),
    )
    return subjects.map((subject) => turn.get(subject)![0]!)
  })
  const costs = new Map<string, number>()
  const rows: (string | number)[][] = []
  for (const [{ label }, turns] of samples) {
    const ours = turns.map(([cost]) => cost!)
    const cost = median(ours)
    costs.set(label, cost)
    const row = [label, cost.toFixed(1)]
    if (subjects.length > 1) {
      const ofNginx = turns.map(([, cost]) => cost!)
      const varied = `${Math.round(100 * spread(ofNginx))} %`
      row.push(median(ofNginx).toFixed(1), ratioOf(ours, ofNginx).toFixed(2), varied)
    }
    rows.push(row)
  }
  const head = ['CPU us/request', ...subjects.map(({ name }) => name)]
  return [
    'bidweir prices each bid, nginx passes it on. TLS 1.3, connections kept, certificates with P-256. A gzip response is decoded, priced and encoded again by bidweir alone.',
    { head: subjects.length > 1 ? [...head, 'x nginx', 'nginx varied'] : head, rows },
    gzipText(costs, alone),
  ]
}
