/** What `npm start` runs without a configuration file: a demo supplier behind `/bid/demo`, state in `data/`. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ConfigInput } from './config/schema.ts'

/** The configuration of the embedded default; `demoUrl` is where the built-in demo supplier listens. */
export function defaultConfig(demoUrl: string): ConfigInput {
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

/** To show results within a minute the demo has a holdout to compare with, and loose constraints. */
export const demoOpd = {
  enabled: true,
  holdout: 0.1,
  minWinRate: 0.9,
  minSpend: 0.85,
  explore: 0.02,
} as const

/** Bid requests a second of the demo, and the mean delay of a win notice in milliseconds. */
export const demoTraffic = { rate: 200, noticeDelay: 3000 } as const

/** The default configuration as `npm run demo` uses it, with a short attribution window. */
export function demoConfig(demoUrl: string): ConfigInput {
  const config = defaultConfig(demoUrl)
  const suppliers = config.suppliers!.map((supplier) => ({ ...supplier, opd: demoOpd }))
  return { ...config, suppliers, opd: { attributionWindow: '20s' } }
}

export function newKey(): string {
  return randomBytes(32).toString('base64url')
}

/** The context keys if the configuration has none: created once and kept in the state folder. */
export function loadOrCreateKeys(stateDir: string): { id: number; secret: string }[] {
  const file = join(stateDir, 'keys.json')
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  const keys = [{ id: 1, secret: newKey() }]
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, `${JSON.stringify(keys)}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return keys
}

/** A shell command that sends one bid request, printed at the first start. */
export function curlLine(proxyPort: number): string {
  const request = {
    id: 'curl-1',
    imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5, tagid: 'top' }],
    site: { domain: 'news.example', publisher: { id: 'pub-1' } },
    tmax: 200,
  }
  return `curl -s http://127.0.0.1:${proxyPort}/bid/demo -H 'Content-Type: application/json' -d '${JSON.stringify(request)}'`
}
