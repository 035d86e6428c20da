/** A real PgBouncer in transaction mode, before a PostgreSQL; null where it is absent. */

import { spawn } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWithTest } from './children.ts'
import { asPostgres, freePort } from './postgres.ts'
import { accepts } from './redis.ts'
import { until } from './until.ts'

const program = '/usr/sbin/pgbouncer'

export const pgBouncerAbsent = existsSync(program) ? false : 'PgBouncer not found'

interface PgBouncer {
  url: string
  close(): Promise<void>
}

export async function startPgBouncer(database: string, connections: number): Promise<PgBouncer> {
  const { hostname, port: behind } = new URL(database)
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-pgbouncer-'))
  const port = await freePort()
  writeFileSync(join(folder, 'users.txt'), '"bidweir" ""\n')
  writeFileSync(
    join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=${hostname} port=${behind}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${folder}/users.txt
pool_mode = transaction
default_pool_size = ${connections}
`,
  )
  // it refuses to run as root, too
  const who = asPostgres()
  if (who.uid !== undefined) chownSync(folder, who.uid, who.gid)
  const child = endWithTest(
    spawn(program, ['-q', join(folder, 'pgbouncer.ini')], { ...who, cwd: folder, stdio: 'ignore' }),
  )
  const gone = new Promise((resolve) => child.once('exit', resolve))
  await until(() => accepts(port), { what: 'a PgBouncer that accepts connections' })
  return {
    url: `postgres://bidweir@127.0.0.1:${port}/postgres`,
    async close() {
      child.kill('SIGKILL')
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
