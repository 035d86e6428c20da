/** The calls of the embedded realm, and its discovery document. An external issuer documents its own. */
import * as z from 'zod'
import { type Call, jsonAnswer } from '../../http/call.ts'
import { defaultScope } from './form.ts'
import { algorithm } from './issuer.ts'

export interface RealmCall extends Call {
  name: 'token' | 'revoke' | 'logOut' | 'discovery' | 'keys'
  head?: boolean
}

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
const shared = { tag: 'tokens', role: null, problems: [] } as const

/** `base` is the path of the realm. Forms are read strictly as RFC 6749 says, and the schemas document them. */
export function realmCalls(base: string): RealmCall[] {
  const protocol = `${base}/protocol/openid-connect`
  const ended = { description: 'The session has ended' }
  return [
    {
      ...shared,
      name: 'token',
      method: 'POST',
      path: `${protocol}/token`,
      id: 'token',
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
      name: 'revoke',
      method: 'POST',
      path: `${protocol}/revoke`,
      id: 'revoke',
      summary: 'Ends the session of a refresh token (RFC 7009)',
      description:
        'An unknown token counts as revoked. Access tokens are not revoked; they expire.',
      body: { schema: revokeForm, type, example: { client_id: 'public-client', token: 'k3…' } },
      answers: { 200: ended, ...refusals },
    },
    {
      ...shared,
      name: 'logOut',
      method: 'POST',
      path: `${protocol}/logout`,
      id: 'logOut',
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
      name: 'logOut',
      method: 'GET',
      head: false,
      path: `${protocol}/logout`,
      id: 'logOutByHint',
      summary: 'Ends the session of an ID token (OpenID Connect RP-Initiated Logout)',
      query: z.object({ id_token_hint: hint }),
      answers: { 204: ended, ...refusals },
    },
    {
      ...shared,
      name: 'discovery',
      method: 'GET',
      path: `${base}/.well-known/openid-configuration`,
      id: 'discovery',
      summary: 'OpenID Connect discovery',
      answers: {
        200: jsonAnswer('The issuer and its endpoints', z.looseObject({ issuer: z.string() })),
      },
    },
    {
      ...shared,
      name: 'keys',
      method: 'GET',
      path: `${protocol}/certs`,
      id: 'keys',
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
