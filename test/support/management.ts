/** The management API over a real socket, for callers of several accounts and roles. */
import type { Test } from 'tap'
import { bearer } from '../../admin/auth/bearer.ts'
import type { TokenVerifier } from '../../admin/auth/tokens.ts'
import { TokenError } from '../../admin/auth/tokens.ts'
import { createDirectory } from '../../admin/directory.ts'
import { createAdmin } from '../../admin/http/server.ts'
import { management } from '../../admin/management/route.ts'
import { snapshotCatalog } from '../../opd/state/snapshot-catalog.ts'
import { newFolder } from './process.ts'
import { type Database, silent, storeAt } from './store.ts'

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

/** A node's management API on port 0, until the test ends. */
export async function serve(t: Test, database: Database, models = newFolder()) {
  const store = await storeAt(t, database, { pollInterval: 50 })
  const directory = await createDirectory(store, silent)
  const admin = createAdmin({
    listen: '127.0.0.1:0',
    log: silent,
    plugins: [
      management({
        store,
        suppliers: () => suppliers,
        authenticate: (role) => bearer(verifier, role),
        changed: () => void directory.refresh(),
        snapshots: snapshotCatalog(models),
        followed: async () => {},
        now: Date.now,
        endpoints: (id) =>
          ['eu', 'us'].map((zone) => ({
            ...{ url: `https://${zone}.${id}.example/bid`, weight: 1, zone: null, priority: 0 },
          })),
        endpointNodes: async () => [],
      }),
    ],
  })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
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
  return { directory, call, store }
}

export const seat = (name: string, value: number | null = 100) => ({
  name,
  name_external: name,
  is_active: true,
  qps: [{ location: 'us-east', value }],
})

export const path = '/api/svc/ssp/acme/'
