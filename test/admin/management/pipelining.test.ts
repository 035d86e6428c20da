/** Pipelined requests on the admin listener: one at a time, and none after a refused one. */
import t from 'tap'
import { raw } from '../../support/raw.ts'
import { field, type Response, responsesOf } from '../../support/responses.ts'
import { path, startWire } from '../../support/service-api.ts'

const { ask, bearer, url } = await startWire(t)
const port = Number(new URL(url()).port)
const host = 'Host: a\r\n'
const authorization = `Authorization: Bearer ${bearer}\r\n`
const json = 'Content-Type: application/json\r\n'
const get = (target: string, fields: string) => `GET ${target} HTTP/1.1\r\n${fields}\r\n`
const post = (target: string, fields: string, body: string) =>
  `POST ${target} HTTP/1.1\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`
const seat = (name: string, fields = '') =>
  post(path, `${host}${authorization}${json}${fields}`, JSON.stringify({ dsp_seats: [{ name }] }))
const win = (id: string) => get(`/opd/imp?bid_id=${id}&price=1`, `${host}${authorization}`)
const login = post(
  '/auth/realms/main/protocol/openid-connect/token',
  `${host}Content-Type: application/x-www-form-urlencoded\r\n`,
  'grant_type=password&client_id=public-client&username=nobody&password=none',
)

const finals = (bytes: string): Response[] =>
  (responsesOf(bytes) ?? []).filter(({ status, complete }) => status >= 200 && complete)

/** What calls have left behind: seats of the supplier, and notices that were counted. */
async function traces() {
  const { dsp_seats } = JSON.parse((await ask('GET', path)).text)
  const metrics = (await ask('GET', '/metrics')).text
  const notices = metrics.match(/^bidweir_impressions_total\{.*\} \d+$/gm) ?? []
  return JSON.stringify([dsp_seats.map(({ name }: { name: string }) => name), notices])
}

const refused: Record<string, [string, number]> = {
  'two Hosts': [get('/healthz', `${host}${host}`), 400],
  'no Host': [get('/healthz', ''), 400],
  'two Authorizations': [get(path, `${host}${authorization}${authorization}`), 400],
  'an unknown expectation': [get('/healthz', `${host}Expect: the-best\r\n`), 417],
  'a tunnel': ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  'no request': ['GARBAGE\r\n\r\n', 400],
  'a last request': [get('/healthz', `${host}Connection: close\r\n`), 200],
  'an offer to upgrade, which is ignored': [
    get('/healthz', `${host}Connection: Upgrade\r\nUpgrade: h2c\r\n`),
    200,
  ],
}

t.test('nothing behind a refused or last request is carried out', async (t) => {
  const before = await traces()
  for (const [title, [first, status]] of Object.entries(refused))
    for (const second of [seat('behind'), win('behind')]) {
      const { bytes, closed } = await raw(port, first + second, () => false)
      const responses = finals(bytes)
      t.same(
        responses.map((response) => [
          response.status,
          field(response, 'connection')?.toLowerCase(),
        ]),
        [[status, 'close']],
        title,
      )
      t.ok(closed, title)
    }
  t.equal(await traces(), before)
})

t.test('behind any other refusal a connection goes on', async (t) => {
  const others: Record<string, [string, number]> = {
    'no token': [get(path, host), 401],
    'no such path': [get('/nowhere', host), 404],
    'another media type': [seat('x').replace('application/json', 'text/xml'), 415],
    'a body that is not JSON': [seat('x').replace('{', '['), 400],
  }
  for (const [title, [bytes, status]] of Object.entries(others)) {
    const both = (text: string) => finals(text).length === 2
    const answer = await raw(port, bytes + get('/healthz', host), both)
    const statuses = finals(answer.bytes).map((response) => response.status)
    t.same(statuses, [status, 200], title)
  }
})

t.test('100 Continue and the answer to CONNECT come behind the answers before them', async (t) => {
  const expecting = (bytes: string) => bytes.replace(host, `${host}Expect: 100-continue\r\n`)
  const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'
  const cases: Record<string, [string, number[]]> = {
    'a token, then a seat': [login + expecting(seat('s1')), [400, 100, 201]],
    'a token, then no path': [login + expecting(post('/no', host, '{}')), [400, 100, 404]],
    'a token, then two Hosts': [
      login + expecting(post(path, `${host}${host}`, '{}')),
      [400, 100, 400],
    ],
    'a token, then another expectation': [
      login + get('/healthz', `${host}Expect: x\r\n`),
      [400, 417],
    ],
    'a token, then CONNECT': [login + tunnel, [400, 405]],
    'a supplier, then no request': [
      `${get(path, `${host}${authorization}`)}GARBAGE\r\n\r\n`,
      [200, 400],
    ],
  }
  for (const [title, [bytes, statuses]] of Object.entries(cases)) {
    const answer = await raw(
      port,
      bytes,
      (text) => responsesOf(text)?.filter(({ complete }) => complete).length === statuses.length,
    )
    const responses = responsesOf(answer.bytes) ?? []
    t.same(
      responses.map(({ status }) => status),
      statuses,
      title,
    )
  }
})

t.test('two Authorization lines are refused on every path', async (t) => {
  const twice = `${authorization}Authorization: Basic eDp5\r\n`
  const calls = [
    get(path, host),
    get('/opd/imp?bid_id=b&price=1', host),
    get('/metrics', host),
    post('/opd/acme_yesbid', `${host}${json}`, '{"seatbid":[]}'),
    login,
    seat('twice').replace(authorization, ''),
  ]
  for (const call of calls) {
    const { status, body } = await raw(port, call.replace(host, `${host}${twice}`), () => false)
    t.equal(status, 400, call.split('\r\n', 1)[0]!)
    t.match(JSON.parse(body), { code: 'malformed' })
  }
})
