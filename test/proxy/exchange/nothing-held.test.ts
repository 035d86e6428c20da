/** After generated traffic of every kind no memory is held and nothing is counted as running (CONTRACT 2, 3). */
import type { Socket } from 'node:net'
import * as zlib from 'node:zlib'
import t from 'tap'
import { testEngine } from '../../support/engine.ts'
import { codings, framings } from '../../support/framings.ts'
import { integration } from '../../support/opd-doubles.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? 1)
const cases = Number(process.env['FUZZ_CASES'] ?? 300)
const atOnce = 12

type Random = () => number
const pick = <T>(random: Random, values: readonly T[]): T =>
  values[Math.floor(random() * values.length)]!

/** Lengths on both sides of what is read at once, in slices, and not at all. */
const lengths = [0, 10, 3000, 66_000, 300_000]

function requestOf(caseNumber: number, random: Random) {
  const pad = 'x'.repeat(pick(random, [...lengths, 1_100_000]))
  const document = JSON.stringify({ id: `${caseNumber}`, imp: [{ id: '1' }], pad })
  const text = random() < 0.1 ? document.slice(0, -5) : document
  const isGzip = random() < 0.4
  const body = isGzip ? zlib.gzipSync(text) : Buffer.from(text)
  if (isGzip && random() < 0.2) body[body.length >> 1]! ^= 0xff
  const coding = isGzip ? 'Content-Encoding: gzip\r\n' : ''
  const head = `POST /bid/acme HTTP/1.1\r\nHost: x\r\nX-Case: ${caseNumber}\r\n${coding}`
  const framing = pick(random, ['Content-Length', 'chunked'])
  const bytes = Buffer.concat(framings[framing]!(body, head).map((part) => Buffer.from(part)))
  const isCut = random() < 0.1
  return {
    bytes: isCut ? bytes.subarray(0, Math.floor(bytes.length * random())) : bytes,
    /** The caller closes its connection after the last byte, or waits for the response. */
    leaves: isCut || random() < 0.1,
  }
}

function bidsOf(random: Random) {
  const adm = `svc_opd=\${SVC_OPD_CONTEXT}${'${SVC_OPD_OUT_BA}${SVC_OPD_CONTEXT}'.repeat(pick(random, [0, 1, 60]))}`
  const pad = 'y'.repeat(pick(random, lengths))
  return Array.from({ length: pick(random, [0, 1, 1, 3, 200]) }, (_, index) => ({
    ...{ id: `${index}`, impid: '1', price: 1 + random(), adm, crid: index === 0 ? pad : '' },
  }))
}

/** What the supplier does with a request: writes a response, or a part of it, or nothing. */
function respond(socket: Socket, random: Random): void {
  const kind = pick(random, ['bids', 'bids', 'bids', 'none', 'hang', 'reset', 'bomb', 'cut'])
  if (kind === 'hang') return
  if (kind === 'reset') return void socket.destroy()
  if (kind === 'none') return void socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  const name = pick(random, Object.keys(codings))
  const document =
    kind === 'bomb'
      ? `{"seatbid":[{"bid":[{"id":"1","impid":"1","price":1,"adm":"${'a'.repeat(1_500_000)}"}]}]}`
      : JSON.stringify({ id: 'r', seatbid: [{ seat: 's', bid: bidsOf(random) }] })
  const body = codings[name]![0](Buffer.from(random() < 0.1 ? document.slice(0, -3) : document))
  const coding = name === 'identity' ? '' : `Content-Encoding: ${name.replace('raw ', '')}\r\n`
  const status = pick(random, ['200 OK', '200 OK', '200 OK', '500 Error'])
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${coding}`
  const framing = pick(random, ['Content-Length', 'chunked', 'close-delimited'])
  const parts = framings[framing]!(body, head)
  for (const part of kind === 'cut' ? parts.slice(0, -1) : parts) socket.write(part)
  if (kind === 'cut' || framing === 'close-delimited') socket.end()
}

/** Resolves when the connection is closed, or the response has begun and ends in silence: the caller leaves then. */
function call(port: number, { bytes, leaves }: ReturnType<typeof requestOf>): Promise<void> {
  return new Promise((resolve) => {
    const socket = callTo(port)
    socket.on('error', () => {}).on('close', () => resolve())
    socket.on('data', () => void socket.end())
    socket.write(bytes, () => {
      if (leaves) socket.destroy()
    })
  })
}

for (const lane of ['fast', 'general'] as const)
  t.test(`the ${lane} lane`, async (t) => {
    const supplier = await rawSupplier((socket, request) => {
      const caseNumber = Number(/x-case: (\d+)/i.exec(request)![1])
      respond(socket, source(seed * 7_000_003 + caseNumber))
    })
    const { engine } = testEngine({ integrations: [integration('acme')] })
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url], timeout: '300ms', tmaxMargin: '0ms' } },
      { engine, lane, proxy: { maxHeldBytes: '24MiB' } },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    let next = 0
    const caller = async () => {
      while (next < cases) {
        const caseNumber = next++
        await call(proxy.port, requestOf(caseNumber, source(seed * 1_000_003 + caseNumber)))
      }
    }
    await Promise.all(Array.from({ length: atOnce }, caller))

    const idle = [
      'bidweir_requests_in_flight{ssp="acme"}',
      'bidweir_held_bytes',
      'bidweir_long_responses{state="running"}',
      'bidweir_long_responses{state="waiting"}',
      'bidweir_request_decodes{state="running"}',
      'bidweir_request_decodes{state="waiting"}',
    ]
    const value = (line: string) => sample(proxy.registry, line)
    for (const line of idle) {
      await until(async () => (await value(line)) === 0, {
        what: `FUZZ_SEED=${seed}: ${line} is 0`,
      })
      t.equal(await value(line), 0, line)
    }
    for (const outcome of ['answer', 'no_bid', 'timeout', 'upstream_error', 'client_abort'])
      t.ok(await value(`bidweir_requests_total{ssp="acme",outcome="${outcome}"}`), outcome)
  })
