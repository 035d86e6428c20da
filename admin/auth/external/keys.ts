/** The keys of an external issuer: discovered, refreshed, and kept while the issuer is unreachable. */

import { type CryptoKey, importJWK, type JWK } from 'jose'
import { fetch } from 'undici'
import { getOrAdd } from '../../../opd/shared/get-or-add.ts'
import type { Log } from '../../../opd/shared/log.ts'
import { TokenError } from '../errors.ts'

/** Only asymmetric algorithms: a public key must not be used as a shared secret. */
export const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]

const every = 10 * 60_000
const retry = 2000
/** Milliseconds between two fetches for unknown key ids, so that a flood of them causes one fetch. */
const coolDown = 5000
const timeout = 5000
const maxKeys = 100
const maxBytes = 512 * 1024

export interface IssuerKeys {
  /** Throws a TokenError: `unknown_key`, or `unavailable` if no keys have been fetched yet. */
  find(kid: string, alg: string): Promise<CryptoKey>
  close(): void
}

const fits: Record<string, (alg: string, jwk: JWK) => boolean> = {
  RSA: (alg) => alg.startsWith('RS') || alg.startsWith('PS'),
  EC: (alg, { crv }) => alg === { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' }[crv ?? ''],
  OKP: (alg, { crv }) => alg === 'EdDSA' && crv === 'Ed25519',
}

async function getJson(url: string): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    headers: { accept: 'application/json' },
    redirect: 'error',
    signal: AbortSignal.timeout(timeout),
  })
  if (!answer.ok || answer.body === null) {
    await answer.body?.cancel()
    throw new Error(`${url} returned ${answer.status}`)
  }
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of answer.body) {
    size += part.byteLength
    if (size > maxBytes) throw new Error(`${url} returned more than ${maxBytes} bytes`)
    parts.push(part)
  }
  const value: unknown = JSON.parse(Buffer.concat(parts).toString())
  if (typeof value !== 'object' || value === null) throw new Error(`${url} returned no JSON object`)
  return value as Record<string, unknown>
}

export function issuerKeys(issuer: string, log: Log, now: () => number = Date.now): IssuerKeys {
  let known: Map<string, JWK> | null = null
  let imported = new Map<string, Promise<CryptoKey>>()
  let fetching: Promise<void> | null = null
  let fetchedAt = Number.NEGATIVE_INFINITY
  let closed = false
  let timer: NodeJS.Timeout | null = null

  async function load(): Promise<void> {
    const found = await getJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    // OpenID Connect Discovery 4.3
    if (found['issuer'] !== issuer) throw new Error('the document names another issuer')
    if (typeof found['jwks_uri'] !== 'string') throw new Error('the document names no jwks_uri')
    const { keys } = await getJson(found['jwks_uri'])
    if (!Array.isArray(keys)) throw new Error('the key set contains no keys')
    const next = new Map<string, JWK>()
    for (const jwk of (keys as JWK[]).slice(0, maxKeys))
      if (
        typeof jwk?.kid === 'string' &&
        Object.hasOwn(fits, String(jwk.kty)) &&
        (jwk.use === undefined || jwk.use === 'sig')
      )
        next.set(jwk.kid, jwk)
    // An empty set indicates a fault of the issuer, so the previous keys are kept.
    if (next.size === 0) throw new Error('the key set contains no usable key')
    known = next
    imported = new Map()
  }

  function refresh(): Promise<void> {
    fetchedAt = now()
    fetching ??= load()
      .then(
        () => schedule(every),
        (error: Error) => {
          const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
          const kept = known?.size ?? 0
          log.warn(
            { issuer, err: error.message + cause, kept },
            'keys of the issuer could not be fetched',
          )
          schedule(known === null ? retry : every / 10)
        },
      )
      .finally(() => {
        fetching = null
      })
    return fetching
  }

  function schedule(after: number): void {
    if (closed) return
    if (timer !== null) clearTimeout(timer)
    timer = setTimeout(() => void refresh(), after)
    timer.unref()
  }

  void refresh()
  return {
    async find(kid, alg) {
      if (known === null || !known.has(kid)) {
        if (fetching !== null) await fetching
        else if (now() - fetchedAt >= coolDown) await refresh()
      }
      if (known === null) throw new TokenError('unavailable')
      const jwk = known.get(kid)
      if (jwk === undefined) throw new TokenError('unknown_key')
      if (fits[String(jwk.kty)]?.(alg, jwk) !== true || (jwk.alg ?? alg) !== alg)
        throw new TokenError('algorithm')
      const name = `${alg} ${kid}`
      return getOrAdd(imported, name, () => importJWK(jwk, alg) as Promise<CryptoKey>)
    },
    close() {
      closed = true
      if (timer !== null) clearTimeout(timer)
    },
  }
}
