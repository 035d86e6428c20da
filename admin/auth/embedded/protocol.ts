/**
 * The protocol of the embedded realm: its forms (RFC 6749), its calls and its discovery document. An external issuer documents its own.
 */
import * as z from 'zod'
import { type Handler, jsonAnswer, type Route } from '../../http/call.ts'
import { algorithm } from './issuer.ts'

/** Errors of RFC 6749 5.2, and two more for an overloaded or throttled endpoint, with their statuses. */
export const oauthErrors = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_grant: 400,
  invalid_scope: 400,
  unsupported_grant_type: 400,
  slow_down: 429,
  temporarily_unavailable: 503,
} as const

export class OAuthError extends Error {
  override name = 'OAuthError'
  readonly code: keyof typeof oauthErrors
  /** Seconds. */
  readonly retryAfter: number | null

  constructor(code: OAuthError['code'], description: string, retryAfter: number | null = null) {
    super(description)
    this.code = code
    this.retryAfter = retryAfter
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (cause) {
    throw new OAuthError(
      'invalid_request',
      `the form is not encoded correctly: ${(cause as Error).message}`,
    )
  }
}

/** Strict (RFC 6749 3.2): no parameter twice; an empty parameter counts as omitted. */
export function readForm(body: string): Map<string, string> {
  const form = new Map<string, string>()
  for (const pair of body.split('&')) {
    if (pair === '') continue
    const index = pair.indexOf('=')
    const name = decode(index < 0 ? pair : pair.slice(0, index))
    const value = index < 0 ? '' : decode(pair.slice(index + 1))
    if (form.has(name)) throw new OAuthError('invalid_request', 'a parameter is repeated')
    form.set(name, value)
  }
  for (const [name, value] of form) if (value === '') form.delete(name)
  return form
}

export function need(form: Map<string, string>, name: string): string {
  const value = form.get(name)
  if (value === undefined) throw new OAuthError('invalid_request', `${name} is missing`)
  return value
}

const scopes = ['openid', 'email', 'profile']

const defaultScope = scopes.join(' ')

/** The requested scopes; null if the request has none. */
export function askedScopes(form: Map<string, string>): string[] | null {
  const asked = form.get('scope')
  if (asked === undefined) return null
  if (!/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(asked))
    throw new OAuthError('invalid_scope', 'scope is a list of names separated by single spaces')
  return asked.split(' ')
}

/**
 * The granted scopes. Unknown scopes are dropped, and the response names the granted ones (RFC 6749 3.3). If none
 * remains, or none was requested, all of `within` is granted.
 */
export function grantScope(asked: string[] | null, within = defaultScope): string {
  const given = within.split(' ').filter((scope) => asked?.includes(scope))
  return given.length > 0 ? given.join(' ') : within
}

type RealmHandlers = Record<'token' | 'revoke' | 'logOut' | 'discovery' | 'keys', Handler>

const client = z.literal('public-client')
const tokenForm = z.object({
  client_id: client,
  grant_type: z.enum(['password', 'refresh_token']),
  username: z.string().optional(),
  password: z.string().meta({ format: 'password' }).optional(),
  scope: z
    .string()
    .meta({ examples: ['openid email profile'] })
    .optional(),
  refresh_token: z.string().optional(),
})
const granted = z.object({
  access_token: z.string(),
  expires_in: z.int().describe('Seconds'),
  refresh_token: z.string(),
  refresh_expires_in: z.int().describe('Seconds'),
  token_type: z.literal('Bearer'),
  id_token: z.string().optional().describe('If `openid` is granted'),
  scope: z.string().describe('The granted scopes, without unknown ones'),
})
const revokeForm = z.object({
  client_id: client,
  token: z.string(),
  token_type_hint: z.string().optional().describe('Ignored'),
})
const hint = z.string().describe('Expired or not')
const logOutForm = z.object({
  client_id: client.optional(),
  refresh_token: z.string().optional().describe('Requires `client_id`'),
  id_token_hint: hint.optional(),
})

const errorSchema = z.object({ error: z.string(), error_description: z.string().optional() })
const oauth = (description: string, error: string) =>
  jsonAnswer(description, errorSchema, { error })
const refusals = {
  400: oauth('RFC 6749 5.2', 'invalid_request'),
  401: oauth('No such client', 'invalid_client'),
  503: oauth('The store does not respond: try again', 'temporarily_unavailable'),
}
const type = 'application/x-www-form-urlencoded'
const shared = { tag: 'tokens', role: null } as const

/** `base` is the path of the realm. Forms are read strictly as RFC 6749 says, and the schemas document them. */
export function realmRoutes(base: string, handlers: RealmHandlers): Route[] {
  const protocol = `${base}/protocol/openid-connect`
  const ended = { description: 'The session has ended' }
  return [
    {
      ...shared,
      method: 'POST',
      path: `${protocol}/token`,
      id: 'token',
      handler: handlers.token,
      summary: 'An access token, by password or refresh token (RFC 6749)',
      description: 'Refresh tokens rotate. If one is used twice, its whole family ends.',
      body: {
        schema: tokenForm,
        type,
        example: {
          client_id: 'public-client',
          grant_type: 'password',
          username: 'admin',
          password: '…',
        },
      },
      answers: {
        200: jsonAnswer('Tokens', granted, {
          access_token: 'ey…',
          expires_in: 300,
          refresh_token: 'k3…',
          refresh_expires_in: 2592000,
          token_type: 'Bearer',
          scope: 'openid email profile',
        }),
        400: oauth('RFC 6749 5.2', 'invalid_grant'),
        401: refusals[401],
        429: oauth('Too many failed log-ins: wait `Retry-After` seconds', 'slow_down'),
        503: oauth('Busy: try again', 'temporarily_unavailable'),
      },
    },
    {
      ...shared,
      method: 'POST',
      path: `${protocol}/revoke`,
      id: 'revoke',
      handler: handlers.revoke,
      summary: 'Ends the session of a refresh token (RFC 7009)',
      description:
        'An unknown token counts as revoked. Access tokens are not revoked; they expire.',
      body: { schema: revokeForm, type, example: { client_id: 'public-client', token: 'k3…' } },
      answers: { 200: ended, ...refusals },
    },
    {
      ...shared,
      method: 'POST',
      path: `${protocol}/logout`,
      id: 'logOut',
      handler: handlers.logOut,
      summary: 'Ends a session, by its refresh token or an ID token',
      body: {
        schema: logOutForm,
        type,
        example: { client_id: 'public-client', refresh_token: 'k3…' },
      },
      answers: { 204: ended, ...refusals },
    },
    {
      ...shared,
      method: 'GET',
      head: false,
      path: `${protocol}/logout`,
      id: 'logOutByHint',
      handler: handlers.logOut,
      summary: 'Ends the session of an ID token (OpenID Connect RP-Initiated Logout)',
      query: z.object({ id_token_hint: hint }),
      answers: { 204: ended, ...refusals },
    },
    {
      ...shared,
      method: 'GET',
      path: `${base}/.well-known/openid-configuration`,
      id: 'discovery',
      handler: handlers.discovery,
      summary: 'OpenID Connect discovery',
      answers: {
        200: jsonAnswer('The issuer and its endpoints', z.looseObject({ issuer: z.string() })),
      },
    },
    {
      ...shared,
      method: 'GET',
      path: `${protocol}/certs`,
      id: 'keys',
      handler: handlers.keys,
      summary: 'The public keys that tokens are signed with (RFC 7517)',
      answers: {
        200: jsonAnswer('A key set', z.object({ keys: z.array(z.looseObject({})) }), { keys: [] }),
      },
    },
  ]
}

/** OpenID Connect Discovery 3. */
export const discoveryOf = (issuer: string, grants: readonly string[]) => ({
  issuer,
  token_endpoint: `${issuer}/protocol/openid-connect/token`,
  jwks_uri: `${issuer}/protocol/openid-connect/certs`,
  revocation_endpoint: `${issuer}/protocol/openid-connect/revoke`,
  end_session_endpoint: `${issuer}/protocol/openid-connect/logout`,
  grant_types_supported: grants,
  response_types_supported: [],
  subject_types_supported: ['public'],
  token_endpoint_auth_methods_supported: ['none'],
  revocation_endpoint_auth_methods_supported: ['none'],
  id_token_signing_alg_values_supported: [algorithm],
  scopes_supported: defaultScope.split(' '),
  claims_supported: ['iss', 'sub', 'aud', 'exp', 'iat', 'auth_time', 'preferred_username', 'sid'],
})
