/** What `npm start` runs without a configuration file: a demo supplier behind `/bid/demo`, state in `data/`. */
import { join } from 'node:path'
import type { ConfigInput } from './config/schema.ts'

/**
 * The configuration of the embedded default.
 *
 * @param demoUrl the URL at which the built-in demo supplier listens
 */
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

/**
 * The default configuration as `npm run demo` uses it, with a short attribution window, and a decision log of some minutes, so that
 * other settings can be tried in the console.
 *
 * @param demoUrl the URL at which the built-in demo supplier listens
 * @param stateDir the state folder, to which the decision log is written
 */
export function demoConfig(demoUrl: string, stateDir = 'data'): ConfigInput {
  const config = defaultConfig(demoUrl)
  const suppliers = config.suppliers!.map((supplier) => ({ ...supplier, opd: demoOpd }))
  const decisionLog = { path: join(stateDir, 'decisions.ndjson'), maxBytes: '64MiB', keep: 1 }
  return { ...config, suppliers, opd: { attributionWindow: '20s', decisionLog } }
}
