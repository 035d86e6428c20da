/** Estimates of the service for an integration, from its metrics. */
import { request } from 'undici'

/** Gauges with 95 % bounds in `_lower` and `_upper`. */
const shown: readonly (readonly [name: string, label: string])[] = [
  ['bidweir_kept_win_rate', 'win rate against the holdout'],
  ['bidweir_uplift', 'uplift per bid, CPM'],
]

/** `uplift per bid, CPM 0.020 (0.018 to 0.022)`, one text for each gauge and mode; empty without values or without a service. */
export async function estimates(adminUrl: string, ssp: string): Promise<string[]> {
  try {
    const answer = await request(`${adminUrl}/metrics`)
    const text = await answer.body.text()
    return answer.statusCode === 200 ? read(text, ssp) : []
  } catch {
    // The service is stopping: the summary contains only the figures of the run.
    return []
  }
}

const row = /^(bidweir_\w+)\{([^}]*)\} (\S+)$/

/** Values of the integration by `name mode`. */
function gauges(text: string, ssp: string): Map<string, number> {
  const found = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, name, list, value] = row.exec(line) ?? []
    if (name === undefined) continue
    const labels = new Map(
      [...list!.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, text]) => [key, text]),
    )
    if (labels.get('ssp') === ssp && Number.isFinite(Number(value)))
      found.set(`${name} ${labels.get('mode')}`, Number(value))
  }
  return found
}

export function read(text: string, ssp: string): string[] {
  const values = gauges(text, ssp)
  return shown.flatMap(([name, label]) =>
    ['revenue', 'margin'].flatMap((mode) => {
      const [at, low, high] = ['', '_lower', '_upper'].map((end) =>
        values.get(`${name}${end} ${mode}`)?.toFixed(3),
      )
      if (at === undefined) return []
      return [`${label} ${at}${low === undefined ? '' : ` (${low} to ${high})`}`]
    }),
  )
}
