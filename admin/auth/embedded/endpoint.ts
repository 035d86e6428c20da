/**
 * HTTP endpoints of the embedded realm: tokens, revocation, log-out, discovery and keys (SERVICE 4.1, 5; CONTRACT 9).
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { addRoute } from '../../http/call.ts'
import { BusyError, Problem } from '../../http/problem.ts'
import type { Store } from '../../store/index.ts'
import type { Throttle } from '../throttle.ts'
import { logIn } from '../users.ts'
import { accessLife, clientId, type Issuer, type SigningKeys } from './issuer.ts'
import {
  askedScopes,
  discoveryOf,
  grantScope,
  need,
  OAuthError,
  oauthErrors,
  readForm,
  realmRoutes,
} from './protocol.ts'
import { type RefreshTokens, refreshLife, type Session } from './refresh-tokens.ts'

interface EndpointDeps {
  store: Pick<Store, 'db'>
  realm: string
  /** The issuer URL, as this client reached it. */
  url: (request: IncomingMessage) => string
  issuer: Issuer
  keys: SigningKeys
  refresh: RefreshTokens
  throttle: Throttle
  /** Counts a refused log-in by its kind. */
  refused: (kind: 'password' | 'refresh_token' | 'throttled') => void
  /** The client address that the throttle counts. */
  address: (request: IncomingMessage) => string
}

interface Granted {
  session: Session
  /** All scopes of the session, or some of them. */
  scope: string
}

type Form = Map<string, string>

function formOf({ body }: FastifyRequest): Form {
  if (typeof body !== 'string')
    throw new OAuthError('invalid_request', 'send application/x-www-form-urlencoded')
  return readForm(body)
}

/** Bytes of a token request. */
const maxForm = 16 * 1024
const uncached = { 'cache-control': 'no-store', pragma: 'no-cache' }

class Grants {
  private readonly deps: EndpointDeps
  /** By grant type. */
  readonly types = new Map<string, (form: Form, from: string) => Promise<Granted>>([
    ['password', (form, from) => this.byPassword(form, from)],
    ['refresh_token', (form) => this.byRefresh(form)],
  ])

  constructor(deps: EndpointDeps) {
    this.deps = deps
  }

  private async byPassword(form: Form, from: string): Promise<Granted> {
    const { store, refresh, throttle, refused } = this.deps
    const name = need(form, 'username')
    const password = need(form, 'password')
    const scope = grantScope(askedScopes(form))
    // The right password waits too: otherwise the wait would reveal which password is right.
    const key = name.slice(0, 128)
    const wait = throttle.begin(key, from)
    if (wait > 0) {
      refused('throttled')
      throw new OAuthError('slow_down', 'too many failed log-ins', wait)
    }
    let session: Session | null
    try {
      const user = await logIn(store, name, password)
      session = user === null ? null : await refresh.start(user, scope)
    } catch (error) {
      throttle.undone(key, from)
      throw error
    }
    if (session === null) {
      refused('password')
      throw new OAuthError('invalid_grant', 'user or password is wrong')
    }
    throttle.succeeded(key, from)
    return { session, scope }
  }

  private async byRefresh(form: Form): Promise<Granted> {
    const { refresh, refused } = this.deps
    const given = need(form, 'refresh_token')
    // This is checked before the token is used: a refused request must not change anything.
    const asked = askedScopes(form)
    const session = await refresh.rotate(given)
    if (session === null) {
      refused('refresh_token')
      throw new OAuthError('invalid_grant', 'the refresh token is not valid any more')
    }
    return { session, scope: grantScope(asked, session.scope) }
  }
}

/**
 * The plugin of the embedded realm: log-in, refresh, log-out, discovery.
 *
 * @param deps users, keys and the lifetimes of tokens, in seconds
 */
export function tokenEndpoint(deps: EndpointDeps): FastifyPluginAsync {
  const { realm, url, issuer, keys, refresh, address } = deps
  const grants = new Grants(deps)

  /** The realm has one client. */
  function fromClient(form: Form): Form {
    if (need(form, 'client_id') !== clientId)
      throw new OAuthError('invalid_client', 'no such client')
    return form
  }

  async function token(request: FastifyRequest, reply: FastifyReply) {
    const form = fromClient(formOf(request))
    const type = need(form, 'grant_type')
    const grant = grants.types.get(type)
    if (grant === undefined)
      throw new OAuthError(
        'unsupported_grant_type',
        'the grant types are password and refresh_token',
      )
    const { session, scope } = await grant(form, address(request.raw))
    const iss = url(request.raw)
    const openid = scope.split(' ').includes('openid')
    return reply.headers(uncached).send({
      access_token: await issuer.signAccessToken(session.user, scope, iss),
      expires_in: accessLife,
      refresh_token: session.token,
      refresh_expires_in: refreshLife,
      token_type: 'Bearer',
      ...(openid ? { id_token: await issuer.signIdToken(session, iss) } : {}),
      scope,
    })
  }

  /** RFC 7009: an unknown token counts as revoked. Access tokens expire within `accessLife`. */
  async function revoke(request: FastifyRequest, reply: FastifyReply) {
    await refresh.endByToken(need(fromClient(formOf(request)), 'token'))
    return reply.headers(uncached).send()
  }

  /** By refresh token, as Keycloak takes it, or by `id_token_hint` (OpenID Connect RP-Initiated Logout 2). */
  async function logOut(request: FastifyRequest, reply: FastifyReply) {
    const post = request.method === 'POST'
    const form = post ? formOf(request) : readForm(request.url.split('?')[1] ?? '')
    if (post && form.has('refresh_token'))
      await refresh.endByToken(need(fromClient(form), 'refresh_token'))
    else {
      const session = await issuer.sessionOf(need(form, 'id_token_hint'))
      if (session !== null) await refresh.end(session)
    }
    return reply.code(204).headers(uncached).send()
  }

  function refuse(reply: FastifyReply, { code, message, retryAfter }: OAuthError) {
    if (retryAfter !== null) reply.header('retry-after', String(retryAfter))
    if (code === 'invalid_client') reply.header('www-authenticate', `Bearer realm="${realm}"`)
    return reply
      .code(oauthErrors[code])
      .headers(uncached)
      .send({ error: code, error_description: message })
  }

  const routes = realmRoutes(`/auth/realms/${realm}`, {
    token,
    revoke,
    logOut,
    discovery: async ({ raw }) => discoveryOf(url(raw), [...grants.types.keys()]),
    keys: async () => keys.jwks(),
  })

  return async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: maxForm },
      (_request, body, done) => done(null, body),
    )
    app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
      const { statusCode = 500, message } = error
      if (error instanceof Problem) throw error
      if (error instanceof OAuthError) return refuse(reply, error)
      if (error instanceof BusyError)
        return refuse(reply, new OAuthError('temporarily_unavailable', message, 2))
      if (statusCode < 500) return refuse(reply, new OAuthError('invalid_request', message))
      request.log.error({ err: message }, 'the token endpoint failed')
      const text = 'the store does not respond'
      return refuse(reply, new OAuthError('temporarily_unavailable', text, 5))
    })
    for (const route of routes) addRoute(app, route)
  }
}
