/** Log-in and calls of the API. Tokens are stored for this tab only. */
import { signal } from '@preact/signals'
import * as issuer from './issuer-log-in.js'

/** @typedef {{ access: string, refresh: string | null }} Tokens */
/** @typedef {{ issuer: string, clientId: string }} External */

/** Milliseconds until an answer is not waited for any more. A replay may take 75 s. */
const longest = 90_000
/** Milliseconds until the settings are asked for again. */
const again = 3000

export class ApiError extends Error {
  /** @param {string} message @param {number} status 0: no answer came */
  constructor(message, status) {
    super(message)
    this.status = status
  }
}

/** What to do about a failure, which the words of a browser do not say. @param {unknown} error @param {number} limit */
const noAnswer = (error, limit) =>
  new ApiError(
    /** @type {Error} */ (error).name === 'TimeoutError'
      ? `bidweir has not answered for ${limit / 1000} s: it is overloaded, or the network is slow`
      : 'bidweir cannot be reached: it does not run, or the network to it is down',
    0,
  )

/** Sends a request and reads its answer whole. @param {string} path @param {RequestInit} options @param {number} limit milliseconds */
async function send(path, options, limit = longest) {
  try {
    const response = await fetch(path, { ...options, signal: AbortSignal.timeout(limit) })
    const body = await response.arrayBuffer()
    const { status, headers } = response
    // a body is not allowed with these, not even an empty one
    return new Response([204, 205, 304].includes(status) ? null : body, { status, headers })
  } catch (error) {
    throw noAnswer(error, limit)
  }
}

/** Waits until the service answers. @returns {Promise<{ realm: string | null, external: External | null }>} */
async function readSettings() {
  for (;;) {
    const answer = await send('/dashboard/settings.json', {}).catch((error) => error)
    if (answer instanceof Response && answer.ok) return answer.json()
    const why = answer instanceof Response ? inWords(answer.status) : answer.message
    const place = document.getElementById('app')
    if (place !== null)
      place.textContent = `The console cannot start: ${why}. It tries again by itself.`
    await new Promise((resolve) => setTimeout(resolve, again))
  }
}

/** What an answer without a description of its problem means. @param {number} status */
function inWords(status) {
  if (status === 502 || status === 503 || status === 504)
    return `bidweir cannot be reached behind its proxy (${status})`
  return status >= 500
    ? `bidweir had an error of its own (${status}): its log says why`
    : `the response was ${status}`
}

export const settings = await readSettings()
const kept = 'bidweir'

/** @type {import('@preact/signals').Signal<Tokens | null>} */
export const tokens = signal(JSON.parse(sessionStorage.getItem(kept) ?? 'null'))
/** Why the user has to log in again; empty if there is no reason. */
export const notice = signal('')

/** @param {Tokens | null} next */
function keep(next) {
  if (next === null) sessionStorage.removeItem(kept)
  else sessionStorage.setItem(kept, JSON.stringify(next))
  tokens.value = next
}

/** Called when the session ends, so that no figure of it stays. @type {Set<() => void>} */
export const onEnd = new Set()

/** @param {string} why */
function leave(why = '') {
  keep(null)
  notice.value = why
  for (const listener of onEnd) listener()
}

/**
 * Calls the token endpoint (RFC 6749) or the revocation endpoint (RFC 7009) of the realm or of the issuer.
 * @param {'token' | 'revoke'} name @param {Record<string, string>} fields
 */
async function post(name, fields) {
  const { realm, external } = settings
  let url = `/auth/realms/${realm}/protocol/openid-connect/${name}`
  if (external !== null) {
    const { token_endpoint = '', revocation_endpoint = '' } = await issuer.discover(external)
    url = name === 'token' ? token_endpoint : revocation_endpoint
  }
  const body = new URLSearchParams({ client_id: external?.clientId ?? 'public-client', ...fields })
  // a log-out is sent even if the page is closed meanwhile
  return send(url, { method: 'POST', body, keepalive: name === 'revoke' })
}

/** @param {Record<string, string>} fields @returns {Promise<Tokens>} */
async function grant(fields) {
  const response = await post('token', fields)
  const body = await response.json().catch(() => ({}))
  if (response.ok) return { access: body.access_token, refresh: body.refresh_token ?? null }
  const wait = response.headers.get('retry-after')
  const why = wait === null ? body.error_description : `Too many attempts: wait ${wait} s`
  // only a 400 ends the session, a restart of the service does not
  throw Object.assign(new Error(why ?? body.title ?? body.error ?? inWords(response.status)), {
    rejected: response.status === 400,
  })
}

/** @param {string} username @param {string} password */
export async function logIn(username, password) {
  keep(await grant({ grant_type: 'password', username, password }))
  notice.value = ''
}

/** @type {Promise<void> | null} */
let refreshing = null

/** One refresh at a time, since a refresh token is valid once. */
function renew() {
  refreshing ??= grant({ grant_type: 'refresh_token', refresh_token: tokens.value?.refresh ?? '' })
    .then((next) => {
      // If the user has logged out meanwhile, the session of the new tokens has ended too.
      if (tokens.value !== null) keep(next)
    })
    .finally(() => {
      refreshing = null
    })
  return refreshing
}

/** What is wrong, and where: `canary.share: found nothing`. A text that names its field is enough. @param {{ pointer: string, detail: string }} of */
function faultText({ pointer, detail }) {
  const parts = pointer.split('/').slice(1)
  const field = parts.findLast((part) => !/^\d+$/.test(part))
  return field === undefined || detail.includes(field) ? detail : `${parts.join('.')}: ${detail}`
}

const roleMissing = 'This user lacks a role: at least viewer is required'

/**
 * The response of a call; a token that has expired is renewed.
 * @param {string} path @param {string} method @param {unknown} body @param {Record<string, string>} headers
 * @param {number} [limit] milliseconds
 */
export async function request(path, method = 'GET', body = undefined, headers = {}, limit) {
  const ask = () =>
    send(
      path,
      {
        method,
        headers: {
          ...headers,
          authorization: `Bearer ${tokens.value?.access}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      },
      limit,
    )
  let response = await ask()
  if (response.status === 401 && tokens.value?.refresh) {
    await renew().catch((error) => {
      if (error.rejected) leave('Your session has ended: log in again')
      throw error
    })
    response = await ask()
  }
  if (response.ok) return response
  if (response.status === 401) leave('Your session has ended: log in again')
  const problem = await response.json().catch(() => ({}))
  if (response.status === 403 && problem.code === 'forbidden' && path.startsWith('/api/svc/live/'))
    leave(roleMissing)
  const detail = problem.errors?.map(faultText)
  throw new ApiError(
    problem.code === 'forbidden'
      ? 'your user lacks the role or the account for it. An operator can give both'
      : detail?.join('; ') ||
          (problem.code === 'internal' ? '' : problem.title) ||
          inWords(response.status),
    response.status,
  )
}

/**
 * @param {string} path @param {string} method @param {unknown} body @param {Record<string, string>} headers
 * @param {number} [limit] milliseconds
 * @returns {Promise<any>}
 */
export async function call(path, method = 'GET', body = undefined, headers = {}, limit) {
  return (await request(path, method, body, headers, limit)).json()
}

/** Reads. @param {string} path @param {number} [limit] milliseconds @returns {Promise<any>} */
export const get = (path, limit) => call(path, 'GET', undefined, {}, limit)

/** Ends the session at the service or issuer too, since there may be other copies of the refresh token. */
export async function logOut() {
  const ended = tokens.value
  leave()
  if (!ended?.refresh) return
  const why = await post('revoke', { token: ended.refresh, token_type_hint: 'refresh_token' }).then(
    ({ ok, status }) => (ok ? '' : `the response was ${status}`),
    (/** @type {Error} */ { message }) => message,
  )
  if (why !== '')
    notice.value = `Logged out here. The session could not be ended at the service: ${why}. It ends when its refresh token expires; disabling the user ends it at once.`
}

/** Completes a log-in at the external issuer, if the page was opened by its redirect. */
export async function finishLogIn() {
  if (settings.external === null || tokens.value !== null) return
  try {
    const fields = issuer.finishedLogIn()
    if (fields !== null) keep(await grant(fields))
  } catch (error) {
    notice.value = `The log-in failed: ${/** @type {Error} */ (error).message}`
  }
}
