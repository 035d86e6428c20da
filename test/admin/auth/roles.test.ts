/** Each call of the API with each role: exactly the roles of the API document are permitted (CONTRACT 8). */
import { join } from 'node:path'
import t from 'tap'
import { addUser } from '../../../admin/auth/users.ts'
import { may, type Role, roles } from '../../../admin/http/roles.ts'
import { openStore } from '../../../admin/store/index.ts'
import { newFolder, startBidweir, token } from '../../support/process.ts'
import { silent } from '../../support/store.ts'

const password = 'correct-1'
const params: Record<string, string> = {
  id: 'acme',
  ssp: 'acme',
  what: 'margin',
  svc_opd: 'abc',
}
/** Calls that do more than edit suppliers. */
const steering = /^\/api\/svc\/(opd|models|impressions|users|endpoints|alerts)\//

function needed(method: string, path: string): Role {
  // A notice writes, whatever its method.
  if (path.startsWith('/opd/')) return 'api'
  // The list of users shows all accounts, a supplier's whole block is its operator's (CONTRACT 14), a profile shows the process.
  if (path === '/api/svc/users/' || /^\/api\/svc\/(suppliers|debug)\//.test(path)) return 'operator'
  // Each tool has the role of the call of the API that it makes.
  if (method === 'GET' || path === '/mcp') return 'viewer'
  return steering.test(path) ? 'operator' : 'api'
}

interface Operation {
  security: object[]
}

t.test('every guarded call, with each role and with none', async (t) => {
  const folder = newFolder()
  const yaml = `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0}
drain: {grace: 0s, timeout: 5s}
suppliers: [{id: acme, endpoints: ['http://127.0.0.1:9/'], account: a, opd: {enabled: true}}]
`
  const bidweir = await startBidweir(yaml, folder)
  t.teardown(() => bidweir.stop())
  const url = `sqlite:${join(folder, 'data', 'bidweir.db')}`
  const store = await openStore(url, { now: Date.now, log: silent })
  t.teardown(() => store.close())
  const base = `http://127.0.0.1:${bidweir.adminPort}`
  const tokens = new Map<string, string>()
  for (const name of ['none', ...roles]) {
    const held = roles.filter((role) => role === name)
    await addUser(store, { name, password, account: '*', roles: held })
    tokens.set(name, await token(bidweir, name, password))
  }
  const document = (await (await fetch(`${base}/api/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>
  }
  const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { security }]) => security.some((scheme) => 'bearer' in scheme))
      .map(([method]) => ({ method: method.toUpperCase(), path })),
  )
  t.ok(calls.length >= 12)
  for (const { method, path } of calls) {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? 'x')
    const role = needed(method, path)
    for (const [name, access] of tokens) {
      const headers = { authorization: `Bearer ${access}` }
      const answer = await fetch(base + filled, { method, headers })
      const { code } = (await answer.json()) as { code?: string }
      t.not(answer.status, 401)
      const refused = answer.status === 403 && code === 'forbidden'
      t.equal(refused, !may(new Set([name]), role), `${method} ${filled} wants ${role}: ${name}`)
    }
  }
})

t.test('each role includes those before it, and no other name is one', (t) => {
  const matrix = ['viewer', 'api', 'operator', 'root', ''].map((held) =>
    roles.map((role) => may(new Set([held]), role)),
  )
  t.same(matrix, [
    [true, false, false],
    [true, true, false],
    [true, true, true],
    [false, false, false],
    [false, false, false],
  ])
  t.notOk(may(new Set(), 'viewer'))
  t.end()
})
