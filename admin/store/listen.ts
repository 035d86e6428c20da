import pg from 'pg'
import type { Log } from '../../opd/shared/log.ts'

/** The channel of `pg_notify`. */
export const channel = 'bidweir'

/**
 * LISTEN on a separate connection. If it is lost, polling continues and it is opened again. Behind PgBouncer in
 * transaction mode no notification arrives, and only polling is left.
 */
export function listen(url: string, changed: () => void, log: Log) {
  let closed = false
  let client: pg.Client | null = null
  let retry: NodeJS.Timeout | null = null
  const again = () => {
    if (closed || retry !== null) return
    retry = setTimeout(() => {
      retry = null
      open()
    }, 1000)
    retry.unref()
  }
  const open = () => {
    const next = new pg.Client({ connectionString: url, connectionTimeoutMillis: 3000 })
    client = next
    next.on('notification', changed)
    next.on('error', (error) => {
      log.warn({ err: error.message }, 'the LISTEN connection was lost')
      again()
    })
    next.on('end', again)
    next
      .connect()
      .then(() => next.query(`listen ${channel}`))
      // Polling goes on, and reports a database that is away.
      .catch(again)
  }
  open()
  return {
    async close() {
      closed = true
      if (retry !== null) clearTimeout(retry)
      await client
        ?.end()
        .catch((error: Error) =>
          log.warn({ err: error.message }, 'the LISTEN connection was not closed in order'),
        )
    },
  }
}
