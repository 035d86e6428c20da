/** The discovery document of the embedded realm (OpenID Connect Discovery 3). */
import { defaultScope } from './form.ts'
import { algorithm } from './keys.ts'

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
