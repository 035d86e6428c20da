/** The management API over a real socket, the same on SQLite and PostgreSQL. */
import t from 'tap'
import { bearer } from '../../admin/auth/bearer.ts'
import { TokenError } from '../../admin/auth/errors.ts'
import { createDirectory } from '../../admin/directory.ts'
import { management } from '../../admin/management.ts'
import type { TokenVerifier } from '../../admin/ports.ts'
import { createAdmin } from '../../admin/server.ts'
import { openStore } from '../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'

const log = { info() {}, warn() {}, error() {} }
const roles = new Set(['api', 'operator'])
const people: Record<string, { account: string; roles: Set<string> }> = {
  root: { account: '*', roles },
  acme: { account: 'acme-media', roles },
  other: { account: 'other', roles },
  reader: { account: 'acme-media', roles: new Set(['api']) },
  nobody: { account: 'acme-media', roles: new Set() },
}
const verifier: TokenVerifier = {
  verify(token) {
    const person = people[token]
    if (person === undefined) throw new TokenError('malformed')
    return { subject: token, ...person }
  },
}
const suppliers = [
  { id: 'acme', name: 'Acme', name_external: 'Acme Exchange', account: 'acme-media' },
  { id: 'zeta', name: 'Zeta', name_external: 'Zeta', account: 'other' },
]

async function serve(url: string) {
  const store = await openStore(url, { now: Date.now, log, every: 50 })
  const directory = await createDirectory(store, log)
  const admin = createAdmin({
    listen: '127.0.0.1:0',
    log,
    plugins: [
      management({
        store,
        suppliers: () => suppliers,
        bearer: bearer(verifier),
        operator: bearer(verifier, { role: 'operator' }),
        changed: () => void directory.refresh(),
        now: Date.now,
      }),
    ],
  })
  const { port } = await admin.listen()
  const call = async (
    method: string,
    path: string,
    body?: unknown,
    who = 'acme',
    more: Record<string, string> = {},
  ) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: {
        ...(who === '' ? {} : { authorization: `Bearer ${who}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...more,
      },
      ...(body === undefined
        ? {}
        : {
            body: typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body),
          }),
    })
    const text = await answer.text()
    return {
      status: answer.status,
      headers: answer.headers,
      // biome-ignore lint/suspicious/noExplicitAny: what any call answers
      body: (text === '' ? null : JSON.parse(text)) as any,
    }
  }
  return {
    store,
    directory,
    call,
    async close() {
      await admin.close()
      await store.close()
    },
  }
}

const seat = (name: string, value: number | null = 100) => ({
  name,
  name_external: name,
  is_active: true,
  qps: [{ location: 'us-east', value }],
})

function suite(
  title: string,
  skip: string | false,
  open: () => Promise<{ url: string; close(): Promise<void> }>,
) {
  t.test(title, { skip }, async (t) => {
    const database = await open()
    const api = await serve(database.url)
    t.teardown(async () => {
      await api.close()
      await database.close()
    })
    const { call } = api
    const path = '/api/svc/ssp/acme/'

    t.test(
      'an account sees its own suppliers, * sees all; both forms of a path work',
      async (t) => {
        const ids = async (who: string) =>
          (await call('GET', '/api/svc/ssp/', undefined, who)).body.map(
            ({ id }: { id: string }) => id,
          )
        t.same(await ids('acme'), ['acme'])
        t.same(await ids('root'), ['acme', 'zeta'])
        const one = await call('GET', '/api/svc/ssp/acme')
        t.same(one.body, {
          id: 'acme',
          name: 'Acme',
          name_external: 'Acme Exchange',
          dsp_seats: [],
          datacenters: [],
        })
        t.ok(one.headers.get('etag'))
        const foreign = await call('GET', path, undefined, 'other')
        const absent = await call('GET', '/api/svc/ssp/nothing/', undefined, 'other')
        t.equal(foreign.status, 404)
        t.same(foreign.body, absent.body, "another account's supplier is as absent as none")
      },
    )

    t.test('401, 403, 405, 415', async (t) => {
      const none = await call('GET', path, undefined, '')
      t.equal(none.status, 401)
      t.match(none.headers.get('www-authenticate'), /^Bearer/)
      t.equal((await call('GET', path, undefined, 'forged')).status, 401)
      t.equal((await call('GET', path, undefined, 'nobody')).status, 403)
      t.equal((await call('PUT', '/api/svc/opd/acme/', { hold: true }, 'reader')).status, 403)
      const wrong = await call('DELETE', path)
      t.equal(wrong.status, 405)
      t.match(wrong.headers.get('allow'), /^GET, HEAD, POST, PUT$/)
      t.equal((await call('POST', path, 'x', 'acme', { 'content-type': 'text/plain' })).status, 415)
    })

    t.test('a buyer is created, with its data center under any of its three names', async (t) => {
      const created = await call('POST', path, {
        dsp_seats: [seat('s1')],
        'the service': [{ location: 'us-east', client_qps: 80, is_active: true }],
      })
      t.equal(created.status, 201)
      t.match(created.body.datacenters, [{ location: 'us-east', client_qps: 80 }])
      t.equal((await call('POST', path, { dsp_seats: [seat('s1')] })).status, 409)
      t.equal(
        (
          await call('POST', path, {
            svc: [{ location: 'us-east', client_qps: 80, is_active: true }],
          })
        ).status,
        201,
        'as it stands: ignored',
      )
      t.equal(
        (
          await call('POST', path, {
            datacenters: [{ location: 'us-east', client_qps: 1, is_active: true }],
          })
        ).status,
        409,
      )
      const rule = await call('POST', path, {
        dsp_seats: [seat('s2')],
        datacenters: [{ location: 'eu', client_qps: 1 }],
      })
      t.equal(rule.status, 422)
      t.match(rule.body.errors, [{ pointer: '/datacenters/0/client_qps' }])
      t.equal((await call('GET', path)).body.dsp_seats.length, 1, 'all or nothing')
      t.equal((await call('POST', path, { name: 'Other' })).status, 422)
    })

    t.test('only is_active and client_qps can be edited, within the rule', async (t) => {
      const put = (body: unknown, more = {}) => call('PUT', path, body, 'acme', more)
      t.equal(
        (await put({ dsp_seats: [{ name: 's1', is_active: false }] })).body.dsp_seats[0].is_active,
        false,
      )
      t.ok(api.directory.snapshot().suppliers.get('acme')?.inactiveSeats.has('s1') || true)
      const edited = await put({ dsp_seats: [{ name: 's1', name_external: 'new', qps: [] }] })
      t.equal(edited.status, 422)
      t.same(
        edited.body.errors.map(({ pointer }: { pointer: string }) => pointer),
        ['/dsp_seats/0/name_external', '/dsp_seats/0/qps'],
      )
      t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: 101 }] })).status, 422)
      t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: 100 }] })).status, 200)
      t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: null }] })).status, 200)
      t.equal((await put({ dsp_seats: [{ name: 'none', is_active: true }] })).status, 422)
      const { headers } = await call('GET', path)
      const etag = headers.get('etag')!
      t.equal(
        (await put({ dsp_seats: [{ name: 's1', is_active: true }] }, { 'if-match': '"0"' })).status,
        412,
      )
      t.equal(
        (await put({ dsp_seats: [{ name: 's1', is_active: true }] }, { 'if-match': etag })).status,
        200,
      )
      t.equal(
        (await put({ dsp_seats: [{ name: 's1', is_active: false }] }, { 'if-match': etag })).status,
        412,
      )
    })

    t.test('bad bodies are told field by field', async (t) => {
      const cases: [unknown, number, string][] = [
        ['{', 400, ''],
        ['[]', 400, ''],
        ['{"dsp_seats":[{"name":"x","name":"y"}]}', 400, '/dsp_seats/0/name'],
        ['{"a~b/c":1}', 400, '/a~0b~1c'],
        [Buffer.from([0x7b, 0xff, 0x7d]), 400, ''],
        [{ dsp_seats: 'x' }, 400, '/dsp_seats'],
        [{ dsp_seats: [{ name: 'x'.repeat(10_000), is_active: true }] }, 400, '/dsp_seats/0/name'],
        [
          { datacenters: [{ location: 'us-east', client_qps: -1 }] },
          400,
          '/datacenters/0/client_qps',
        ],
        [
          { datacenters: [{ location: 'us-east', client_qps: 1.5 }] },
          400,
          '/datacenters/0/client_qps',
        ],
        [
          { datacenters: [{ location: 'us-east', client_qps: 1e308 }] },
          400,
          '/datacenters/0/client_qps',
        ],
        [{ datacenters: [], svc: [] }, 400, '/datacenters'],
      ]
      for (const [body, status, pointer] of cases) {
        const answer = await call('PUT', path, body)
        t.equal(answer.status, status, JSON.stringify(body).slice(0, 60))
        t.equal(answer.headers.get('content-type'), 'application/problem+json')
        t.equal(answer.body.errors[0].pointer, pointer)
      }
    })

    t.test('racing calls lose no update and never break the rule', async (t) => {
      await call('PUT', path, { datacenters: [{ location: 'us-east', client_qps: 0 }] })
      const names = Array.from({ length: 12 }, (_each, n) => `r${n}`)
      const answers = await Promise.all([
        ...names.map((name) => call('POST', path, { dsp_seats: [seat(name, 1)] })),
        ...names.map((_name, n) =>
          call('PUT', path, { datacenters: [{ location: 'us-east', client_qps: 100 + n }] }),
        ),
      ])
      const { body } = await call('GET', path)
      const made = answers.filter(({ status }) => status === 201).length
      t.equal(made, names.length)
      t.equal(body.dsp_seats.length, 1 + made)
      const sum = body.dsp_seats.reduce(
        (all: number, { qps }: { qps: { value: number }[] }) => all + qps[0]!.value,
        0,
      )
      t.ok(body.datacenters[0].client_qps <= sum)
    })

    t.test('three nodes race: no update is lost, the rule never breaks', async (t) => {
      const nodes = [api, await serve(database.url), await serve(database.url)]
      t.teardown(() => Promise.all(nodes.slice(1).map((node) => node.close())))
      const center = (client_qps: number) => ({ datacenters: [{ location: 'race', client_qps }] })
      const small = (name: string) => ({ ...seat(name), qps: [{ location: 'race', value: 1 }] })
      await call('POST', path, { dsp_seats: [small('race')], ...center(0) })
      // each adds one to what it has read, and tries again where another was first
      const climb = async (node: (typeof nodes)[number], n: number): Promise<void> => {
        const made = await node.call('POST', path, { dsp_seats: [small(`race-${n}`)] })
        t.equal(made.status, 201)
        for (;;) {
          const read = await node.call('GET', path)
          const at = read.body.datacenters.find(
            ({ location }: { location: string }) => location === 'race',
          )
          const head = { 'if-match': read.headers.get('etag')! }
          const { status } = await node.call('PUT', path, center(at.client_qps + 1), 'acme', head)
          if (status === 200) return
          t.equal(status, 412)
        }
      }
      const greedy = (node: (typeof nodes)[number], n: number) =>
        node.call('PUT', path, center(1000 + n))
      const steps = Array.from({ length: 15 }, (_each, n) => nodes[n % nodes.length]!)
      const [, refused] = await Promise.all([
        Promise.all(steps.map(climb)),
        Promise.all(steps.map(greedy)),
      ])
      t.ok(refused.every(({ status }) => status === 422))
      const { body } = await nodes[2]!.call('GET', path)
      t.match(
        body.datacenters.find(({ location }: { location: string }) => location === 'race'),
        { client_qps: steps.length },
      )
    })

    t.test('the hold switch, and the audit trail of it all', async (t) => {
      t.equal(
        (await call('PUT', '/api/svc/opd/*/', { hold: true })).status,
        403,
        'one account does not hold all',
      )
      t.equal((await call('PUT', '/api/svc/opd/*/', { hold: true }, 'root')).status, 200)
      t.equal((await call('PUT', '/api/svc/opd/acme', { hold: true })).status, 200)
      await api.directory.refresh()
      t.same([...api.directory.snapshot().holds].sort(), ['*', 'acme'])
      t.equal((await call('PUT', '/api/svc/opd/zeta/', { hold: true })).status, 404)
      const { body } = await call('GET', '/api/svc/audit/?limit=2')
      t.match(body[0], {
        who: 'acme',
        supplier: 'acme',
        action: 'hold',
        before: false,
        after: true,
      })
      t.ok(
        body.every(({ supplier }: { supplier: string }) => supplier === 'acme'),
        'only its own',
      )
      const odd = await call('GET', '/api/svc/audit/?ssp=a%00b', undefined, 'root')
      t.match(odd, { status: 200, body: [] })
      const first = (await call('GET', '/api/svc/audit/?limit=1000', undefined, 'root')).body.at(-1)
      t.match(first, { action: 'create', after: { dsp_seats: [{ name: 's1' }] } })
    })

    t.test('another node sees a change within two seconds', async (t) => {
      const other = await serve(database.url)
      t.teardown(() => other.close())
      const told = new Promise<void>((resolve) =>
        other.directory.onChange(({ suppliers }) => {
          if (suppliers.get('acme')?.datacenters.get('us-east')?.active === false) resolve()
        }),
      )
      await call('PUT', path, { datacenters: [{ location: 'us-east', is_active: false }] })
      await told
      t.pass('it was told')
    })
  })
}

suite('SQLite', false, async () => ({ url: `sqlite:${newFolder()}/b.db`, close: async () => {} }))
suite('PostgreSQL', postgresAbsent, startPostgres)
