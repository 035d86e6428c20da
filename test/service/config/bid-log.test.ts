/** Which bids are written to Redis, and for how long (CONTRACT 2). */
import t from 'tap'
import { loadConfig } from '../../../service/config/load.ts'
import { sharedBidTtl } from '../../../service/runtime-config.ts'
import { file } from '../../support/config.ts'

const minute = 60_000

for (const [bidLog, auth, ttl] of [
  ['', 'bearer', 30 * minute],
  ['', 'context', 30 * minute],
  ['bidLog: {ttl: 5m}', 'context', 5 * minute],
  ['bidLog: {when: bareOnly}', 'bearer', 30 * minute],
  ['bidLog: {when: bareOnly}', 'none', 30 * minute],
  ['bidLog: {when: bareOnly}', 'context', 0],
  ['bidLog: {when: off}', 'bearer', 0],
] as const)
  t.test(`${bidLog || 'default'}, notices by ${auth}`, (t) => {
    const text = `admin: {impressions: {auth: ${auth}}}\nopd: {${bidLog}}\n`
    t.equal(sharedBidTtl(loadConfig(file(text)).config!), ttl)
    t.end()
  })
