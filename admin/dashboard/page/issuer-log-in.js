/** Log-in at an external issuer: authorization code with PKCE (RFC 7636). The console is a public client. */

/** @import { External } from './session.js' */

const pending = 'bidweir-log-in'

/** @param {Uint8Array<ArrayBuffer>} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '')
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

/** @type {Promise<Record<string, string>> | null} */
let known = null

/** The metadata of the issuer (OpenID Connect Discovery 4). @param {External} external */
export function discover({ issuer }) {
  known ??= fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    .then(async (response) => {
      if (!response.ok) throw new Error(`the issuer answered ${response.status}`)
      return response.json()
    })
    .catch((error) => {
      known = null
      throw error
    })
  return known
}

/** Where the issuer sends the browser back to: this page without its fragment. */
const here = () => `${location.origin}${location.pathname}`

/** Opens the log-in page of the issuer. @param {External} external */
export async function start(external) {
  const { authorization_endpoint: endpoint = '' } = await discover(external)
  const [verifier, state] = [random(), random()]
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
  sessionStorage.setItem(pending, JSON.stringify({ verifier, state, hash: location.hash }))
  const url = new URL(endpoint)
  for (const [name, value] of Object.entries({
    client_id: external.clientId,
    response_type: 'code',
    redirect_uri: here(),
    scope: 'openid profile email',
    state,
    code_challenge: base64url(new Uint8Array(hash)),
    code_challenge_method: 'S256',
  }))
    url.searchParams.set(name, value)
  location.assign(url)
}

/** The request for the tokens of a log-in that the issuer has just ended; null if there is none. @returns {Record<string, string> | null} */
export function finishedLogIn() {
  const query = new URLSearchParams(location.search)
  const stored = sessionStorage.getItem(pending)
  if (stored === null || !(query.has('code') || query.has('error'))) return null
  sessionStorage.removeItem(pending)
  const { verifier, state, hash } = JSON.parse(stored)
  history.replaceState(null, '', `${location.pathname}${hash}`)
  // replaceState fires no event, and the screen follows the fragment
  dispatchEvent(new HashChangeEvent('hashchange'))
  if (query.get('state') !== state) throw new Error('the answer belongs to another log-in')
  const fault = query.get('error')
  if (fault !== null) throw new Error(query.get('error_description') ?? fault)
  return {
    grant_type: 'authorization_code',
    code: query.get('code') ?? '',
    redirect_uri: here(),
    code_verifier: verifier,
  }
}
