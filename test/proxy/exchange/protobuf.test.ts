/** OpenRTB in Protocol Buffers over real sockets, in both lanes: content types, codings, framings, tmax and features. */
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { createEngine } from '../../../opd/engine/engine.ts'
import { type ResponseReason, responseReasons } from '../../../opd/shared/reasons.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { aloneDeps, keys } from '../../support/engine.ts'
import { codings, framings, unchunked } from '../../support/framings.ts'
import { fixedLearner, integration } from '../../support/opd-doubles.ts'
import { bytes, double, fieldsOf, int, lastOf } from '../../support/protobuf-bytes.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'

const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
const nurl = `https://t.example/?p=\${AUCTION_PRICE}&${macro}`

const requestOf = (over: Buffer[] = []) =>
  Buffer.concat([
    bytes(1, 'auction-1'),
    bytes(2, [bytes(1, '1'), double(8, 1)]),
    bytes(3, [bytes(3, 'News.example'), bytes(11, [bytes(1, 'p1')])]),
    ...over,
  ])
const response = (price = 2, seat = 's1') =>
  Buffer.concat([
    bytes(1, 'auction-1'),
    bytes(2, [
      bytes(1, [bytes(1, 'b1'), bytes(2, '1'), double(3, price), bytes(5, nurl)]),
      bytes(2, seat),
    ]),
    bytes(99, 'kept'),
  ])

const contentType = (type: string) => (type === '' ? '' : `Content-Type: ${type}\r\n`)

/** A bid request as bytes, with a Content-Type of its own. */
const sent = (ssp: string, body: Buffer, type = 'application/x-protobuf', headers = '') =>
  Buffer.concat([
    Buffer.from(
      `POST /bid/${ssp} HTTP/1.1\r\nHost: bids.example\r\n${contentType(type)}${headers}Content-Length: ${body.length}\r\n\r\n`,
    ),
    body,
  ])

interface Wire {
  body: Buffer
  type: string
  headers: string
  framing: string
}

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane} lane`, async (t) => {
    const wire: Wire = {
      body: response(),
      type: 'application/x-protobuf',
      headers: '',
      framing: 'Content-Length',
    }
    let silent = false
    const requests: string[] = []
    const supplier = await rawSupplier((socket, request) => {
      requests.push(request)
      if (silent) return
      const head = `HTTP/1.1 200 OK\r\n${contentType(wire.type)}${wire.headers}`
      for (const part of framings[wire.framing]!(wire.body, head)) socket.write(part)
      if (wire.framing === 'close-delimited') socket.end()
    })
    const decided: DecisionRecord[] = []
    const engine = createEngine(
      {
        keys,
        attributionWindow: 60_000,
        contextTtl: 60_000,
        integrations: [integration('acme', { holdout: 0 }), integration('octets', { holdout: 0 })],
        rates: null,
        base: 'USD',
      },
      {
        ...aloneDeps,
        learners: { learnerOf: () => fixedLearner(0.9), version: () => 1, epoch: () => 1 },
        bidLog: new LocalBidLog({ ttl: 60_000, now: Date.now }),
        observer: { observerOf: () => ({ decided: (record) => void decided.push(record) }) },
        now: Date.now,
      },
    )
    const route = { endpoints: [supplier.url], timeout: '20s', tmaxMargin: '10ms' }
    const octets = { ...route, openrtb: 'protobuf' }
    const proxy = await startProxy({ acme: route, octets }, { engine, lane })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))

    const ask = async (request: Buffer = sent('acme', requestOf()), over: Partial<Wire> = {}) => {
      Object.assign(wire, {
        body: response(),
        type: 'application/x-protobuf',
        headers: '',
        framing: 'Content-Length',
        ...over,
      })
      const answer = await raw(proxy.port, request)
      const chunked = answer.headers['transfer-encoding'] === 'chunked'
      const body = Buffer.from(chunked ? unchunked(answer.body) : answer.body, 'latin1')
      return { ...answer, body }
    }
    const bidOf = (body: Buffer) =>
      fieldsOf(fieldsOf(lastOf(fieldsOf(body), 2, 2)!.value)[0]!.value)
    const priceOf = (body: Buffer) => lastOf(bidOf(body), 3, 1)!.value.readDoubleLE()
    const untouched = (ssp: string, reason: ResponseReason) =>
      engine.stats.supplierStats(ssp).responses[responseReasons.indexOf(reason)]!

    t.test('a bid is priced, with its context, in every framing and coding', async (t) => {
      const made: [string, string][] = [
        ...Object.keys(framings).map((framing): [string, string] => ['identity', framing]),
        ...Object.keys(codings).map((coding): [string, string] => [coding, 'chunked']),
      ]
      for (const [coding, framing] of made) {
        const [encode, decode] = codings[coding]!
        const headers =
          coding === 'identity' ? '' : `Content-Encoding: ${coding.replace('raw ', '')}\r\n`
        const answer = await ask(undefined, { body: encode(response()), headers, framing })
        const body = decode(answer.body)
        t.equal(priceOf(body), 1.8, `${coding}, ${framing}`)
        t.match(
          lastOf(bidOf(body), 5, 2)!.value.toString(),
          /^https:\/\/t\.example\/\?p=\$\{AUCTION_PRICE\}&svc_opd=[\w-]+$/,
        )
        t.equal(lastOf(fieldsOf(body), 99, 2)!.value.toString(), 'kept')
        if (framing === 'Content-Length')
          t.equal(answer.headers['content-length'], String(answer.body.length))
      }
    })

    t.test('features and floors come from the request, gzip encoded ones included', async (t) => {
      for (const request of [
        sent('acme', requestOf()),
        sent('acme', gzipSync(requestOf()), 'application/protobuf', 'Content-Encoding: gzip\r\n'),
        sent(
          'acme',
          gzipSync(requestOf([bytes(900, randomBytes(100_000))])),
          'application/protobuf',
          'Content-Encoding: gzip\r\n',
        ),
      ]) {
        decided.length = 0
        const answer = await ask(request, { body: response(1.05) })
        t.equal(priceOf(answer.body), 1, 'the floor')
        t.match(decided[0], {
          publisher: 'p1',
          domain: 'news.example',
          seat: 's1',
          inBa: '1.05',
          outBa: '1',
        })
      }
    })

    t.test('the bytes of the request reach the supplier', async (t) => {
      const body = requestOf([bytes(900, Buffer.from([0, 255, 128, 10]))])
      requests.length = 0
      await ask(sent('acme', body))
      t.ok(requests[0]!.endsWith(body.toString('latin1')))
    })

    t.test('tmax of the request is the deadline', async (t) => {
      silent = true
      t.teardown(() => {
        silent = false
      })
      for (const [body, headers] of [
        [requestOf([int(8, 40)]), ''],
        [gzipSync(requestOf([int(8, 40)])), 'Content-Encoding: gzip\r\n'],
      ] as const) {
        const answer = await ask(sent('acme', body, 'application/x-protobuf', headers))
        t.equal(answer.headers['x-bidweir-reason'], 'timeout')
      }
    })

    t.test('content types', async (t) => {
      for (const type of [
        'application/protobuf',
        'application/vnd.google.protobuf',
        'Application/X-Protobuf; messageType="x"',
      ])
        t.equal(priceOf((await ask(undefined, { type })).body), 1.8, type)
      for (const [ssp, type, priced] of [
        ['acme', 'application/octet-stream', false],
        ['octets', 'application/octet-stream', true],
        ['octets', '', true],
        ['acme', 'text/plain', false],
      ] as const) {
        const answer = await ask(sent(ssp, requestOf(), type), { type })
        t.equal(priceOf(answer.body), priced ? 1.8 : 2, `${ssp}: ${type}`)
      }
      const json =
        '{"seatbid":[{"bid":[{"id":"b1","impid":"1","price":2,"nurl":"svc_opd=${SVC_OPD_CONTEXT}"}]}]}'
      for (const ssp of ['acme', 'octets']) {
        const answer = await ask(sent(ssp, requestOf()), {
          body: Buffer.from(json),
          type: 'application/json',
        })
        t.match(
          answer.body.toString(),
          /"price":1\.8/,
          'a response in JSON to a request in Protocol Buffers',
        )
        const other = await ask(post(`/bid/${ssp}`, '{"imp":[{"id":"1"}]}'))
        t.equal(priceOf(other.body), 1.8, 'and the other way round')
      }
    })

    t.test('a response that breaks the format passes unchanged and is counted', async (t) => {
      const before = untouched('acme', 'malformed')
      const body = response().subarray(0, -1)
      t.same((await ask(undefined, { body })).body, body)
      t.equal(untouched('acme', 'malformed'), before + 1)
    })

    t.test('no-transform and other statuses pass unchanged', async (t) => {
      const answer = await ask(undefined, { headers: 'Cache-Control: no-transform\r\n' })
      t.same(answer.body, response())
    })

    t.test('seats that are switched off are removed', async (t) => {
      const state = { inactiveSeats: new Set(['off']), allotment: undefined }
      proxy.proxy.setDirectory((id) => (id === 'acme' ? state : undefined), 1)
      t.teardown(() => proxy.proxy.setDirectory(() => undefined, 1))
      const both = Buffer.concat([response(3, 'off'), bytes(2, fieldsOf(response())[1]!.value)])
      const { body } = await ask(undefined, {
        body: both,
        headers: 'Cache-Control: no-transform\r\n',
      })
      t.notOk(body.includes('off'))
      t.equal(priceOf(body), 2)
      t.equal(
        (await ask(undefined, { body: response(3, 'off') })).headers['x-bidweir-reason'],
        'inactive',
      )
      const cut = { body: response().subarray(0, -1) }
      t.equal((await ask(undefined, cut)).headers['x-bidweir-reason'], 'unreadable')
    })

    t.test('a long response is priced', async (t) => {
      const bid = fieldsOf(fieldsOf(response())[1]!.value)[0]!.value
      const body = bytes(2, Array<Buffer>(3000).fill(bytes(1, bid)))
      const headers = 'Content-Encoding: gzip\r\n'
      for (const [wired, over] of [
        [body, {}],
        [gzipSync(body), { headers }],
      ] as const) {
        const answer = await ask(undefined, { body: wired, ...over })
        const made = wired === body ? answer.body : codings['gzip']![1](answer.body)
        const seat = lastOf(fieldsOf(made), 2, 2)!.value
        const prices = fieldsOf(seat).map(({ value }) =>
          lastOf(fieldsOf(value), 3, 1)!.value.readDoubleLE(),
        )
        t.same(prices, Array(3000).fill(1.8))
      }
    })
  })
