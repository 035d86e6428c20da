/** Against a real Keycloak: `KEYCLOAK_HOME="$(.ci/keycloak)"`, or the cache that it fills. */
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { bearer } from '../../admin/auth/bearer.ts'
import { createAuth } from '../../admin/auth/index.ts'
import type { Store } from '../../admin/store/index.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const home = process.env['KEYCLOAK_HOME'] ?? join(cache, 'bidweir', 'keycloak-26.0.7')
const skip = existsSync(join(home, 'bin', 'kc.sh')) ? false : 'keycloak not found'
const log = { info() {}, warn() {} }
const form = (fields: Record<string, string>) => ({
  method: 'POST',
  body: new URLSearchParams(fields),
})
interface Tokens {
  access_token: string
  refresh_token: string
  id_token?: string
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0))
    })
  })
}

/** A home of its own: Keycloak writes its build and its database beside its libraries. */
async function keycloak(t: Test): Promise<string> {
  const own = mkdtempSync(join(tmpdir(), 'keycloak-'))
  for (const part of ['bin', 'conf', 'providers', 'themes', 'version.txt'])
    if (existsSync(join(home, part))) cpSync(join(home, part), join(own, part), { recursive: true })
  mkdirSync(join(own, 'lib'))
  for (const part of ['app', 'lib', 'quarkus', 'quarkus-run.jar']) {
    const from = join(home, 'lib', part)
    if (part === 'lib') symlinkSync(from, join(own, 'lib', part))
    else cpSync(from, join(own, 'lib', part), { recursive: true })
  }
  mkdirSync(join(own, 'data', 'import'), { recursive: true })
  cpSync(join(import.meta.dirname, 'fixtures', 'realm.json'), join(own, 'data/import/realm.json'))
  const port = await freePort()
  const args = ['start-dev', '--import-realm', '--http-relative-path=/auth', '--cache=local']
  const child = spawn(
    join(own, 'bin', 'kc.sh'),
    [...args, '--http-host=127.0.0.1', `--http-port=${port}`],
    {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        KC_BOOTSTRAP_ADMIN_USERNAME: 'root',
        KC_BOOTSTRAP_ADMIN_PASSWORD: 'root-1',
      },
    },
  )
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      said = (said + chunk).slice(-4000)
    })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    // the script starts Java: the whole group ends
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await gone
    rmSync(own, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}/auth`
  for (let tries = 0; tries < 340; tries++) {
    if (child.exitCode !== null) throw new Error(`Keycloak ended: ${said}`)
    const answer = await fetch(`${url}/realms/main`).catch(() => null)
    await answer?.body?.cancel()
    if (answer?.ok === true) return url
    await wait(500)
  }
  throw new Error(`Keycloak did not start: ${said}`)
}

// it builds itself first: a minute on two cores
t.setTimeout(240_000)
t.test('tokens of a real Keycloak', { skip, timeout: 240_000 }, async (t) => {
  const url = await keycloak(t)
  const issuer = `${url}/realms/main`
  const clock = { ahead: 0 }
  const auth = await createAuth(
    { issuer, audience: 'bidweir', role: 'api', accountClaim: 'account' },
    {
      store: {} as Pick<Store, 'db' | 'postgres'>,
      baseUrl: '',
      log,
      now: () => Date.now() + clock.ahead,
    },
  )
  const app = fastify()
  app.get('/who', { onRequest: bearer(auth.verifier) }, async ({ caller }) => ({
    subject: caller?.subject,
    account: caller?.account,
  }))
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => {
    auth.close()
    await app.close()
  })
  const who = (token: string) =>
    fetch(`${base}/who`, { headers: { authorization: `Bearer ${token}` } })
  const ask = async (fields: Record<string, string>, realm = 'main', client = 'public-client') => {
    const path = `${url}/realms/${realm}/protocol/openid-connect/token`
    const answer = await fetch(path, form({ client_id: client, ...fields }))
    const body = await answer.json()
    t.equal(answer.status, 200, JSON.stringify(answer.ok ? '' : body))
    return body as Tokens
  }
  const scope = 'openid email profile'
  const password = { grant_type: 'password', scope }
  const ann = { ...password, username: 'ann', password: 'secret-1' }
  const first = await ask(ann)
  const answer = await who(first.access_token)
  t.equal(answer.status, 200)
  t.strictSame(await answer.json(), { subject: 'ann', account: 'acme-media' })
  t.equal((await who(first.refresh_token)).status, 401, 'a refresh token')
  t.equal((await who(first.id_token ?? '')).status, 401, 'an ID token')
  const next = await ask({ grant_type: 'refresh_token', refresh_token: first.refresh_token })
  t.equal((await who(next.access_token)).status, 200, 'after a refresh')
  const bob = await ask({ ...password, username: 'bob', password: 'secret-2' })
  t.equal((await who(bob.access_token)).status, 403, 'without the role')

  const root = { grant_type: 'password', username: 'root', password: 'root-1' }
  const { access_token } = await ask(root, 'master', 'admin-cli')
  t.equal((await who(access_token)).status, 401, 'a token of another realm')
  const headers = { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' }
  const realm = (await (await fetch(`${url}/admin/realms/main`, { headers })).json()) as {
    id: string
  }
  const made = await fetch(`${url}/admin/realms/main/components`, {
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
  clock.ahead = 6000
  t.equal((await who((await ask(ann)).access_token)).status, 200, 'signed by a key made since')
})
