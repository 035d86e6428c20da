/** What the service itself believes of an integration, read from its metrics. */
import { request } from 'undici'

/** Gauges that are worth a place in the summary, in this order. */
const shown: readonly (readonly [name: string, label: string])[] = [
  ['bidweir_kept_win_rate', 'wins kept'],
  ['bidweir_win_rate', 'win rate'],
  ['bidweir_uplift', 'uplift'],
]

/** `name{a="b"} 0.97` rows of the integration, as short texts; empty while there are none or no service. */
export async function estimates(adminUrl: string, ssp: string): Promise<string[]> {
  try {
    const answer = await request(`${adminUrl}/metrics`)
    const text = await answer.body.text()
    return answer.statusCode === 200 ? read(text, ssp) : []
  } catch {
    // The service is going down: the summary of the run's own figures stands alone.
    return []
  }
}

const row = /^([a-z_]+)\{([^}]*)\} (\S+)$/

export function read(text: string, ssp: string): string[] {
  const lines = text.split('\n')
  return shown.flatMap(([name, label]) =>
    lines.flatMap((line) => {
      const match = row.exec(line)
      if (match === null || !match[1]!.startsWith(name)) return []
      const labels = new Map(
        [...match[2]!.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key, value]) => [key, value]),
      )
      const value = Number(match[3])
      if (labels.get('ssp') !== ssp || !Number.isFinite(value)) return []
      const rest = [...labels].filter(([key]) => key !== 'ssp').map(([, text]) => text)
      const suffix = match[1]!.slice(name.length).replaceAll('_', ' ')
      return [`${[label + suffix, ...rest].join(' ')} ${value.toFixed(3)}`]
    }),
  )
}
