/** What a token check costs: seen before, and for the first time. CPU microseconds a token. */
import { createIssuer, openKeys } from '../../admin/auth/embedded/issuer.ts'
import { cachedVerifier } from '../../admin/auth/tokens.ts'
import { openStore } from '../../admin/store/index.ts'
import type { Block } from '../harness/report.ts'

const log = { info() {}, warn() {}, error() {} }

export async function tokenCost(): Promise<Block[]> {
  const store = await openStore('sqlite::memory:', { now: Date.now, log })
  const path = '/auth/realms/main'
  const issuer = createIssuer(await openKeys(store), path, Date.now)
  const verifier = cachedVerifier(issuer.check, Date.now)
  const tokens = await Promise.all(
    Array.from({ length: 500 }, (_, index) => {
      const user = { name: `u${index}`, roles: ['api'], account: '*' }
      return issuer.signAccessToken(user, 'openid', `http://localhost${path}`)
    }),
  )
  const measure = async (rounds: number) => {
    const began = process.cpuUsage()
    for (let round = 0; round < rounds; round++)
      // a new string each time, as the header of a request is
      for (const token of tokens) await verifier.verify(Buffer.from(token).toString('latin1'))
    const { user, system } = process.cpuUsage(began)
    return (user + system) / (rounds * tokens.length)
  }
  const first = await measure(1)
  await measure(20)
  const seenBefore = await measure(200)
  verifier.close()
  await store.close()
  return [
    `Seen before ${seenBefore.toFixed(1)} us, for the first time ${first.toFixed(0)} us (CPU, ES256).`,
  ]
}
