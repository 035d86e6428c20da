/** Operations for tokens, health, metrics and documents. */
import { body, guarded, type Json, open, problems } from './parts.ts'

const state = (status: string): Json =>
  body(
    { type: 'object', properties: { status: { const: status } }, required: ['status'] },
    { status },
  )

const form: Json = {
  type: 'object',
  properties: {
    client_id: { type: 'string', const: 'public-client' },
    grant_type: { type: 'string', enum: ['password', 'refresh_token'] },
    username: { type: 'string' },
    password: { type: 'string', format: 'password' },
    scope: { type: 'string', examples: ['openid email profile'] },
    refresh_token: { type: 'string' },
  },
  required: ['client_id', 'grant_type'],
}
const granted: Json = {
  type: 'object',
  properties: {
    access_token: { type: 'string' },
    expires_in: { type: 'integer', description: 'Seconds' },
    refresh_token: { type: 'string' },
    refresh_expires_in: { type: 'integer', description: 'Seconds' },
    token_type: { const: 'Bearer' },
    id_token: { type: 'string', description: 'If `openid` is granted' },
    scope: { type: 'string', description: 'The granted scopes, without unknown ones' },
  },
  required: [
    'access_token',
    'expires_in',
    'refresh_token',
    'refresh_expires_in',
    'token_type',
    'scope',
  ],
}
const oauthError: Json = {
  type: 'object',
  properties: { error: { type: 'string' }, error_description: { type: 'string' } },
  required: ['error'],
}
const oauth = (description: string, error: string): Json => ({
  description,
  content: body(oauthError, { error }),
})

const formBody = (properties: Json, required: string[], example: Json): Json => ({
  required: true,
  content: body(
    { type: 'object', properties, required },
    example,
    'application/x-www-form-urlencoded',
  ),
})
const refusals: Json = {
  400: oauth('RFC 6749 5.2', 'invalid_request'),
  401: oauth('No such client', 'invalid_client'),
  503: oauth('The store does not respond: try again', 'temporarily_unavailable'),
}

/** Operations of the embedded realm; an external issuer documents its own. */
export const tokenPaths: Readonly<Record<string, Json>> = {
  'POST {realm}/protocol/openid-connect/token': {
    operationId: 'token',
    summary: 'An access token, by password or refresh token (RFC 6749)',
    description: 'Refresh tokens rotate. If one is used twice, its whole family ends.',
    tags: ['tokens'],
    security: open,
    requestBody: {
      required: true,
      content: body(
        form,
        { client_id: 'public-client', grant_type: 'password', username: 'admin', password: '…' },
        'application/x-www-form-urlencoded',
      ),
    },
    responses: {
      200: {
        description: 'Tokens',
        content: body(granted, {
          access_token: 'ey…',
          expires_in: 300,
          refresh_token: 'k3…',
          refresh_expires_in: 2592000,
          token_type: 'Bearer',
          scope: 'openid email profile',
        }),
      },
      400: oauth('RFC 6749 5.2', 'invalid_grant'),
      401: oauth('No such client', 'invalid_client'),
      429: oauth('Too many failed log-ins: wait `Retry-After` seconds', 'slow_down'),
      503: oauth('Busy: try again', 'temporarily_unavailable'),
    },
  },
  'POST {realm}/protocol/openid-connect/revoke': {
    operationId: 'revoke',
    summary: 'Ends the session of a refresh token (RFC 7009)',
    description: 'An unknown token counts as revoked. Access tokens are not revoked; they expire.',
    tags: ['tokens'],
    security: open,
    requestBody: formBody(
      {
        client_id: { type: 'string', const: 'public-client' },
        token: { type: 'string' },
        token_type_hint: { type: 'string', description: 'Ignored' },
      },
      ['client_id', 'token'],
      { client_id: 'public-client', token: 'k3…' },
    ),
    responses: { 200: { description: 'The session has ended' }, ...refusals },
  },
  'POST {realm}/protocol/openid-connect/logout': {
    operationId: 'logOut',
    summary: 'Ends a session, by its refresh token or an ID token',
    tags: ['tokens'],
    security: open,
    requestBody: formBody(
      {
        client_id: { type: 'string', const: 'public-client' },
        refresh_token: { type: 'string', description: 'Requires `client_id`' },
        id_token_hint: { type: 'string', description: 'Expired or not' },
      },
      [],
      { client_id: 'public-client', refresh_token: 'k3…' },
    ),
    responses: { 204: { description: 'The session has ended' }, ...refusals },
  },
  'GET {realm}/protocol/openid-connect/logout': {
    operationId: 'logOutByHint',
    summary: 'Ends the session of an ID token (OpenID Connect RP-Initiated Logout)',
    tags: ['tokens'],
    security: open,
    parameters: [
      {
        name: 'id_token_hint',
        in: 'query',
        required: true,
        description: 'Expired or not',
        schema: { type: 'string' },
      },
    ],
    responses: { 204: { description: 'The session has ended' }, ...refusals },
  },
  'GET {realm}/.well-known/openid-configuration': {
    operationId: 'discovery',
    summary: 'OpenID Connect discovery',
    tags: ['tokens'],
    security: open,
    responses: {
      200: { description: 'The issuer and its endpoints', content: body({ type: 'object' }, {}) },
    },
  },
  'GET {realm}/protocol/openid-connect/certs': {
    operationId: 'keys',
    summary: 'The public keys that tokens are signed with (RFC 7517)',
    tags: ['tokens'],
    security: open,
    responses: {
      200: { description: 'A key set', content: body({ type: 'object' }, { keys: [] }) },
    },
  },
}

const tags = ['service']
const plain = (type: string, description: string): Json => ({
  description,
  content: { [type]: { schema: { type: 'string' } } },
})

export const servicePaths: Readonly<Record<string, Json>> = {
  'GET /healthz': {
    operationId: 'alive',
    summary: 'Liveness of the process',
    tags,
    security: open,
    responses: { 200: { description: 'The process is alive', content: state('ok') } },
  },
  'GET /readyz': {
    operationId: 'ready',
    summary: 'Readiness for bid traffic',
    tags,
    security: open,
    responses: { 200: { description: 'Ready', content: state('ready') }, ...problems(503) },
  },
  'GET /readyz/admin': {
    operationId: 'readyAdmin',
    summary: 'Readiness of the store for API calls and win notices',
    tags,
    security: open,
    responses: { 200: { description: 'Ready', content: state('ready') }, ...problems(503) },
  },
  'GET /metrics': {
    operationId: 'metrics',
    summary: 'Metrics for Prometheus',
    tags,
    security: open,
    responses: { 200: plain('text/plain', 'The text exposition format') },
  },
  'GET /api/svc/live/': {
    operationId: 'live',
    summary: 'The figures of the dashboard',
    tags,
    security: guarded,
    responses: {
      200: { description: 'Figures of this node', content: body({ type: 'object' }, {}) },
      ...problems(401, 403),
    },
  },
  'GET /api/openapi.json': {
    operationId: 'document',
    summary: 'This document',
    tags,
    security: open,
    responses: {
      200: { description: 'OpenAPI 3.1', content: body({ type: 'object' }, { openapi: '3.1.0' }) },
    },
  },
  'GET /api/docs': {
    operationId: 'documentPage',
    summary: 'This document as a page, without resources of other hosts',
    tags,
    security: open,
    responses: { 200: plain('text/html', 'The page') },
  },
  'GET /': {
    operationId: 'dashboard',
    summary: 'The dashboard',
    tags,
    security: open,
    responses: { 200: plain('text/html', 'The page') },
  },
}
