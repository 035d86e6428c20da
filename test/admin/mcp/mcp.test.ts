/** `/mcp`, called by the official client over a real socket. */
import { createPrivateKey } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { callOf } from '../../support/agent.ts'
import { token } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'

const supplier = await echoSupplier()
const node = await serveNode({
  endpoint: supplier.url,
  suppliers: [
    'id: acme, account: acme-media, opd: {enabled: true, holdout: 0, explore: 0}',
    'id: other, account: another, opd: {enabled: true, holdout: 0, explore: 0}',
  ],
})
t.teardown(async () => {
  await node.stop()
  await supplier.close()
})
const password = 'correct-horse-1'
for (const [name, role, account] of [
  ['eve', 'viewer', 'acme-media'],
  ['ann', 'api', 'acme-media'],
  ['op', 'operator', '*'],
]) {
  const body = JSON.stringify({ name, password, roles: [role], account })
  const headers = { 'content-type': 'application/json' }
  const added = await node.api('/api/svc/users/', { method: 'POST', headers, body })
  if (!added.ok) throw new Error(await added.text())
}
const tokenOf = (name: string) => token(node.bidweir, name, password)

async function connected(t: Test, name: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const headers = { authorization: `Bearer ${await tokenOf(name)}` }
  const url = new URL(`${node.admin}/mcp`)
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  t.teardown(() => client.close())
  return client
}

interface Result {
  isError?: boolean
  content: { type: string; text: string }[]
  structuredContent?: Record<string, unknown>
}

/** The result of a tool, with the JSON of its text. */
async function called(client: Client, name: string, args: object = {}) {
  const result = (await client.callTool({ name, arguments: { ...args } })) as unknown as Result
  const { text } = result.content[0]!
  return { isError: result.isError === true, text, json: jsonIn(text) }
}
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

t.test('the tools are listed, with what they change', async (t) => {
  const { tools } = await (await connected(t, 'eve')).listTools()
  const readOnly = Object.fromEntries(
    tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint ?? false]),
  )
  t.strictSame(readOnly, {
    extend_rtb: false,
    list_suppliers: true,
    report: true,
    explain_decision: true,
    hold: false,
  })
})

t.test('extend_rtb prices a bid, and explain_decision says why', async (t) => {
  const client = await connected(t, 'ann')
  const { isError, json } = await called(client, 'extend_rtb', callOf({ tmax: 60_000 }))
  t.notOk(isError)
  t.match(json, {
    id: 'call-1',
    mutations: [
      { intent: 'BID_SHADE', op: 'OPERATION_REPLACE', path: '/seatbid/seat-1/bid/bid-1' },
    ],
    metadata: { api_version: '1.0' },
  })
  const { mutations } = json as { mutations: { adjust_bid: { price: number } }[] }
  const { price } = mutations[0]!.adjust_bid
  t.ok(price >= 1 && price < 2.4, `${price}`)
  const explained = await called(client, 'explain_decision', { bid_id: 'bid-1' })
  t.match(explained.json, { bid_id: 'bid-1', ssp: 'acme', in_ba: '2.4', out_ba: String(price) })
})

t.test(
  'numbers and short names of enums are taken, null is absent, unknown members are ignored',
  async (t) => {
    const client = await connected(t, 'ann')
    const call = callOf({
      tmax: 60_000,
      lifecycle: 2,
      applicable_intents: [6],
      originator: { type: 'DSP', id: 'acme', ext: 1 },
      ext: { a: [1] },
    })
    const { json } = await called(client, 'extend_rtb', call)
    t.equal((json as { mutations: unknown[] }).mutations.length, 1)
    const test = { ...call.bid_request, test: 1, device: null }
    const tested = await called(client, 'extend_rtb', { ...call, bid_request: test })
    t.equal((tested.json as { mutations: unknown[] }).mutations.length, 0, 'a test is not priced')
  },
)

const unpriced: [title: string, over: object][] = [
  ['another lifecycle', { lifecycle: 'LIFECYCLE_PUBLISHER_BID_REQUEST' }],
  ['other intents', { applicable_intents: ['ACTIVATE_DEALS'] }],
  ['no bid response', { bid_response: undefined }],
  ['an unknown supplier', { originator: { id: 'nobody' } }],
  ["another account's supplier", { originator: { id: 'other' } }],
]
for (const [title, over] of unpriced)
  t.test(`a call with ${title} gets no mutation`, async (t) => {
    const { isError, json } = await called(await connected(t, 'ann'), 'extend_rtb', callOf(over))
    t.notOk(isError)
    t.match(json, { id: 'call-1', mutations: [] })
  })

t.test('a value of a wrong type is an error that names its place', async (t) => {
  const client = await connected(t, 'ann')
  const bid = { id: 'b', impid: '1', price: '2.4' }
  const { isError, json } = await called(client, 'extend_rtb', {
    ...callOf(),
    tmax: -1,
    lifecycle: 'SOON',
    bid_request: { imp: { id: '1' } },
    bid_response: { seatbid: [{ bid: [bid, 7] }] },
  })
  t.ok(isError)
  t.match(json, { code: 'malformed', title: 'Not an RTBRequest' })
  const { errors } = json as { errors: { pointer: string; detail: string }[] }
  t.strictSame(
    errors.map(({ pointer }) => pointer),
    [
      '/lifecycle',
      '/tmax',
      '/bid_request/imp',
      '/bid_response/seatbid/0/bid/0/price',
      '/bid_response/seatbid/0/bid/1',
    ],
  )
  t.equal(errors[3]!.detail, 'must be a number')
})

t.test('tools of the API answer as the API does for the account of the caller', async (t) => {
  const eve = await connected(t, 'eve')
  const listed = await called(eve, 'list_suppliers')
  t.same(
    (listed.json as { id: string }[]).map(({ id }) => id),
    ['acme'],
  )
  const all = await called(await connected(t, 'op'), 'list_suppliers')
  t.same(
    (all.json as { id: string }[]).map(({ id }) => id),
    ['acme', 'other'],
  )
  const report = await called(eve, 'report', { what: 'wins', by: 'day', top: 5 })
  t.notOk(report.isError, report.text)
  t.ok(Array.isArray(report.json))
  const wrong = await called(eve, 'report', { what: 'wins', from: 'yesterday' })
  t.ok(wrong.isError)
  t.match(wrong.json, { status: 400, errors: [{ pointer: 'from' }] })
  const unknown = await called(eve, 'explain_decision', { bid_id: 'none' })
  t.match(unknown, { isError: true, json: { status: 404, code: 'unknown_decision' } })
  const forged = await called(eve, 'explain_decision', { bid_id: 'b', svc_opd: 'a/../b?c' })
  t.match(forged, { isError: true, json: { status: 404 } })
})

t.test('arguments that a tool does not have are refused by name', async (t) => {
  const { isError, json } = await called(await connected(t, 'eve'), 'report', {
    what: 'profit',
    colour: 1,
    top: 'five',
  })
  t.ok(isError)
  const { errors } = json as { errors: { pointer: string }[] }
  t.same(errors.map(({ pointer }) => pointer).sort(), ['/colour', '/top', '/what'])
})

t.test('each tool needs its role', async (t) => {
  const eve = await connected(t, 'eve')
  const refused = { isError: true, json: { status: 403, code: 'forbidden' } }
  t.match(await called(eve, 'extend_rtb', callOf()), refused)
  for (const name of ['eve', 'ann']) {
    const client = await connected(t, name)
    t.match(await called(client, 'hold', { supplier: 'acme', hold: true }), refused)
  }
})

t.test('an operator holds a supplier, and the change is audited', async (t) => {
  const client = await connected(t, 'op')
  const held = await called(client, 'hold', { supplier: 'acme', hold: true })
  t.match(held, { isError: false, json: { supplier: 'acme', hold: true } })
  const audit = (await (await node.api('/api/svc/audit/')).json()) as { who?: string }[]
  t.match(JSON.stringify(audit), /"op"/)
  await called(client, 'hold', { supplier: 'acme', hold: false })
  const nobody = await called(client, 'hold', { supplier: 'nobody', hold: true })
  t.match(nobody, { isError: true, json: { status: 404 } })
})

// --- without the client ---

const message = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
const post = (body: string, bearer: string | null, headers: Record<string, string> = {}) =>
  fetch(`${node.admin}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
      ...headers,
    },
    body,
  })

/** A token of the realm with other claims; signed by the realm's own key. */
async function resigned(bearer: string, over: object): Promise<string> {
  const database = new DatabaseSync(join(node.folder, 'data/bidweir.db'), { readOnly: true })
  const row = database.prepare('select private_jwk from signing_keys').get() as {
    private_jwk: string
  }
  database.close()
  const key = createPrivateKey({ key: JSON.parse(row.private_jwk), format: 'jwk' })
  const { alg, kid } = decodeProtectedHeader(bearer)
  return new SignJWT({ ...decodeJwt(bearer), ...over })
    .setProtectedHeader({ alg: alg!, kid: kid! })
    .sign(key)
}

t.test('a call without a valid token is 401', async (t) => {
  const bearer = await tokenOf('ann')
  const text = JSON.stringify(message)
  t.equal((await post(text, await resigned(bearer, {}))).status, 200, 'a token of the same form')
  const seconds = Math.floor(Date.now() / 1000)
  const cut = bearer.split('.')
  const claims = Buffer.from(JSON.stringify({ ...decodeJwt(bearer), account: '*' }))
  const refused: Record<string, string | null> = {
    'no token': null,
    expired: await resigned(bearer, { iat: seconds - 900, exp: seconds - 600 }),
    'changed claims': `${cut[0]}.${claims.toString('base64url')}.${cut[2]}`,
    'no signature': `${Buffer.from('{"alg":"none"}').toString('base64url')}.${cut[1]}.`,
    'not a token': 'x',
  }
  for (const [name, forged] of Object.entries(refused)) {
    const answer = await post(text, forged)
    t.equal(answer.status, 401, name)
    t.match(answer.headers.get('www-authenticate'), /^Bearer realm=/, name)
    t.match(answer.headers.get('content-type'), /application\/problem\+json/, name)
  }
})

t.test('a body that is no message is refused with its fault', async (t) => {
  const bearer = await tokenOf('ann')
  const cases: [title: string, body: string, status: number, pointer: string | null][] = [
    ['not JSON', '{', 400, ''],
    ['a list', '[]', 400, ''],
    ['no version', '{"id":1,"method":"tools/list"}', 400, '/jsonrpc'],
    ['a repeated key', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, '/id'],
    ['too large', JSON.stringify({ ...message, x: 'x'.repeat(300_000) }), 413, null],
  ]
  for (const [title, body, status, pointer] of cases) {
    const answer = await post(body, bearer)
    t.equal(answer.status, status, title)
    const { errors } = (await answer.json()) as { errors?: { pointer: string }[] }
    if (pointer !== null) t.equal(errors?.[0]?.pointer, pointer, title)
  }
  const unknown = await post(JSON.stringify({ ...message, method: 'no/such' }), bearer)
  t.match(await unknown.json(), { error: { code: -32601 } })
  const tool = await post(
    JSON.stringify({ ...message, method: 'tools/call', params: { name: 'drop' } }),
    bearer,
  )
  t.match(await tool.json(), {
    error: { code: -32602, message: /no tool drop; the tools are extend_rtb/ },
  })
})

t.test('there is no stream and no session: other methods are 405', async (t) => {
  const headers = { authorization: `Bearer ${await tokenOf('ann')}` }
  for (const method of ['GET', 'DELETE']) {
    const answer = await fetch(`${node.admin}/mcp`, { method, headers })
    t.equal(answer.status, 405)
    t.equal(answer.headers.get('allow'), 'POST')
  }
})
