/** Heads that peers repeat: recognized only if the fast lane would read the same, and used for nothing else. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { HeadTemplates, SharedTemplates } from '../../../proxy/wire/head-templates.ts'
import {
  readRequestHead,
  readRequestLine,
  setQueryAndLength,
} from '../../../proxy/wire/request-head.ts'
import { readResponseHead } from '../../../proxy/wire/response-head.ts'
import { mutated } from '../../support/fuzz/mutate.ts'
import { lines } from '../../support/fuzz/requests.ts'
import { idleEngine, startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { keptOpen, post, type RawAnswer, raw } from '../../support/raw.ts'
import { answerText, httpSupplier, rawSupplier, type TestSupplier } from '../../support/supplier.ts'

const blankLine = '\r\n\r\n'

t.test('a damaged head matches only what the fast lane reads in the same way', async (t) => {
  const request =
    'POST /bid/acme?a=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 19\r\nX-A: b\r\nAccept: */*\r\n'
  const fieldsAt = request.indexOf('\r\n') + 2
  const requests = new HeadTemplates<true>(1)
  requests.keep(request.slice(fieldsAt), true, true)
  const response = 'HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length:  23 \r\nX-A: b\r\n'
  const responses = new HeadTemplates<true>(1)
  responses.keep(response, true, true)
  const random = source(7)
  /** Asserts only a difference: each assertion costs more than the case. */
  const expect = (actual: unknown, wanted: unknown, head: string) => {
    if (!isDeepStrictEqual(actual, wanted)) t.same(actual, wanted, JSON.stringify(head))
  }
  let matched = 0
  for (let count = 0; count < 20_000; count++) {
    const first = mutated(`${request}\r\n{"id":"1","imp":[]}`, random, lines)
    const line = readRequestLine(first.slice(0, first.indexOf('\r\n') + 2))
    if (line !== null && requests.match(first, line.text.length) !== null) {
      matched++
      const { end, length } = requests
      const wanted = readRequestHead(request)!
      setQueryAndLength(wanted, line.query, length)
      const digits = /Content-Length: (\d+)/.exec(first)![1]!
      wanted.fields[3] = digits
      expect(first.indexOf(blankLine) + 4, end, first)
      expect(readRequestHead(first.slice(0, end - 2)), wanted, first)
    }
    const second = mutated(`${response}\r\n{"id":"1","seatbid":[]}`, random, lines)
    if (responses.match(second) !== null) {
      matched++
      const { end, length } = responses
      const read = readResponseHead(second.slice(0, end - 2))!
      const wanted = readResponseHead(response)!
      expect(second.indexOf(blankLine) + 4, end, second)
      expect([read.body, read.length], [length, length], second)
      expect(
        { ...read, body: 0, length: 0, fields: 0 },
        { ...wanted, body: 0, length: 0, fields: 0 },
        second,
      )
    }
  }
  t.ok(matched > 1000, `${matched} matched`)
})

t.test(
  'a peer whose heads all differ is not compared with its last ones for a while',
  async (t) => {
    const templates = new HeadTemplates<number>(2)
    const repeated = 'POST /bid/a HTTP/1.1\r\nContent-Length: 5\r\n'
    const send = (head: string) => {
      const value = templates.match(`${head}\r\n{}`)
      if (value === null) templates.keep(head, 1, true)
      return value
    }
    t.equal(send(repeated), null)
    t.equal(send(repeated), 1)
    t.equal(send(repeated.replace('5', '17')), 1)
    t.equal(templates.length, 17)
    for (let count = 0; count < 9; count++) t.equal(send(`traceparent: ${count}\r\n`), null)
    let missed = 0
    while (send(repeated) === null) missed++
    t.equal(missed, 1001, 'then its heads are kept again')
    for (let count = 0; count < 8; count++) {
      t.equal(send(`traceparent: ${count}\r\n`), null)
      t.equal(send(repeated), 1, 'some differ')
    }
    const long = `X: ${'y'.repeat(5000)}\r\n`
    t.equal(send(long), null)
    t.equal(send(long), null, 'a long head is not kept')
  },
)

t.test('what one peer has made of a head is used for the same head of another', async (t) => {
  const all = new SharedTemplates<object>()
  const [one, other] = [new HeadTemplates<object>(4, all), new HeadTemplates<object>(4, all)]
  const head = 'HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 5\r\n'
  const found = (templates: HeadTemplates<object>, text: string) => templates.match(`${text}\r\n`)
  const values = [{}, {}, {}]
  one.keep(head, values[0]!, true)
  other.keep(head.replace('5', '17'), values[1]!, true)
  t.equal(found(other, head), values[0])
  t.equal(other.length, 5)
  t.equal(found(one, head.replace('5', '234')), values[0])
  t.equal(one.length, 234)
  const later = head.replace('Server: a', 'Server: b')
  t.equal(found(one, later), null)
  other.keep(later, values[2]!, true)
  t.equal(found(one, later.replace('5', '6')), values[2], 'one that it has not sent itself')
  t.equal(one.length, 6)
  const noBid = 'HTTP/1.1 204 No Content\r\nServer: a\r\nContent-Length: 5\r\n'
  one.keep(noBid, values[1]!, false)
  other.keep(noBid.replace('5', '6'), values[2]!, false)
  t.equal(found(other, noBid), values[1], 'its length does not vary')
  t.equal(found(other, noBid.replace('5', '7')), null)
  t.equal(found(other, noBid.replace('5', '6')), values[2])
  for (let count = 0; count < 1100; count++)
    new HeadTemplates<object>(4, all).keep(`${head}X: ${count}\r\n`, {}, true)
  const third = new HeadTemplates<object>(4, all)
  third.keep(head, values[2]!, true)
  t.equal(found(third, head), values[2], 'forgotten after a thousand others')
  t.equal(found(one, head), values[0], 'kept by those that have it')
})

t.test(
  'suppliers that send the same head each get what becomes of their own response',
  async (t) => {
    const body = '{"seatbid":[]}'
    const suppliers = await Promise.all(
      [0, 1, 2].map((nth) =>
        rawSupplier((socket) =>
          socket.write(answerText('200 OK', body + ' '.repeat(nth), 'ETag: "x"\r\nX-A: b\r\n')),
        ),
      ),
    )
    const engine = idleEngine({
      readsResponses: (supplier) => supplier === 's1',
      rewrite: () => ({
        ...{ body: Buffer.from('{"seatbid":[1]}'), reason: null, removed: 0, left: 1 },
        unreadable: false,
      }),
    })
    const routes = suppliers.map(({ url }, nth) => [`s${nth}`, { endpoints: [url] }])
    const proxy = await startProxy(Object.fromEntries(routes), { engine })
    t.teardown(() => Promise.all([proxy.close(), ...suppliers.map((supplier) => supplier.close())]))
    const caller = keptOpen(proxy.port)
    for (const nth of [0, 1, 2, 1, 0, 2, 2, 0, 1, 1, 0]) {
      const answer = await caller.ask(post(`/bid/s${nth}`, '{}'))
      t.equal(answer.body, nth === 1 ? '{"seatbid":[1]}' : body + ' '.repeat(nth))
      t.equal(answer.headers['content-length'], String(answer.body.length))
      t.equal(answer.headers['etag'], nth === 1 ? undefined : '"x"', 'of an unchanged body alone')
      t.equal(answer.headers['x-a'], 'b')
    }
    caller.end()
  },
)

t.test('requests for several suppliers on one connection each get their own head', async (t) => {
  const suppliers = await Promise.all(
    [1, 2, 3].map(() => httpSupplier((_request, response, body) => response.end(body))),
  )
  const proxy = await startProxy(
    Object.fromEntries(
      suppliers.map(({ url }, nth) => [
        `s${nth}`,
        nth === 2
          ? { endpoints: [url], headers: { set: { 'X-Set': 'yes' } } }
          : { endpoints: [url] },
      ]),
    ),
  )
  t.teardown(() => Promise.all([proxy.close(), ...suppliers.map((supplier) => supplier.close())]))
  const long = `?q=${'x'.repeat(600)}`
  const queries = ['', '?a=1', '?a=2', long, '?a=2', '']
  const sent = queries.flatMap((query) => [0, 1, 2, 1].map((nth) => ({ nth, query })))
  const caller = keptOpen(proxy.port)
  for (const [index, { nth, query }] of sent.entries()) {
    const body = `{"id":"${index}"}`
    t.equal((await caller.ask(post(`/bid/s${nth}${query}`, body))).body, body)
  }
  caller.end()
  for (const [nth, { url, requests }] of suppliers.entries()) {
    const { host, pathname } = new URL(url)
    const wanted = sent.flatMap((request, index) =>
      request.nth === nth ? [{ ...request, at: index }] : [],
    )
    t.strictSame(
      requests.map((request) => request.url),
      wanted.map(({ query }) => `${pathname}${query}`),
    )
    for (const { headers } of requests) {
      t.strictSame(headers.slice(0, 2), ['Host', host])
      t.equal(headers.includes('X-Set'), nth === 2)
      t.equal(headers.filter((name) => name.toLowerCase() === 'host').length, 1)
    }
  }
})

t.test(
  'requests that differ in their length, or in one more field, are sent as they are',
  async (t) => {
    const supplier = await httpSupplier((_request, response, body) => response.end(body))
    const route = { endpoints: [supplier.url], timeout: '20s' }
    const proxy = await startProxy({ acme: route })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const sent: [string, string][] = [
      ['{"a":1}', ''],
      ['{"a":22222222222}', ''],
      ['', ''],
      ['{"a":3}', 'traceparent: 00-1\r\n'],
      ['{"a":3}', 'traceparent: 00-2\r\n'],
      ['{"a":3}', ''],
      [`"${'y'.repeat(30_000)}"`, ''],
    ]
    const caller = keptOpen(proxy.port)
    const answers: RawAnswer[] = []
    for (const [body, field] of sent) answers.push(await caller.ask(post('/bid/acme', body, field)))
    caller.end()
    t.same(
      answers.map(({ body }) => body),
      sent.map(([body]) => body),
    )
    const fieldOf = (headers: string[], name: string) => headers[headers.indexOf(name) + 1]
    for (const [index, { headers, body }] of supplier.requests.entries()) {
      t.equal(fieldOf(headers, 'Content-Length'), String(body.length))
      const trace = /: (.*)\r/.exec(sent[index]![1])?.[1]
      t.equal(headers.includes('traceparent') ? fieldOf(headers, 'traceparent') : undefined, trace)
    }
  },
)

t.test('the length is read wherever its field is among the others', async (t) => {
  const supplier = await httpSupplier((_request, response, body) => response.end(body))
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const others = ['Host: a\r\n', 'Content-Type: application/json\r\n']
  const bodies = ['{"a":1}', '{"a":2}', '{"a":333}', '', '{"a":4}']
  for (const place of [0, 1, 2]) {
    const caller = keptOpen(proxy.port)
    for (const body of bodies) {
      const fields = others.toSpliced(place, 0, `Content-Length: ${body.length}\r\n`).join('')
      const head = `POST /bid/acme HTTP/1.1\r\n${fields}\r\n`
      const answer = await caller.ask(Buffer.from(head + body))
      t.equal(answer.body, body, `after ${place} fields`)
    }
    caller.end()
  }
})

t.test('a kept head follows the current configuration', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const other = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close(), other.close()]))
  const setRoute = (route: object) =>
    proxy.proxy.setRoute({ ...routeSchema.parse(route), id: 'acme' })
  const configure = (settings: object) =>
    proxy.proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0', ...settings }))
  const caller = keptOpen(proxy.port)
  const ask = () => caller.ask(post('/bid/acme', '{}', 'X-Forwarded-For: 1.2.3.4\r\n'))
  const lastOf = ({ requests }: TestSupplier, name: string) => {
    const { headers } = requests.at(-1)!
    return headers.includes(name) ? headers[headers.indexOf(name) + 1] : undefined
  }
  t.equal((await ask()).headers['via'], undefined)
  t.equal(lastOf(supplier, 'X-Forwarded-For'), '127.0.0.1')
  setRoute({ endpoints: [other.url] })
  await ask()
  t.equal(lastOf(other, 'Host'), new URL(other.url).host, 'another endpoint')
  configure({ via: true })
  t.equal((await ask()).headers['via'], '1.1 bidweir')
  t.equal(lastOf(other, 'Via'), '1.1 bidweir')
  configure({ via: false })
  t.equal((await ask()).headers['via'], undefined)
  t.equal(lastOf(other, 'Via'), undefined)
  configure({ trustedProxies: ['127.0.0.1'] })
  await ask()
  t.equal(lastOf(other, 'X-Forwarded-For'), '1.2.3.4, 127.0.0.1', 'a trusted caller')
  setRoute({ endpoints: [other.url], callers: { headers: { 'Content-Length': '3' } } })
  t.equal((await ask()).status, 403, 'a caller that is not permitted any more')
  const permitted = keptOpen(proxy.port)
  for (const [body, status] of [['{ }', 204] as const, ['{ }', 204] as const, ['{}', 403] as const])
    t.equal((await permitted.ask(post('/bid/acme', body))).status, status, 'by its own length')
  permitted.end()
  caller.end()
})

t.test('responses that differ only in their length are distinguished', async (t) => {
  const heads: [string, number][] = [
    ['200 OK', 10],
    ['200 OK', 70_000],
    ['200 OK', 80_000],
    ['200 OK', 11],
    ['200 OK', 0],
    ['304 Not Modified', 7],
    ['304 Not Modified', 8],
  ]
  const supplier = await rawSupplier((socket) => {
    const [status, length] = heads[supplier.requests.length - 1]!
    const body = status === '200 OK' ? 'y'.repeat(length) : ''
    socket.write(`HTTP/1.1 ${status}\r\nX-A: 1\r\nContent-Length: ${length}\r\n\r\n${body}`)
  })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const [status, length] of heads) {
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.match(answer.head, new RegExp(`^HTTP/1.1 ${status}\r\n`))
    t.equal(answer.headers['content-length'], String(length))
    t.equal(answer.body.length, status === '200 OK' ? length : 0)
  }
  t.equal(supplier.connections, 1)
})

t.test('a 204 with a body ends its connection, as after one without', async (t) => {
  const lengths = [0, 0, 45, 0]
  const supplier = await rawSupplier((socket) => {
    const length = lengths[supplier.requests.length - 1]!
    const body = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfalse!!'.slice(0, length)
    socket.write(`HTTP/1.1 204 No Content\r\nContent-Length: ${length}\r\n\r\n`)
    if (length > 0) setImmediate(() => socket.write(body))
  })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const _ of lengths) t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 204)
  t.equal(supplier.connections, 2)
})
