/** The signing keys of the embedded issuer: generated once, stored in the database, the same on every node. */
import { type CryptoKey, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import { sql } from 'kysely'
import type { Store } from '../../store/index.ts'

export const algorithm = 'ES256'

export interface SigningKeys {
  /** The oldest key signs, so that all nodes use the same one. */
  readonly kid: string
  readonly privateKey: CryptoKey
  find(kid: string): CryptoKey | undefined
  /** RFC 7517 5: public members only. */
  jwks(): { keys: JWK[] }
}

export async function openKeys(store: Pick<Store, 'db' | 'postgres'>): Promise<SigningKeys> {
  const rows = await store.db.transaction().execute(async (trx) => {
    // Two nodes that start at the same time generate one key.
    if (store.postgres) await sql`select pg_advisory_xact_lock(4217002)`.execute(trx)
    const known = await trx
      .selectFrom('signing_keys')
      .selectAll()
      .orderBy('created_at')
      .orderBy('kid')
      .execute()
    if (known.length > 0) return known
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
    const row = {
      kid: crypto.randomUUID(),
      private_jwk: JSON.stringify(await exportJWK(privateKey)),
      created_at: Date.now(),
    }
    await trx.insertInto('signing_keys').values(row).execute()
    return [row]
  })
  const keys = new Map<string, CryptoKey>()
  const shown: JWK[] = []
  for (const { kid, private_jwk } of rows) {
    const { d: _, ...open } = JSON.parse(private_jwk) as JWK
    const jwk = { ...open, kid, alg: algorithm, use: 'sig' }
    shown.push(jwk)
    keys.set(kid, (await importJWK(jwk, algorithm)) as CryptoKey)
  }
  const [first] = rows
  const privateKey = (await importJWK(JSON.parse(first!.private_jwk), algorithm)) as CryptoKey
  return {
    kid: first!.kid,
    privateKey,
    find: (kid) => keys.get(kid),
    jwks: () => ({ keys: shown }),
  }
}
