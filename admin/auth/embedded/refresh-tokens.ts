/**
 * Refresh tokens: opaque, stored as hashes, each valid once. If a token is used twice, its whole family ends, because
 * one of the two may come from an attacker (RFC 9700 4.14.2).
 */
import { createHash, randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Store } from '../../store/index.ts'
import type { Tables } from '../../store/tables.ts'
import { findUser, type StoredUser, type User } from '../users.ts'

/** Seconds. Each rotation starts a new period. */
export const refreshLife = 30 * 24 * 3600

/** Expired rows that one log-in deletes; a log-in adds one row. */
const endedAtOnce = 500

/** A session starts with a log-in by password. */
export interface Session {
  /** The family of its refresh tokens. */
  id: string
  user: User
  scope: string
  /** Milliseconds since the epoch. */
  authTime: number
  /** The refresh token that is valid now. */
  token: string
}

export interface RefreshTokens {
  /** null: the user was changed after the password was checked. */
  start(user: StoredUser, scope: string): Promise<Session | null>
  /**
   * null: the token is unknown, expired or used before, or the user is disabled or removed. The session ends in all
   * cases but the first two.
   */
  rotate(token: string): Promise<Session | null>
  /** Ends the session of a token, used or unused. An unknown token is ignored. */
  endByToken(token: string): Promise<void>
  end(session: string): Promise<void>
}

const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

/**
 * The refresh tokens of the embedded realm. The database has their hashes alone.
 *
 * @param store of all nodes
 * @param now milliseconds since the epoch
 */
export function refreshTokens(
  store: Pick<Store, 'db' | 'postgres'>,
  now: () => number,
): RefreshTokens {
  const { db, postgres } = store
  async function issue(within: Kysely<Tables>, session: Omit<Session, 'token'>): Promise<Session> {
    const token = randomBytes(32).toString('base64url')
    const { id, user, scope, authTime } = session
    const row = {
      hash: hashOf(token),
      family: id,
      user_name: user.name,
      scope,
      expires_at: now() + refreshLife * 1000,
      used: 0,
      auth_time: authTime,
    }
    await within.insertInto('refresh_tokens').values(row).execute()
    return { ...session, token }
  }
  const find = (within: Kysely<Tables>, token: string) =>
    within
      .selectFrom('refresh_tokens')
      .selectAll()
      .where('hash', '=', hashOf(token))
      .executeTakeFirst()
  /** Serializes changes of a session: a token that is issued concurrently must end with the session. */
  const lock = async (trx: Kysely<Tables>, id: string) => {
    if (postgres) await sql`select pg_advisory_xact_lock(hashtextextended(${id}, 0))`.execute(trx)
  }
  const end = (id: string) =>
    db.transaction().execute(async (trx) => {
      await lock(trx, id)
      await trx.deleteFrom('refresh_tokens').where('family', '=', id).execute()
    })
  return {
    async start(user, scope) {
      const ended = db
        .selectFrom('refresh_tokens')
        .select('hash')
        .where('expires_at', '<', now())
        .limit(endedAtOnce)
      await db.deleteFrom('refresh_tokens').where('hash', 'in', ended).execute()
      const authTime = now()
      return db.transaction().execute(async (trx) => {
        // This also locks the user: a later change of the user ends this session.
        const same = await trx
          .updateTable('users')
          .set({ last_login: authTime })
          .where('name', '=', user.name)
          .where('hash', '=', user.hash)
          .where('disabled', '=', 0)
          .returning('name')
          .executeTakeFirst()
        if (same === undefined) return null
        return issue(trx, { id: crypto.randomUUID(), user, scope, authTime })
      })
    },
    rotate: (token) =>
      db.transaction().execute(async (trx) => {
        const known = await find(trx, token)
        if (known === undefined || known.expires_at < now()) return null
        const { family, user_name, scope, auth_time } = known
        await lock(trx, family)
        // Roles and account are read again: a change of the user applies from the next refresh.
        const user = await findUser(trx, user_name, postgres)
        // The row is read again under both locks.
        const row = await find(trx, token)
        if (row === undefined) return null
        if (row.used !== 0 || user === null || user.disabled) {
          await trx.deleteFrom('refresh_tokens').where('family', '=', family).execute()
          return null
        }
        await trx
          .updateTable('refresh_tokens')
          .set({ used: 1 })
          .where('hash', '=', row.hash)
          .execute()
        return issue(trx, { id: family, user, scope, authTime: auth_time })
      }),
    end,
    async endByToken(token) {
      const row = await find(db, token)
      if (row !== undefined) await end(row.family)
    },
  }
}
