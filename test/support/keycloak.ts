/** A real Keycloak with the realm of test/auth/fixtures: `KEYCLOAK_HOME="$(.ci/keycloak)"`, or the cache that it fills. */
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from './postgres.ts'
import { until } from './until.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const home = process.env['KEYCLOAK_HOME'] ?? join(cache, 'bidweir', 'keycloak-26.0.7')
const realm = new URL('../admin/auth/fixtures/realm.json', import.meta.url)

export const keycloakAbsent = existsSync(join(home, 'bin', 'kc.sh')) ? false : 'keycloak not found'

/** A home of its own: Keycloak writes its build and its database beside its libraries. */
export function ownKeycloak(): string {
  const own = mkdtempSync(join(tmpdir(), 'keycloak-'))
  for (const part of ['bin', 'conf', 'providers', 'themes', 'version.txt'])
    if (existsSync(join(home, part))) cpSync(join(home, part), join(own, part), { recursive: true })
  mkdirSync(join(own, 'lib'))
  for (const part of ['app', 'lib', 'quarkus', 'quarkus-run.jar']) {
    const from = join(home, 'lib', part)
    if (part === 'lib') symlinkSync(from, join(own, 'lib', part))
    else cpSync(from, join(own, 'lib', part), { recursive: true })
  }
  return own
}

/** Resolves with its address, `http://host:port`, once the realm is there; ended with the test. */
export async function startKeycloak(t: Test): Promise<string> {
  const own = ownKeycloak()
  mkdirSync(join(own, 'data', 'import'), { recursive: true })
  cpSync(realm, join(own, 'data/import/realm.json'))
  const port = await freePort()
  const args = ['start-dev', '--import-realm', '--http-relative-path=/auth', '--cache=local']
  const child = spawn(
    join(own, 'bin', 'kc.sh'),
    [...args, '--http-host=127.0.0.1', `--http-port=${port}`],
    {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        // It lives for seconds: the second compiler costs more than it brings.
        JAVA_OPTS_APPEND: '-XX:TieredStopAtLevel=1',
        KC_BOOTSTRAP_ADMIN_USERNAME: 'root',
        KC_BOOTSTRAP_ADMIN_PASSWORD: 'root-1',
      },
    },
  )
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      said = (said + chunk).slice(-4000)
    })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    // the script starts Java: the whole group ends
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await gone
    rmSync(own, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  const ready = async () => {
    if (child.exitCode !== null) throw new Error(`Keycloak ended: ${said}`)
    const answer = await fetch(`${url}/auth/realms/main`).catch(() => null)
    await answer?.body?.cancel()
    return answer?.ok === true
  }
  await until(ready, { what: 'the realm of a Keycloak', limit: 240_000 })
  return url
}
