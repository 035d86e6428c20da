/** What a token check costs: seen before, and for the first time. Microseconds a token. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cachedVerifier } from '../../admin/auth/cache.ts'
import { createIssuer } from '../../admin/auth/embedded/issuer.ts'
import { openKeys } from '../../admin/auth/embedded/keys.ts'
import { openStore } from '../../admin/store/index.ts'

const log = { info() {}, warn() {}, error() {} }
const dir = mkdtempSync(join(tmpdir(), 'bidweir-auth-'))
const store = await openStore(`sqlite:${join(dir, 'a.db')}`, { now: Date.now, log })
const issuer = createIssuer(await openKeys(store), 'http://localhost/auth/realms/main', Date.now)
const verifier = cachedVerifier(issuer.check, Date.now)
const users = Array.from({ length: 500 }, (_, at) => ({
  name: `u${at}`,
  roles: ['api'],
  account: '*',
}))
const tokens = await Promise.all(users.map((user) => issuer.sign(user, 'openid')))

async function measure(name: string, rounds: number): Promise<void> {
  const began = process.cpuUsage()
  for (let round = 0; round < rounds; round++)
    // a new string each time, as the header of a request is
    for (const token of tokens) await verifier.verify(Buffer.from(token).toString('latin1'))
  const { user, system } = process.cpuUsage(began)
  const each = (user + system) / (rounds * tokens.length)
  process.stdout.write(`${name.padEnd(12)} ${each.toFixed(1)} us\n`)
}

await measure('first time', 1)
await measure('warm-up', 20)
await measure('seen before', 200)
verifier.close()
await store.close()
rmSync(dir, { recursive: true })
