/** The token endpoint, discovery and keys of the embedded realm (SERVICE 4.1, 5; CONTRACT 9). */
import type { IncomingMessage } from 'node:http'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { problem } from '../../problem.ts'
import { always } from '../../refusing.ts'
import type { Store } from '../../store/index.ts'
import { PasswordsBusyError } from '../passwords.ts'
import type { Throttle } from '../throttle.ts'
import { findUser, logIn, type User } from '../users.ts'
import { grantScope, need, OAuthError, oauthErrors, readForm } from './form.ts'
import { accessLife, clientId, type Issuer } from './issuer.ts'
import { algorithm, type SigningKeys } from './keys.ts'
import { type RefreshTokens, refreshLife } from './refresh.ts'

export interface EndpointDeps {
  store: Pick<Store, 'db' | 'postgres'>
  realm: string
  /** The issuer's URL, from the configuration: a Host header never decides it. */
  url: () => string
  issuer: Issuer
  keys: SigningKeys
  refresh: RefreshTokens
  throttle: Throttle
  /** Who asks, as far as the throttle is concerned. */
  address: (request: IncomingMessage) => string
}

interface Granted {
  user: User
  scope: string
  token: string
}

type Form = Map<string, string>

/** Bytes of a token request. */
const maxForm = 16 * 1024

export function tokenEndpoint(deps: EndpointDeps): FastifyPluginAsync {
  const { store, realm, url, issuer, keys, refresh, throttle, address } = deps

  async function byPassword(form: Form, from: string): Promise<Granted> {
    const name = need(form, 'username')
    const password = need(form, 'password')
    const scope = grantScope(form.get('scope'))
    // The right password waits as well: else the wait would tell which it is.
    const key = name.slice(0, 128)
    const wait = throttle.begin(key, from)
    if (wait > 0) throw new OAuthError('slow_down', 'too many failed log-ins', wait)
    let user: User | null
    try {
      user = await logIn(store, name, password)
    } catch (error) {
      throttle.undone(key, from)
      throw error
    }
    if (user === null) throw new OAuthError('invalid_grant', 'user or password is wrong')
    throttle.succeeded(key, from)
    return { user, scope, token: await refresh.start({ user: user.name, scope }) }
  }

  async function byRefresh(form: Form): Promise<Granted> {
    const given = need(form, 'refresh_token')
    const grantedBefore = await refresh.peek(given)
    const ended = new OAuthError('invalid_grant', 'the refresh token is not valid any more')
    if (grantedBefore === null) throw ended
    const scope = grantScope(form.get('scope'), grantedBefore.scope)
    const next = await refresh.rotate(given)
    // Roles and account are read anew: a change of the user holds from the next refresh on.
    const user = next === null ? null : await findUser(store, next.user)
    if (next === null || user === null) throw ended
    return { user, scope, token: next.token }
  }

  const grants: Record<string, (form: Form, from: string) => Promise<Granted>> = {
    password: byPassword,
    refresh_token: byRefresh,
  }

  async function answer(request: FastifyRequest) {
    if (typeof request.body !== 'string')
      throw new OAuthError('invalid_request', 'send application/x-www-form-urlencoded')
    const form = readForm(request.body)
    const client = need(form, 'client_id')
    const type = need(form, 'grant_type')
    if (client !== clientId) throw new OAuthError('invalid_client', 'no such client')
    const grant = Object.hasOwn(grants, type) ? grants[type] : undefined
    if (grant === undefined)
      throw new OAuthError('unsupported_grant_type', 'password and refresh_token are taken')
    const { user, scope, token } = await grant(form, address(request.raw))
    return {
      access_token: await issuer.sign(user, scope),
      expires_in: accessLife,
      refresh_token: token,
      refresh_expires_in: refreshLife,
      token_type: 'Bearer',
      scope,
    }
  }

  function refuse(
    reply: FastifyReply,
    code: OAuthError['code'],
    text: string,
    wait: number | null,
  ) {
    if (wait !== null) reply.header('retry-after', String(wait))
    if (code === 'invalid_client') reply.header('www-authenticate', `Bearer realm="${realm}"`)
    return reply
      .code(oauthErrors[code])
      .headers({ 'cache-control': 'no-store', pragma: 'no-cache' })
      .send({ error: code, error_description: text })
  }

  return async (app) => {
    const base = `/auth/realms/${realm}`
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: maxForm },
      (_request, body, done) => done(null, body),
    )
    app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
      if (error instanceof OAuthError)
        return refuse(reply, error.code, error.message, error.retryAfter)
      if (error instanceof PasswordsBusyError)
        return refuse(reply, 'temporarily_unavailable', error.message, 2)
      const { statusCode = 500 } = error
      if (statusCode < 500) return refuse(reply, 'invalid_request', error.message, null)
      request.log.error({ err: error.message }, 'the token endpoint failed')
      return refuse(reply, 'temporarily_unavailable', 'the store does not answer', 5)
    })
    app.post(
      `${base}/protocol/openid-connect/token`,
      { logLevel: 'warn' },
      async (request, reply) => {
        const body = await answer(request)
        return reply.headers({ 'cache-control': 'no-store', pragma: 'no-cache' }).send(body)
      },
    )
    app.route({
      method: app.supportedMethods.filter((method) => method !== 'POST'),
      url: `${base}/protocol/openid-connect/token`,
      onRequest: always((_request, reply) =>
        problem(reply.header('allow', 'POST'), 405, 'method_not_allowed', 'Only POST'),
      ),
      handler: async (_request, reply) => reply,
    })
    const open = { exposeHeadRoute: true }
    app.get(`${base}/.well-known/openid-configuration`, open, async () => ({
      issuer: url(),
      token_endpoint: `${url()}/protocol/openid-connect/token`,
      jwks_uri: `${url()}/protocol/openid-connect/certs`,
      grant_types_supported: Object.keys(grants),
      response_types_supported: [],
      subject_types_supported: ['public'],
      token_endpoint_auth_methods_supported: ['none'],
      id_token_signing_alg_values_supported: [algorithm],
      scopes_supported: grantScope(undefined).split(' '),
    }))
    app.get(`${base}/protocol/openid-connect/certs`, open, async () => keys.jwks())
  }
}
