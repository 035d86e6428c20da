/** An embedded realm over a real socket, its store, and a path that a token opens. */
import type { FastifyPluginAsync } from 'fastify'
import type { Test } from 'tap'
import { bearer } from '../../admin/auth/bearer.ts'
import { type AuthDeps, createAuth } from '../../admin/auth/index.ts'
import { createAdmin } from '../../admin/http/server.ts'
import { openStore } from '../../admin/store/index.ts'
import './cheap-passwords.ts'
import { silent } from './store.ts'

interface TokenAnswer {
  access_token: string
  refresh_token: string
  id_token?: string
  scope: string
  expires_in: number
  refresh_expires_in: number
  token_type: string
  error: string
}

const client_id = 'public-client'
export const realmPath = '/auth/realms/main'
export const protocolPath = `${realmPath}/protocol/openid-connect`

export async function embeddedRealm(
  t: Test,
  url = `sqlite:${t.testdir()}/a.db`,
  options: Partial<Pick<AuthDeps, 'publicUrl' | 'trustedProxies'>> = {},
) {
  const clock = { now: Date.now() }
  const now = () => clock.now
  const store = await openStore(url, { now, log: silent })
  const auth = await createAuth(
    { embedded: { realm: 'main' } },
    { store, baseUrl: () => 'http://0.0.0.0:8081', log: silent, now, ...options },
  )
  const whoami: FastifyPluginAsync = async (app) => {
    app.get('/who', { preHandler: bearer(auth.verifier) }, async (request) => ({
      ...request.caller,
      roles: [...(request.caller?.roles ?? [])],
    }))
  }
  const plugins = [auth.plugin!, whoami]
  const admin = createAdmin({ listen: '127.0.0.1:0', log: silent, plugins })
  const { port } = await admin.listen()
  const base = `http://127.0.0.1:${port}`
  t.teardown(async () => {
    await admin.close()
    auth.close()
    await store.close()
  })
  const post = (name: string, fields: Record<string, string> | string, headers = {}) =>
    fetch(`${base}${protocolPath}/${name}`, {
      method: 'POST',
      body: typeof fields === 'string' ? fields : new URLSearchParams(fields).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })
  const ask = async (fields: Record<string, string> | string, headers = {}) => {
    const answer = await post('token', fields, headers)
    const { status } = answer
    return { status, headers: answer.headers, body: (await answer.json()) as TokenAnswer }
  }
  const who = (token: string | null) =>
    fetch(`${base}/who`, token === null ? {} : { headers: { authorization: `Bearer ${token}` } })
  const login = (username: string, password: string, more: Record<string, string> = {}) =>
    ask({ client_id, grant_type: 'password', username, password, ...more })
  const refresh = (refresh_token: string) =>
    ask({ client_id, grant_type: 'refresh_token', refresh_token })
  return { store, post, ask, who, login, refresh, base, clock }
}
