/**
 * Refresh tokens: opaque, kept by hash, each good once. One used twice ends its whole family, whoever of the
 * two was the thief (RFC 9700 4.14.2).
 */
import { createHash, randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Store } from '../../store/index.ts'
import type { Tables } from '../../store/tables.ts'

/** Seconds; each rotation starts it anew. */
export const refreshLife = 30 * 24 * 3600

/** Rows that one log-in clears away; each leaves at most one. */
const endedAtOnce = 500

export interface Grant {
  user: string
  scope: string
}

export interface RefreshTokens {
  /** A token of a new family. */
  start(grant: Grant): Promise<string>
  /** The next token of the family, or null: unknown, expired, or used before, and then the family is over. */
  rotate(token: string): Promise<(Grant & { token: string }) | null>
  /** What the token was given for, without using it. */
  peek(token: string): Promise<Grant | null>
}

const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

export function refreshTokens(
  store: Pick<Store, 'db' | 'postgres'>,
  now: () => number,
): RefreshTokens {
  const { db, postgres } = store
  async function issue(within: Kysely<Tables>, family: string, { user, scope }: Grant) {
    const token = randomBytes(32).toString('base64url')
    const expires_at = now() + refreshLife * 1000
    await within
      .insertInto('refresh_tokens')
      .values({ hash: hashOf(token), family, user_name: user, scope, expires_at, used: 0 })
      .execute()
    return token
  }
  const find = (within: Kysely<Tables>, token: string) =>
    within
      .selectFrom('refresh_tokens')
      .selectAll()
      .where('hash', '=', hashOf(token))
      .executeTakeFirst()
  return {
    async start(grant) {
      const ended = db
        .selectFrom('refresh_tokens')
        .select('hash')
        .where('expires_at', '<', now())
        .limit(endedAtOnce)
      await db.deleteFrom('refresh_tokens').where('hash', 'in', ended).execute()
      return issue(db, crypto.randomUUID(), grant)
    },
    async peek(token) {
      const row = await find(db, token)
      return row === undefined ? null : { user: row.user_name, scope: row.scope }
    },
    rotate: (token) =>
      db.transaction().execute(async (trx) => {
        const known = await find(trx, token)
        if (known === undefined || known.expires_at < now()) return null
        // One rotation of a family at a time: a reuse that races a rotation must end its token too.
        if (postgres)
          await sql`select pg_advisory_xact_lock(hashtextextended(${known.family}, 0))`.execute(trx)
        const row = await find(trx, token)
        if (row === undefined) return null
        if (row.used !== 0) {
          await trx
            .updateTable('refresh_tokens')
            .set({ used: 1 })
            .where('family', '=', row.family)
            .execute()
          return null
        }
        await trx
          .updateTable('refresh_tokens')
          .set({ used: 1 })
          .where('hash', '=', row.hash)
          .execute()
        const grant = { user: row.user_name, scope: row.scope }
        return { ...grant, token: await issue(trx, row.family, grant) }
      }),
  }
}
