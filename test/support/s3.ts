/** A real S3-compatible server of its own, Versity S3 Gateway on a folder, which `.ci/s3` builds. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { newFolder } from './process.ts'
import { accepts } from './redis.ts'
import { until } from './until.ts'

const program = process.env['S3_SERVER'] ?? '/nowhere'

/** What `t.test` takes as `skip`. */
export const absent = existsSync(program)
  ? false
  : 'an S3-compatible server not found (S3_SERVER, .ci/s3 builds it)'

const secrets = { ROOT_ACCESS_KEY: 'bidweir', ROOT_SECRET_KEY: 'secret of the test' }

/** Starts it with the bucket `backups`. */
export async function startS3() {
  const folder = newFolder()
  mkdirSync(join(folder, 'backups'))
  const port = await freePort()
  const child = endWithTest(
    spawn(program, ['--port', `127.0.0.1:${port}`, 'posix', folder], {
      cwd: newFolder(),
      env: { ...process.env, ...secrets },
      stdio: 'ignore',
    }),
  )
  await until(() => accepts(port), { what: 'the S3-compatible server' })
  return {
    /** For a process that uses it. */
    env: {
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: secrets.ROOT_ACCESS_KEY,
      AWS_SECRET_ACCESS_KEY: secrets.ROOT_SECRET_KEY,
    },
    /** The objects of a bucket. */
    list: async (bucket: string) =>
      readdirSync(join(folder, bucket), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(join(folder, bucket), join(entry.parentPath, entry.name)))
        .filter((name) => !name.startsWith('.')),
    async close() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}
