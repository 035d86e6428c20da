/**
 * Strict parser for the forms of token requests (RFC 6749 3.2: no parameter twice; an empty parameter counts as
 * omitted).
 */

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

export function readForm(body: string): Map<string, string> {
  const form = new Map<string, string>()
  for (const pair of body.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const name = decode(at < 0 ? pair : pair.slice(0, at))
    const value = at < 0 ? '' : decode(pair.slice(at + 1))
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

export const defaultScope = scopes.join(' ')

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
