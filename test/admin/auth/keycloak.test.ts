/** The whole service on PostgreSQL behind a real Keycloak, and the walk through the API of docs/management-api.md there. */
import t, { type Test } from 'tap'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'
import { browserAbsent } from '../../support/console.ts'
import { keycloakAbsent, startKeycloak } from '../../support/keycloak.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { walkThrough } from '../../support/readme.ts'
import { serveBidweir } from '../../support/served-node.ts'
import { until } from '../../support/until.ts'
import { consoleLogIn } from '../dashboard/issuer.ts'

interface Tokens {
  access_token: string
  refresh_token: string
  id_token?: string
}

const yaml = (issuer: string, database: string, endpoint: string) => `
location: local
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", auth: {issuer: "${issuer}", audience: bidweir}}
store: {database: "${database}"}
opd: {keys: [{id: 1, secret: ${Buffer.alloc(32, 3).toString('base64url')}}]}
drain: {grace: 0ms, timeout: 10s}
suppliers:
  - {id: demo, account: acme-media, endpoints: ["${endpoint}"], timeout: 20s, opd: {enabled: true, holdout: 0}}
  - {id: other, account: others, endpoints: ["${endpoint}"]}
`

async function world(t: Test) {
  const supplier = await createDemoSupplier()
  t.teardown(() => supplier.close())
  const database = await startPostgres()
  t.teardown(() => database.close())
  const auth = await startKeycloak(t)
  const bidweir = await serveBidweir(yaml(`${auth}/auth/realms/main`, database.url, supplier.url))
  t.teardown(() => bidweir.stop())
  const api = `http://127.0.0.1:${bidweir.adminPort}`
  const list = (token: string) =>
    fetch(`${api}/api/svc/ssp/`, { headers: { authorization: `Bearer ${token}` } })
  const ask = async (fields: Record<string, string>, realm = 'main', client = 'public-client') => {
    const path = `${auth}/auth/realms/${realm}/protocol/openid-connect/token`
    const body = new URLSearchParams({ client_id: client, ...fields })
    const answer = await fetch(path, { method: 'POST', body })
    const text = await answer.text()
    t.equal(answer.status, 200, answer.ok ? '' : text)
    return JSON.parse(text) as Tokens
  }
  return { auth, bidweir, api, list, ask }
}

/** A key that the running service has not seen; Keycloak signs with it from now on. */
async function addKey(t: Test, auth: string, root: string): Promise<void> {
  const headers = { authorization: `Bearer ${root}`, 'content-type': 'application/json' }
  const realm = (await (await fetch(`${auth}/auth/admin/realms/main`, { headers })).json()) as {
    id: string
  }
  const made = await fetch(`${auth}/auth/admin/realms/main/components`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      name: 'newer',
      parentId: realm.id,
      providerId: 'rsa-generated',
      providerType: 'org.keycloak.keys.KeyProvider',
      config: { priority: ['1000'], enabled: ['true'], active: ['true'], keySize: ['2048'] },
    }),
  })
  t.equal(made.status, 201)
}

const skip = keycloakAbsent || postgresAbsent
t.test('behind a real Keycloak', { skip }, async (t) => {
  const { auth, bidweir, api, list, ask } = await world(t)
  const password = { grant_type: 'password', scope: 'openid email profile' }
  const ann = { ...password, username: 'ann', password: 'secret-1' }

  t.test('the walk through the API, as pasted', (t) =>
    walkThrough(t, {
      ...{ api, bids: `http://127.0.0.1:${bidweir.proxyPort}`, auth },
      ...{ login: 'ann', password: 'secret-1' },
    }),
  )

  t.test('its tokens open the list call, each for what it is', async (t) => {
    t.equal(bidweir.password, null, 'users are the issuer’s')
    const first = await ask(ann)
    const answer = await list(first.access_token)
    t.equal(answer.status, 200)
    t.same(
      ((await answer.json()) as { id: string }[]).map(({ id }) => id),
      ['demo'],
      'the suppliers of the account',
    )
    t.equal((await list(first.refresh_token)).status, 401, 'a refresh token')
    t.equal((await list(first.id_token ?? '')).status, 401, 'an ID token')
    const next = await ask({ grant_type: 'refresh_token', refresh_token: first.refresh_token })
    t.equal((await list(next.access_token)).status, 200, 'after a refresh')
    const bob = await ask({ ...password, username: 'bob', password: 'secret-2' })
    t.equal((await list(bob.access_token)).status, 403, 'without the role')
  })

  t.test('the console', { skip: browserAbsent }, (t) => consoleLogIn(t, auth))

  t.test('tokens of another realm are refused, a newer key is found', async (t) => {
    const root = { grant_type: 'password', username: 'root', password: 'root-1' }
    const { access_token } = await ask(root, 'master', 'admin-cli')
    t.equal((await list(access_token)).status, 401, 'a token of another realm')
    await addKey(t, auth, access_token)
    const newer = await ask(ann)
    // unknown keys are asked for no more than every few seconds
    await until(async () => (await list(newer.access_token)).status === 200)
    t.pass('signed by a key made since')
  })
})
