/** Why a token is refused: one table, its codes are what tests and logs see. */
export const tokenErrors = {
  missing: { status: 401, error: null, title: 'A bearer token is needed' },
  malformed: { status: 401, error: 'invalid_token', title: 'The bearer token cannot be read' },
  algorithm: {
    status: 401,
    error: 'invalid_token',
    title: 'The token is signed in no way we take',
  },
  unknown_key: {
    status: 401,
    error: 'invalid_token',
    title: 'The token is signed by no known key',
  },
  signature: { status: 401, error: 'invalid_token', title: 'The signature does not hold' },
  expired: { status: 401, error: 'invalid_token', title: 'The token has expired' },
  not_yet: { status: 401, error: 'invalid_token', title: 'The token is not valid yet' },
  issuer: { status: 401, error: 'invalid_token', title: 'The token is of another issuer' },
  audience: { status: 401, error: 'invalid_token', title: 'The token is for another service' },
  type: { status: 401, error: 'invalid_token', title: 'The token is not an access token' },
  claims: { status: 401, error: 'invalid_token', title: 'A claim of the token cannot be read' },
  forbidden: { status: 403, error: 'insufficient_scope', title: 'The caller lacks the role' },
  unavailable: { status: 503, error: null, title: 'Tokens cannot be verified right now' },
} as const

export type TokenErrorCode = keyof typeof tokenErrors

export class TokenError extends Error {
  override name = 'TokenError'
  readonly code: TokenErrorCode

  constructor(code: TokenErrorCode, options?: ErrorOptions) {
    super(tokenErrors[code].title, options)
    this.code = code
  }
}
