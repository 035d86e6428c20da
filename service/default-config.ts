/** What `npm start` runs without a configuration file: a demo supplier behind `/bid/demo`, state in `data/`. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ConfigInput } from './config/schema.ts'

/** The configuration of the embedded default; `demoUrl` is where the built-in demo supplier listens. */
export function embeddedConfig(demoUrl: string): ConfigInput {
  return {
    location: 'local',
    admin: { impressions: { auth: 'context' } },
    suppliers: [
      {
        id: 'demo',
        name: 'Demo',
        name_external: 'Demo Exchange',
        account: 'demo',
        endpoints: [demoUrl],
        timeout: '250ms',
        opd: { enabled: true, holdout: 0 },
      },
    ],
  }
}

/**
 * The embedded default as `npm run demo` runs it: what it shows within a minute wants a holdout to compare with,
 * a loose constraint, and losses that are taught soon.
 */
export function demoConfig(demoUrl: string): ConfigInput {
  const config = embeddedConfig(demoUrl)
  const opd = { enabled: true, holdout: 0.1, minWinRate: 0.9, minSpend: 0.85, explore: 0.02 }
  const suppliers = config.suppliers!.map((supplier) => ({ ...supplier, opd }))
  return { ...config, suppliers, opd: { attributionWindow: '20s' } }
}

export function newKey(): string {
  return randomBytes(32).toString('base64url')
}

/** The context keys of a node that was given none: made once, kept in the state folder. */
export function keptKeys(stateDir: string): { id: number; secret: string }[] {
  const file = join(stateDir, 'keys.json')
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  const keys = [{ id: 1, secret: newKey() }]
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, `${JSON.stringify(keys)}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return keys
}

/** One bid request on one line of shell, for whoever starts bidweir for the first time. */
export function curlLine(proxyPort: number): string {
  const request = {
    id: 'curl-1',
    imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5, tagid: 'top' }],
    site: { domain: 'news.example', publisher: { id: 'pub-1' } },
    tmax: 200,
  }
  return `curl -s http://127.0.0.1:${proxyPort}/bid/demo -H 'Content-Type: application/json' -d '${JSON.stringify(request)}'`
}
