/** A real Keycloak with the realm of test/admin/auth/fixtures: `KEYCLOAK_HOME="$(.ci/keycloak)"`, or the cache that it fills. */
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { startLimit, until } from './until.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const home = process.env['KEYCLOAK_HOME'] ?? join(cache, 'bidweir', 'keycloak-26.0.7')
/** Its builds: one that answers below /auth, and one that answers at the root. */
const prepared = (name: 'auth' | 'root') => join(home, 'prepared', name)
const realm = new URL('../admin/auth/fixtures/realm.json', import.meta.url)

export const keycloakAbsent = (['auth', 'root'] as const).every((name) =>
  existsSync(prepared(name)),
)
  ? false
  : 'keycloak not found (.ci/keycloak prepares it)'

/** A home with a copy of the prepared database, in which `root` has the password `root-1`. */
export function ownKeycloak(name: 'auth' | 'root'): string {
  const [from, copy] = [prepared(name), mkdtempSync(join(tmpdir(), 'keycloak-'))]
  // The script takes the folder above its own for its home.
  mkdirSync(join(copy, 'bin'))
  for (const part of ['bin/kc.sh', 'data'])
    cpSync(join(from, part), join(copy, part), { recursive: true })
  for (const part of ['conf', 'lib', 'providers', 'themes', 'version.txt'])
    symlinkSync(join(from, part), join(copy, part))
  return copy
}

/** Keycloak as prepared, on a port of this machine. It stays a server for production, but without TLS. */
export const keycloakCommand = (folder: string, port: number) => ({
  command: join(folder, 'bin', 'kc.sh'),
  args: [
    ...['start', '--optimized', '--import-realm', '--cache=local'],
    ...['--http-enabled=true', '--hostname-strict=false'],
    ...['--http-host=127.0.0.1', `--http-port=${port}`],
  ],
  env: {
    // It runs for seconds: the second compiler, a parallel collector and checks of its bytecode cost more than they bring.
    JAVA_OPTS: [
      ...['-Xms256m', '-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
      ...['-XX:+UnlockDiagnosticVMOptions', '-XX:-BytecodeVerificationRemote'],
    ].join(' '),
  },
})

/** Resolves with its address, `http://host:port`, once the realm is there; ended with the test. */
export async function startKeycloak(t: Test): Promise<string> {
  const keycloak = ownKeycloak('auth')
  mkdirSync(join(keycloak, 'data', 'import'))
  cpSync(realm, join(keycloak, 'data/import/realm.json'))
  const port = await freePort()
  const { command, args, env } = keycloakCommand(keycloak, port)
  const child = endWithTest(
    spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    }),
  )
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      said = (said + chunk).slice(-4000)
    })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await gone
    rmSync(keycloak, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  const ready = async () => {
    if (child.exitCode !== null) throw new Error(`Keycloak ended: ${said}`)
    const answer = await fetch(`${url}/auth/realms/main`).catch(() => null)
    await answer?.body?.cancel()
    return answer?.ok === true
  }
  await until(ready, { what: 'the realm of a Keycloak', limit: startLimit })
  return url
}
