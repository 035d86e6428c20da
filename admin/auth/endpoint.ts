/** `POST …/token`, discovery and JWKS of the embedded realm (SERVICE 4.1, 5; errors by RFC 6749 5.2). */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { clientId, type EmbeddedIssuer } from './embedded.ts'
import { Busy } from './passwords.ts'
import { createThrottle } from './throttle.ts'

const bodyLimit = 16 * 1024

type Refusal = 'invalid_request' | 'invalid_client' | 'invalid_grant' | 'unsupported_grant_type'
const statuses: Readonly<Record<Refusal, number>> = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_grant: 400,
  unsupported_grant_type: 400,
}

const refuse = (reply: FastifyReply, error: Refusal, error_description: string) =>
  reply.code(statuses[error]).send({ error, error_description })

/** The form's fields; a string says what is wrong with it. */
function fieldsOf(body: unknown): Map<string, string> | string {
  if (typeof body !== 'string') return 'a form is wanted'
  const fields = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(body)) {
    if (fields.has(name)) return `${name} is sent twice`
    fields.set(name, value)
  }
  return fields
}

export function tokenEndpoint(deps: {
  realm: string
  issuer: EmbeddedIssuer
  now: () => number
}): FastifyPluginAsync {
  const { realm, issuer, now } = deps
  const throttle = createThrottle()
  const base = `/auth/realms/${realm}`
  const endpoint = `${base}/protocol/openid-connect`

  const slowed = (reply: FastifyReply, seconds: number) =>
    reply
      .code(429)
      .header('retry-after', String(seconds))
      .send({ error: 'slow_down', error_description: `try again in ${seconds} s` })

  async function password(fields: Map<string, string>, address: string, reply: FastifyReply) {
    const name = fields.get('username')
    const secret = fields.get('password')
    if (name === undefined || secret === undefined)
      return refuse(reply, 'invalid_request', 'username and password are wanted')
    const wait = throttle.wait(name, address, now())
    if (wait > 0) return slowed(reply, wait)
    // Counted before the hash is computed: attempts that run side by side must not all be free.
    throttle.failed(name, address, now())
    const tokens = await issuer.password(name, secret, fields.get('scope'))
    if (tokens === null)
      return refuse(reply, 'invalid_grant', 'the user name or the password is wrong')
    throttle.succeeded(name, address)
    return reply.send(tokens)
  }

  async function refresh(fields: Map<string, string>, reply: FastifyReply) {
    const token = fields.get('refresh_token')
    if (token === undefined) return refuse(reply, 'invalid_request', 'refresh_token is wanted')
    const tokens = await issuer.refresh(token)
    if (tokens === null) return refuse(reply, 'invalid_grant', 'the refresh token is not valid')
    return reply.send(tokens)
  }

  async function grant(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    reply.header('cache-control', 'no-store').header('pragma', 'no-cache')
    const fields = fieldsOf(request.body)
    if (typeof fields === 'string') return refuse(reply, 'invalid_request', fields)
    const client = fields.get('client_id')
    if (client === undefined) return refuse(reply, 'invalid_request', 'client_id is wanted')
    if (client !== clientId) return refuse(reply, 'invalid_client', 'this client is not known')
    const type = fields.get('grant_type')
    if (type === undefined) return refuse(reply, 'invalid_request', 'grant_type is wanted')
    try {
      if (type === 'password') return await password(fields, request.ip, reply)
      if (type === 'refresh_token') return await refresh(fields, reply)
    } catch (error) {
      if (error instanceof Busy) return slowed(reply, 1)
      throw error
    }
    return refuse(reply, 'unsupported_grant_type', 'password and refresh_token are known')
  }

  return async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit },
      async (_request: FastifyRequest, body: string) => body,
    )
    // Any other type is an error of the grant, in the grant's own form.
    app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, async () => null)
    app.post(`${endpoint}/token`, { bodyLimit }, grant)
    app.get(`${endpoint}/certs`, async () => issuer.jwks())
    app.get(`${base}/.well-known/openid-configuration`, async () => ({
      issuer: issuer.issuer,
      token_endpoint: `${issuer.issuer}/protocol/openid-connect/token`,
      jwks_uri: `${issuer.issuer}/protocol/openid-connect/certs`,
      grant_types_supported: ['password', 'refresh_token'],
      response_types_supported: ['token'],
      subject_types_supported: ['public'],
      token_endpoint_auth_methods_supported: ['none'],
      id_token_signing_alg_values_supported: ['ES256'],
      scopes_supported: ['openid', 'email', 'profile'],
    }))
  }
}
